"""Tables of storage version 0.1: read like any other, changed where no data file has to be written."""

import datetime as dt
import math
import shutil
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

import lance_ops as lo
from lance_ops.errors import (
    CorruptManifestError,
    SchemaMismatchError,
    UnsupportedError,
    UnsupportedVersionError,
)
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import TOMBSTONE, DataFile
from lance_ops.table.scan.fragment_reader import FragmentReader

FIXTURES = Path(__file__).parents[1] / "fixtures"
OLD_TABLES = sorted(FIXTURES.glob("legacy-*/*.arrow"))


def same(value):
    """A value that can be compared: NaN is the same as NaN."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def assert_equal(ours: pa.Table, theirs: pa.Table) -> None:
    ours.validate(full=True)
    assert ours.column_names == theirs.column_names
    for name in theirs.column_names:
        assert ours[name].type == theirs[name].type, name
        assert [same(v) for v in ours[name].to_pylist()] == [same(v) for v in theirs[name].to_pylist()], name


def assert_reads_the_same(uri, **scan) -> None:
    assert_equal(Dataset.open(uri).to_table(**scan), lance.dataset(str(uri)).to_table(**scan))


def values(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "i": pa.array([None if row % 7 == 0 else row for row in numbers], pa.int64()),
            "s": pa.array([None if row % 5 == 0 else "" if row % 5 == 1 else f"v{row}" for row in numbers]),
            "st": pa.array([None if row % 9 == 0 else {"a": row, "b": [str(row)]} for row in numbers]),
        }
    )


def legacy(uri, table: pa.Table, **options) -> None:
    lance.write_dataset(table, uri, data_storage_version="legacy", max_rows_per_group=13, **options)


@pytest.fixture
def uri(tmp_path):
    """Three fragments, the last smaller, with deleted rows in two."""
    path = str(tmp_path / "legacy")
    legacy(path, values(0, 100), max_rows_per_file=40)
    lance.dataset(path).delete("s = 'v3' OR s = 'v99'")
    return path


def test_there_are_tables_of_old_writers():
    assert {path.stem for path in OLD_TABLES} >= {"plain", "grown", "coded"}


@pytest.mark.parametrize("path", OLD_TABLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_tables_of_old_writers_read_as_their_writers_read_them(path):
    dataset = Dataset.open(str(path.with_suffix("")))
    expected = feather.read_table(path)
    assert dataset.data_storage_version == "0.1"
    assert_equal(dataset.to_table(), expected)
    assert dataset.count_rows() == expected.num_rows
    middle = expected.num_rows // 2
    assert_equal(dataset.to_table(offset=middle, limit=5), expected.slice(middle, 5))


@pytest.mark.peer
@pytest.mark.parametrize(
    "predicate",
    ["id > 17 AND id < 35", "text IS NULL", "text = 'v17é'", "small = 0", "ratio < 3", "st.a = 59", "flag"],
)
def test_filters_on_a_table_of_an_old_writer(predicate):
    uri = str(FIXTURES / "legacy-0.19.1" / "plain")
    found = Dataset.open(uri).to_table(filter=predicate, columns=["id", "text"])
    assert_equal(found, lance.dataset(uri).to_table(filter=predicate, columns=["id", "text"]))
    assert found.num_rows


@pytest.mark.peer
def test_pages_with_nan_are_not_left_out():
    """NaN is above all numbers. The peer selects it too, but not on pages whose statistics end below 15."""
    uri = str(FIXTURES / "legacy-0.19.1" / "plain")
    ours = Dataset.open(uri).to_table(filter="ratio > 15", columns=["id"])["id"].to_pylist()
    assert ours == [row for row in range(60) if row % 11 == 0 or (row % 5 and row / 3 > 15)]
    theirs = lance.dataset(uri).to_table(filter="ratio > 15", columns=["id"])["id"].to_pylist()
    assert set(theirs) < set(ours)
    assert 33 in theirs


@pytest.mark.peer
@pytest.mark.parametrize(
    "scan",
    [
        {},
        {"columns": ["st.a", "s"]},
        {"filter": "i = 0"},
        {"filter": "i > 20 AND i < 60 AND s IS NOT NULL", "columns": ["s"]},
        {"filter": "s IS NULL"},
        {"filter": "st.a >= 90"},
        {"offset": 35, "limit": 10},
        {"with_row_id": True, "columns": ["i"]},
    ],
    ids=str,
)
def test_scans(uri, scan):
    assert_reads_the_same(uri, **scan)
    assert Dataset.open(uri).count_rows(scan.get("filter")) == lance.dataset(uri).count_rows(
        scan.get("filter")
    )


@pytest.mark.peer
def test_rows_by_offset_and_in_batches(uri):
    dataset = Dataset.open(uri)
    rows = [97, 0, 38, 39, 60]
    assert dataset.take(np.array(rows)).to_pylist() == lance.dataset(uri).take(rows).to_pylist()
    batches = list(dataset.to_batches(batch_size=7))
    assert max(batch.num_rows for batch in batches) <= 7
    assert pa.Table.from_batches(batches).to_pylist() == dataset.to_table().to_pylist()


@pytest.mark.peer
def test_columns_in_files_of_their_own(uri):
    steps = [
        lambda dataset: dataset.add_columns({"double": "i * 2", "loud": "concat(s, '!')"}),
        lambda dataset: dataset.drop_columns(["i"]),
        lambda dataset: dataset.alter_columns({"path": "double", "name": "twice"}),
        lambda dataset: dataset.alter_columns({"path": "twice", "data_type": pa.int32()}),
        lambda dataset: dataset.delete("twice = 46"),
    ]
    for step in steps:
        step(lance.dataset(uri))
        assert_reads_the_same(uri)
        assert_reads_the_same(uri, filter="s > 'v4'")
    assert len(Dataset.open(uri).fragments[0].files) == 3


@pytest.mark.peer
@pytest.mark.parametrize("numbers", [(0, 0), (0, 1), (0, 2)])
def test_each_way_of_recording_the_version(uri, numbers):
    dataset = Dataset.open(uri)
    fragment = dataset.fragments[0]
    files = tuple(replace(file, major=numbers[0], minor=numbers[1]) for file in fragment.files)
    rows = FragmentReader(dataset, fragment.replace(files=files)).read(dataset.lance_schema)
    assert_equal(rows, FragmentReader(dataset, fragment).read(dataset.lance_schema))


@pytest.mark.peer
def test_a_file_whose_first_column_moved_away_is_read_by_its_own_schema(uri):
    dataset = Dataset.open(uri)
    fragment = dataset.fragments[0]
    (file,) = fragment.files
    moved = replace(file, fields=(TOMBSTONE, *file.fields[1:]))
    rows = FragmentReader(dataset, fragment.replace(files=(moved,))).read(dataset.lance_schema)
    assert rows["i"].null_count == rows.num_rows
    others = dataset.lance_schema.project(["s", "st"])
    assert_equal(rows.select(["s", "st"]), FragmentReader(dataset, fragment).read(others))


def test_columns_of_a_file_are_counted_from_its_first_field():
    file = DataFile("a.lance", fields=(4, 5, 7), column_indices=(), major=0, minor=2)
    assert file.live_columns == {4: 0, 5: 1, 7: 3}
    assert replace(file, fields=(4, TOMBSTONE, 7)).live_columns == {4: 0, 7: 3}
    with pytest.raises(CorruptManifestError, match="3 fields and 0 columns"):
        _ = replace(file, major=2, minor=0).live_columns


def files_of(uri) -> set[str]:
    return {str(path) for path in Path(uri).rglob("*") if path.is_file()}


@pytest.mark.peer
def test_delete_and_cleanup_need_no_data_files(uri):
    result = lo.delete(uri, "i > 10 AND i < 50 OR s IS NULL")
    assert result.rows_deleted
    lance.dataset(uri).validate()
    assert_reads_the_same(uri)
    assert Dataset.open(uri).data_storage_version == "0.1"
    lo.delete(uri, "true")
    assert_reads_the_same(uri)
    shutil.rmtree(uri)
    legacy(uri, values(0, 50), max_rows_per_file=20)
    lo.delete(uri, "i < 25")
    removed = lo.cleanup(uri, older_than=dt.timedelta(0), delete_unverified=True)
    assert removed.versions_removed
    lance.dataset(uri).validate()
    assert_reads_the_same(uri)


@pytest.mark.peer
def test_what_would_write_data_files_is_refused_before_it_writes(uri):
    before = files_of(uri)
    with pytest.raises(UnsupportedVersionError, match=r"0\.1 is read but not written"):
        lo.append(uri, values(0, 3))
    with pytest.raises(UnsupportedVersionError, match=r"0\.1 is read but not written"):
        lo.compact(uri)
    with pytest.raises(SchemaMismatchError):
        lo.append(uri, pa.table({"other": [1]}))
    assert files_of(uri) == before


@pytest.mark.peer
def test_dictionary_columns_are_read_but_not_carried_into_a_new_version(tmp_path):
    uri = str(tmp_path / "coded")
    table = values(0, 30).append_column(
        "d", pa.array([f"d{row % 4}" for row in range(30)]).dictionary_encode()
    )
    legacy(uri, table)
    assert_reads_the_same(uri)
    assert_reads_the_same(uri, filter="d = 'd2'")
    before = files_of(uri)
    with pytest.raises(UnsupportedError, match="dictionary columns"):
        lo.delete(uri, "i = 3")
    assert files_of(uri) == before
    assert_reads_the_same(uri)
