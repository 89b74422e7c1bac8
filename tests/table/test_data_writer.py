"""New data files and the fragments that describe them."""

import pyarrow as pa
import pytest

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.file.schema.model import Schema
from lance_ops.storage import open_store
from lance_ops.table.data_writer import write_data_files
from tests.support.faulty_store import FaultyStore
from tests.support.snapshots import put_snapshot

SCHEMA = Schema.from_arrow(
    pa.schema([pa.field("i", pa.int64(), nullable=False), pa.field("s", pa.string())]), first_id=4
)


def batches(rows, size):
    table = pa.table({"i": range(rows), "s": [f"row {i}" for i in range(rows)]})
    return table.to_batches(max_chunksize=size)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize("limit", [1, 5, 20, 21])
def test_files_have_as_many_rows_as_allowed_whatever_the_batches(store, size, limit):
    fragments = write_data_files(store, batches(20, size), SCHEMA, max_rows_per_file=limit)
    full, rest = divmod(20, limit)
    assert [item.physical_rows for item in fragments] == [limit] * full + [rest] * bool(rest)
    numbered = [item.replace(id=number) for number, item in enumerate(fragments)]
    found = put_snapshot(store, *numbered, schema=SCHEMA).to_table()
    assert found.equals(pa.Table.from_batches(batches(20, size)).cast(SCHEMA.to_arrow()))


def test_fragments_say_what_their_files_are(store):
    (item,) = write_data_files(store, batches(3, 3), SCHEMA, version="2.0")
    (file,) = item.files
    assert (item.id, item.deletion_file, item.row_ids) == (0, None, None)
    assert (file.fields, file.column_indices, file.major, file.minor) == ((4, 5), (0, 1), 2, 0)
    assert file.size_bytes == store.size(f"data/{file.path}")


def test_a_file_ends_when_it_is_large_enough(store):
    wide = [pa.record_batch({"i": [i], "s": ["x" * 100_000]}) for i in range(10)]
    fragments = write_data_files(store, wide, SCHEMA, max_bytes_per_file=250_000)
    assert [item.physical_rows for item in fragments] == [3, 3, 3, 1]


def test_columns_are_found_by_name_and_others_left_out(store):
    batch = pa.record_batch({"s": ["a"], "other": [1.5], "i": [1]})
    (item,) = write_data_files(store, [batch], SCHEMA)
    assert put_snapshot(store, item, schema=SCHEMA).to_table().to_pylist() == [{"i": 1, "s": "a"}]


@pytest.mark.parametrize(
    "rows", [[], [pa.record_batch({"i": pa.array([], pa.int64()), "s": pa.array([], pa.string())})]]
)
def test_no_rows_give_no_files(store, rows):
    assert write_data_files(store, rows, SCHEMA) == ()
    assert list(store.list("")) == []


def test_nothing_is_left_behind_when_a_batch_is_refused(store):
    good = batches(10, 5)
    bad = pa.record_batch({"i": pa.array([None], pa.int64()), "s": ["x"]})
    with pytest.raises(SchemaMismatchError, match="i: 1 nulls"):
        write_data_files(store, [*good, bad], SCHEMA, max_rows_per_file=4)
    assert list(store.list("")) == []


def test_nothing_is_left_behind_when_the_disk_is_full(store):
    full = FaultyStore(store, full_disk_after_bytes=3000)
    with pytest.raises(Exception, match="space"):
        write_data_files(full, batches(4000, 100), SCHEMA, max_rows_per_file=100)
    assert [info.path for info in store.list("data") if info.path.endswith(".lance")] == []


@pytest.mark.parametrize("limits", [{"max_rows_per_file": 0}, {"max_bytes_per_file": 0}])
def test_limits_must_be_positive(store, limits):
    with pytest.raises(InvalidArgumentError):
        write_data_files(store, [], SCHEMA, **limits)
