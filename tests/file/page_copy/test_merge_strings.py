"""Pages of strings with tables of their own become large ones that have one."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.page_copy import CopySource, MergeRule, copy_pages, dialect_2_1, merge_strings
from lance_ops.pb import encodings21_pb2
from lance_ops.storage import open_store
from tests.support.page_copy import copy_and_check, pages, write_peer_files

pytestmark = pytest.mark.peer

ROWS = 6000


def texts(seed, *, nulls=0.0, words="one two three four five six seven eight"):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(words.split(), (ROWS, 5))
    values = [" ".join(row) + f" {n * 7919 % 100_003}" for n, row in enumerate(chosen)]
    return pa.array(values, mask=rng.random(ROWS) < nulls)


def layouts(store, path):
    return [
        encodings21_pb2.PageLayout.FromString(page.encoding.value).mini_block_layout
        for _, page, _ in pages(store, path)
    ]


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path, {"fsync": "false"})


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", [0.0, 0.1])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("deleted", [0.0, 0.02])
def test_they_become_one_page_with_one_table(tmp_path, store, version, nulls, kind, deleted):
    tables = [pa.table({"t": texts(seed, nulls=nulls).cast(kind)}) for seed in range(4)]
    names = write_peer_files(tmp_path, tables, version)
    before = [layout for name in names for layout in layouts(store, name)]
    assert all(layout.value_compression.HasField("fsst") for layout in before)
    rng = np.random.default_rng(5)
    gone = [np.flatnonzero(rng.random(ROWS) < deleted) for _ in tables]
    copy_and_check(tmp_path, names, gone)
    sources = [CopySource(store, name, deleted=rows) for name, rows in zip(names, gone, strict=True)]
    written = copy_pages(store, "copy", sources)
    (layout,) = layouts(store, "copy")
    assert layout.value_compression.HasField("fsst")
    assert layout.num_items == written.num_rows
    sizes = sum((tmp_path / name).stat().st_size for name in names)
    assert written.size_bytes < sizes * 1.05


@pytest.mark.parametrize("nulls", [0.0, 0.2])
def test_so_do_those_in_structs(tmp_path, store, nulls):
    rng = np.random.default_rng(9)
    tables = []
    for seed in range(3):
        inner = pa.StructArray.from_arrays([texts(seed, nulls=nulls)], ["t"])
        tables.append(
            pa.table(
                {"s": pa.StructArray.from_arrays([inner], ["r"], mask=pa.array(rng.random(ROWS) < nulls))}
            )
        )
    names = write_peer_files(tmp_path, tables, "2.2")
    copy_and_check(tmp_path, names, [None, np.arange(5, ROWS, 7), np.arange(100)])
    (layout,) = layouts(store, "copy.lance")
    assert layout.value_compression.HasField("fsst")
    assert len(layout.layers) == 3


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_tables_with_too_little_in_common_stay_or_are_found_anew(tmp_path, store, monkeypatch, small):
    tables = [pa.table({"t": texts(seed)}) for seed in range(3)]
    names = write_peer_files(tmp_path, tables, "2.2")
    monkeypatch.setattr(merge_strings, "MAX_GROWTH", 0.0)
    monkeypatch.setattr(dialect_2_1, "DEFAULT_RULE", MergeRule(small_text_bytes=small))
    copy_and_check(tmp_path, names, [None, np.arange(100), None])
    assert len(layouts(store, "copy.lance")) == (1 if small else 3)
