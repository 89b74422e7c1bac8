"""Storage version 2.0: every type, null pattern and size, written by one side and read by the other."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.file.schema import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.support.arrays import ALL_2_0_TYPES, random_array

pytestmark = pytest.mark.peer

SIZES = [0, 1, 2, 1000, 5000]
NULLS = {"none": 0.0, "some": 0.3, "all": 1.0}
TYPE_IDS = [str(data_type).replace(" ", "") for data_type in ALL_2_0_TYPES]


def build_table(data_type: pa.DataType, size: int, nulls: float) -> pa.Table:
    return pa.table({"c": random_array(data_type, size, nulls=nulls, seed=size)})


def rows_in_question(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    some = np.unique(rng.integers(0, max(size, 1), 20))[: max(size, 0)]
    return [np.arange(0), some if size else np.arange(0), np.arange(size)]


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    found.validate(full=True)
    assert found.schema.equals(expected.schema)
    assert found.num_rows == expected.num_rows
    for name in expected.column_names:
        if "dictionary" in str(expected[name].type):
            # Dictionaries differ from page to page without a difference in values.
            assert found[name].to_pylist() == expected[name].to_pylist()
        else:
            assert plain(found[name]).equals(plain(expected[name]))


def plain(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


@pytest.mark.parametrize("data_type", ALL_2_0_TYPES, ids=TYPE_IDS)
def test_the_peer_reads_what_we_write(data_type: pa.DataType, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for label, nulls in NULLS.items():
        for size in SIZES:
            table = build_table(data_type, size, nulls)
            name = f"{label}-{size}.lance"
            with FileWriter(store, name, Schema.from_arrow(table.schema)) as writer:
                writer.write(table)
            reader = lance.file.LanceFileReader(str(tmp_path / name))
            assert reader.num_rows() == size
            assert_same(reader.read_all().to_table(), table)
            if size:
                middle = reader.read_range(size // 3, size - size // 3).to_table()
                assert_same(middle, table.slice(size // 3))
                rows = rows_in_question(size)[1]
                assert_same(reader.take_rows(rows.tolist()).to_table(), table.take(rows))


@pytest.mark.parametrize("data_type", ALL_2_0_TYPES, ids=TYPE_IDS)
def test_many_small_pages_from_many_small_batches_are_read_by_both(
    data_type: pa.DataType, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path))
    table = build_table(data_type, 3000, 0.3)
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), page_bytes=2000) as writer:
        for batch in table.to_batches(max_chunksize=77):
            writer.write(batch)
    assert_same(lance.file.LanceFileReader(str(tmp_path / "a.lance")).read_all().to_table(), table)
    reader = FileReader.open(store, "a.lance")
    assert_same(reader.read_table(), table)
    assert_same(reader.read_table(start=1111, stop=2222), table.slice(1111, 1111))
    rows = np.arange(0, 3000, 37)
    assert_same(reader.take(rows), table.take(rows))


@pytest.mark.parametrize("data_type", ALL_2_0_TYPES, ids=TYPE_IDS)
def test_we_read_what_the_peer_writes(data_type: pa.DataType, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for label, nulls in NULLS.items():
        for size in SIZES:
            table = build_table(data_type, size, nulls)
            name = f"{label}-{size}.lance"
            with lance.file.LanceFileWriter(str(tmp_path / name), table.schema, version="2.0") as writer:
                for start in range(0, size, 1700):
                    # Copies, because the peer panics on slices of nested structs.
                    writer.write_batch(table.take(np.arange(start, min(start + 1700, size))))
            reader = FileReader.open(store, name)
            assert (reader.num_rows, reader.version) == (size, "2.0")
            assert_same(reader.read_table(), table)
            for start, stop in [(0, size // 2), (size // 3, size), (size // 2, size // 2 + 1), (size, size)]:
                stop = min(stop, size)
                assert_same(reader.read_table(start=start, stop=stop), table.slice(start, stop - start))
            for rows in rows_in_question(size):
                assert_same(reader.take(rows), table.take(rows))
            batches = list(reader.iter_batches(batch_rows=999))
            assert all(batch.num_rows <= 999 for batch in batches)
            assert_same(pa.Table.from_batches(batches, table.schema), table)


@pytest.mark.parametrize("data_type", ALL_2_0_TYPES, ids=TYPE_IDS)
def test_schemas_have_the_bytes_that_the_peer_writes(data_type: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("c", data_type, metadata={"k": "v"})], metadata={"s": "t"})
    path = str(tmp_path / "a.lance")
    with lance.file.LanceFileWriter(path, schema, version="2.0"):
        pass
    theirs = FileReader.open(open_store(str(tmp_path)), "a.lance").schema
    ours = Schema.from_arrow(schema)
    assert theirs == ours
    assert theirs.to_protos() == ours.to_protos()
