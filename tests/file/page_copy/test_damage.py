"""Damaged sources end in a typed error, or in a file as damaged as they are; nothing is left behind."""

import contextlib

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError, FileMissingError, LanceOpsError, UnsupportedError
from lance_ops.file.page_copy import DEFAULT_RULE, KEEP_ALL, CopySource, copy_pages
from lance_ops.file.reader import FileReader
from lance_ops.storage import open_store
from tests.support.arrays import random_array
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.page_copy import write_peer_files

pytestmark = pytest.mark.peer

ROWS = 64
KINDS = [
    pa.int64(),
    pa.string(),
    pa.list_(pa.string()),
    pa.struct([("a", pa.list_(pa.int32())), ("b", pa.bool_())]),
    pa.list_(pa.float32(), 4),
    pa.dictionary(pa.int32(), pa.string()),
]


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path, {"fsync": "false"})


def table(seed=0):
    columns = {f"c{n}": random_array(kind, ROWS, nulls=0.2, seed=seed + n) for n, kind in enumerate(KINDS)}
    columns["long"] = pa.array([f"{n} " * 150 for n in range(ROWS)])
    return pa.table(columns)


def attempt(store, names, rule, deleted):
    before = sorted(info.path for info in store.list(""))
    sources = [CopySource(store, name, deleted=deleted) for name in names]
    try:
        copy_pages(store, "copy.lance", sources, rule=rule)
    except LanceOpsError:
        assert sorted(info.path for info in store.list("")) == before
        return False
    # What was copied unseen is as damaged as it was before.
    with contextlib.suppress(CorruptFileError, UnsupportedError, pa.ArrowInvalid):
        FileReader.open(store, "copy.lance").read_table().validate(full=True)
    store.delete("copy.lance")
    return True


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_truncated_files_are_refused(tmp_path, store, version):
    names = write_peer_files(tmp_path, [table()], version)
    data = (tmp_path / names[0]).read_bytes()
    rng = np.random.default_rng(1)
    for size in [*range(60), *rng.integers(60, len(data) - 1, 30).tolist(), len(data) - 1]:
        (tmp_path / "cut").write_bytes(data[:size])
        assert not attempt(store, ["cut"], KEEP_ALL, None)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize(
    "rule", [pytest.param(KEEP_ALL, id="apart"), pytest.param(DEFAULT_RULE, id="merged")]
)
def test_changed_bytes_never_get_further_than_an_error(tmp_path, store, version, rule):
    names = write_peer_files(tmp_path, [table(), table(50)], version)
    data = np.frombuffer((tmp_path / names[1]).read_bytes(), dtype=np.uint8)
    rng = np.random.default_rng(7)
    deleted = np.arange(3, ROWS, 5)
    for _ in range(120):
        changed = data.copy()
        for position in rng.integers(0, len(data), rng.integers(1, 4)):
            changed[position] = rng.integers(0, 256)
        (tmp_path / "changed").write_bytes(changed.tobytes())
        attempt(store, [names[0], "changed"], rule, deleted)


def test_columns_of_different_lengths_are_named(tmp_path, store):
    (name,) = write_peer_files(tmp_path, [pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})], "2.1")
    from lance_ops.file.page_copy import copying

    opened = copying.open_source(CopySource(store, name))
    assert opened.starts == ((0, 3), (0, 3))
    data = (tmp_path / name).read_bytes()
    # The length of the second column's page, in front of its encoding: field 3 of the page.
    position = data.rindex(b"\x18\x03")
    (tmp_path / "wrong").write_bytes(data[: position + 1] + b"\x02" + data[position + 2 :])
    with pytest.raises(CorruptFileError) as caught:
        copy_pages(store, "copy.lance", [CopySource(store, name), CopySource(store, "wrong")])
    assert (caught.value.path, caught.value.field) == ("wrong", "column 1")


def test_a_source_that_vanishes_or_a_store_that_fails_leaves_nothing(tmp_path, store):
    names = write_peer_files(tmp_path, [table(), table(9)], "2.2")
    with pytest.raises(FileMissingError):
        copy_pages(store, "copy.lance", [CopySource(store, names[0]), CopySource(store, "gone")])
    assert sorted(info.path for info in store.list("")) == names
    number = 0
    while True:
        number += 1
        faulty = FaultyStore(store, fail_at=number)
        sources = [CopySource(faulty, name, deleted=np.array([1, 2])) for name in names]
        try:
            copy_pages(faulty, "copy.lance", sources)
        except (LanceOpsError, InjectedCrash):
            assert not store.exists("copy.lance")
            continue
        break
    assert number > 5
    assert FileReader.open(store, "copy.lance").num_rows == 2 * (ROWS - 2)
