"""Storage versions 2.1 and 2.2 as the peer writes them: every type, null pattern, size and encoding."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.storage import open_store
from tests.file.test_interop_2_0 import assert_same, rows_in_question
from tests.support.arrays import ALL_2_0_TYPES, random_array
from tests.support.counting_store import CountingStore
from tests.support.page_signature import page_signatures
from tests.support.peer_columns import COLUMNS, PeerColumn

pytestmark = pytest.mark.peer

VERSIONS = ["2.1", "2.2"]
SIZES = [0, 1, 2, 1023, 1024, 1025, 5000]
NULLS = {"none": 0.0, "some": 0.3, "all": 1.0}
ONLY_2_2 = [
    pa.map_(pa.string(), pa.int32()),
    pa.list_(pa.map_(pa.string(), pa.list_(pa.int32()))),
    pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]), 3),
    pa.struct([("f", pa.list_(pa.struct([("a", pa.list_(pa.float32(), 2))]), 2))]),
]
TYPES = [*ALL_2_0_TYPES, *ONLY_2_2]


def write_peer(path: Path, table: pa.Table, version: str, batch_rows: int = 1700) -> pa.Table:
    """Write a file and return what the peer itself reads of it."""
    with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
        for start in range(0, table.num_rows, batch_rows):
            # Copies, because the peer panics on slices of nested structs.
            writer.write_batch(table.take(np.arange(start, min(start + batch_rows, table.num_rows))))
    return lance.file.LanceFileReader(str(path)).read_all().to_table()


def add_null_structs(array: pa.Array, nulls: float, seed: int) -> pa.Array:
    if not pa.types.is_struct(array.type) or not array.type.num_fields:
        return array
    mask = np.random.default_rng(seed).random(len(array)) < nulls
    members = [array.field(number) for number in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(members, fields=list(array.type), mask=pa.array(mask))


def assert_reads(reader: FileReader, expected: pa.Table) -> None:
    size = expected.num_rows
    assert_same(reader.read_table(), expected)
    for start, stop in [(0, size // 2), (size // 3, size), (size // 2, size // 2 + 1), (size, size)]:
        stop = min(stop, size)
        assert_same(reader.read_table(start=start, stop=stop), expected.slice(start, stop - start))
    for rows in rows_in_question(size):
        assert_same(reader.take(rows), expected.take(rows))
    batches = list(reader.iter_batches(batch_rows=999))
    assert all(batch.num_rows <= 999 for batch in batches)
    assert_same(pa.Table.from_batches(batches, expected.schema), expected)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("data_type", TYPES, ids=[str(one).replace(" ", "") for one in TYPES])
def test_we_read_what_the_peer_writes(data_type: pa.DataType, version: str, tmp_path: Path) -> None:
    if data_type in ONLY_2_2 and version == "2.1":
        with pytest.raises(Exception, match="is not enabled by the selected file format"):
            write_peer(tmp_path / "a.lance", pa.table({"c": random_array(data_type, 3)}), version)
        return
    store = open_store(str(tmp_path))
    for label, nulls in NULLS.items():
        for size in SIZES:
            array = add_null_structs(random_array(data_type, size, nulls=nulls, seed=size), nulls, size)
            name = f"{label}-{size}.lance"
            expected = write_peer(tmp_path / name, pa.table({"c": array}), version)
            reader = FileReader.open(store, name)
            assert (reader.num_rows, reader.version) == (size, version)
            assert_reads(reader, expected)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("column", COLUMNS, ids=[column.name for column in COLUMNS])
def test_we_read_every_encoding(column: PeerColumn, version: str, tmp_path: Path) -> None:
    if version not in column.versions:
        return
    array = column.build()
    schema = pa.schema([pa.field("c", array.type, metadata=column.options)])
    expected = write_peer(tmp_path / "a.lance", pa.table([array], schema=schema), version, 1 << 20)
    if column.expect is not None:
        expected = pa.table([array], schema=schema)
    reader = FileReader.open(open_store(str(tmp_path)), "a.lance")
    signatures = page_signatures(reader)
    for wanted in column.encodings:
        assert any(wanted in signature for signature in signatures), signatures
    assert_reads(reader, expected)
    rng = np.random.default_rng(7)
    for start, stop in np.sort(rng.integers(0, len(array) + 1, (6, 2))).tolist():
        assert_same(reader.read_table(start=start, stop=stop), expected.slice(start, stop - start))


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_and_members_are_read_apart(version: str, tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("x", pa.string()), ("y", pa.int8())])))])
    table = pa.table(
        {
            "s": add_null_structs(random_array(kind, 3000), 0.2, 1),
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
    assert_reads(reader, expected)


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
