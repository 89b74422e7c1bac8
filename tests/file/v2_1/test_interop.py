"""Storage versions 2.1 and 2.2 as the peer writes them: columns apart, and what a range of rows reads."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.storage import open_store
from tests.file.matrix.cells import assert_same
from tests.file.matrix.test_peer_writes import check_reader
from tests.support.arrays import random_array
from tests.support.counting_store import CountingStore

pytestmark = pytest.mark.peer

VERSIONS = ["2.1", "2.2"]


def write_peer(path: Path, table: pa.Table, version: str, batch_rows: int = 1700) -> pa.Table:
    """Write a file and return what the peer itself reads of it."""
    with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
        for start in range(0, table.num_rows, batch_rows):
            # Copies, because the peer panics on slices of nested structs.
            writer.write_batch(table.take(np.arange(start, min(start + batch_rows, table.num_rows))))
    return lance.file.LanceFileReader(str(path)).read_all().to_table()


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_and_members_are_read_apart(version: str, tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("x", pa.string()), ("y", pa.int8())])))])
    table = pa.table(
        {
            "s": random_array(kind, 3000, null_structs=True),
            "i": random_array(pa.int64(), 3000),
            "t": random_array(pa.string(), 3000),
        }
    )
    expected = write_peer(tmp_path / "a.lance", table, version)
    reader = FileReader.open(open_store(str(tmp_path)), "a.lance")
    for names in (["t"], ["i", "s"], ["s.b.item.y"], ["s.a", "s.b.item.x"], ["s.b"]):
        schema = reader.schema.project(names)
        found = reader.read_table(schema, start=17, stop=2017)
        theirs = lance.file.LanceFileReader(str(tmp_path / "a.lance"), columns=names)
        assert_same(found, theirs.read_range(17, 2000).to_table())
    check_reader(reader, expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_row_range_reads_only_the_chunks_that_hold_it(version: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array(np.random.default_rng(0).integers(0, 2**62, 200_000)),
            "l": pa.array([[n, n + 1] for n in range(200_000)]),
        }
    )
    write_peer(tmp_path / "a.lance", table, version, 1 << 20)
    store = CountingStore(open_store(str(tmp_path)))
    reader = FileReader.open(store, "a.lance")
    store.reset()
    found = reader.read_table(start=123_456, stop=123_466)
    assert_same(found, table.slice(123_456, 10))
    assert store.num_bytes < 60_000
