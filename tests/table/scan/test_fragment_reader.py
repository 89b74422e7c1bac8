"""One fragment, read from all of its files."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    PathEscapeError,
)
from lance_ops.file.schema.model import Schema
from lance_ops.storage import open_store
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.manifest.data_file import TOMBSTONE
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_reader import FragmentReader
from tests.support.faulty_store import FaultyStore
from tests.support.snapshots import put_snapshot

ARROW = pa.schema(
    [
        ("a", pa.int32()),
        ("p", pa.struct([("x", pa.int64()), ("y", pa.string()), ("q", pa.struct([("z", pa.bool_())]))])),
        ("l", pa.list_(pa.struct([("u", pa.int8()), ("v", pa.string())]))),
        ("none", pa.float64()),
    ]
)
SCHEMA = Schema.from_arrow(ARROW)
ROWS = [
    {
        "a": k,
        "p": {"x": k * 2, "y": str(k), "q": {"z": bool(k % 2)}},
        "l": [{"u": k % 7, "v": None}] * (k % 3),
        "none": None,
    }
    for k in range(50)
]
FULL = pa.Table.from_pylist(ROWS, schema=ARROW)


def file_of(store, *paths):
    """A data file with some of the fields."""
    part = SCHEMA.project(paths)
    batch = pa.Table.from_pylist(ROWS, schema=part.to_arrow())
    ((fragment),) = write_data_files(store, batch.to_batches(), part)
    return fragment.files[0]


def bury(file, *paths):
    """The same file after some of its fields moved to another."""
    gone = {node.id for path in paths for node in SCHEMA.field(path).walk()}
    return replace(file, fields=tuple(TOMBSTONE if field in gone else field for field in file.fields))


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def reader(store, *files, rows=50):
    fragment = Fragment(0, files, rows)
    dataset = put_snapshot(store, fragment, schema=SCHEMA)
    return FragmentReader(dataset, dataset.fragments[0])


def test_columns_come_from_whichever_file_has_them(store):
    found = reader(store, file_of(store, "p.y", "p.q"), file_of(store, "a", "l"), file_of(store, "p.x"))
    assert found.read(SCHEMA).equals(FULL)
    assert found.read(SCHEMA, 7, 31).equals(FULL.slice(7, 24))
    rows = np.array([0, 3, 4, 49])
    assert found.take(rows, SCHEMA).equals(FULL.take(pa.array(rows)))
    batches = list(found.iter_batches(SCHEMA, batch_rows=20, start=5))
    assert [batch.num_rows for batch in batches] == [20, 20, 5]
    assert pa.Table.from_batches(batches).equals(FULL.slice(5))


@pytest.mark.parametrize("paths", [["p.x"], ["p.q.z", "a"], ["l.item.v"], ["none"], ["l", "p"]])
def test_projections_reach_into_structs_and_lists(store, paths):
    found = reader(store, file_of(store, "p", "l"), file_of(store, "a"))
    part = SCHEMA.project(paths)
    expected = pa.Table.from_pylist(ROWS, schema=part.to_arrow())
    assert found.read(part).equals(expected)


def test_what_moved_to_another_file_is_read_there(store):
    old = bury(file_of(store, "a", "p", "l"), "p.y", "a")
    found = reader(store, old, file_of(store, "p.y"), file_of(store, "a"))
    assert found.read(SCHEMA).equals(FULL)
    alone = SCHEMA.project(["p.y"])
    assert found.read(alone).equals(pa.Table.from_pylist(ROWS, schema=alone.to_arrow()))


def test_what_no_file_has_is_null_and_keeps_the_shape_around_it(store):
    found = reader(store, bury(file_of(store, "a", "p", "l"), "p.y", "l.item.u"))
    expected = [
        {
            **row,
            "p": {**row["p"], "y": None},
            "l": [{"u": None, "v": None} for _ in row["l"]],
        }
        for row in ROWS
    ]
    table = found.read(SCHEMA)
    table.validate(full=True)
    assert table.to_pylist() == expected
    assert found.take(np.array([5, 8]), SCHEMA).to_pylist() == [expected[5], expected[8]]


def test_only_files_that_are_needed_are_opened(store):
    fragment = Fragment(0, (file_of(store, "a"), file_of(store, "p", "l")), 50)
    put_snapshot(store, fragment, schema=SCHEMA)
    counting = FaultyStore(store, count="any")
    dataset = put_snapshot(counting, fragment, schema=SCHEMA, version=2)
    counting.reset()
    FragmentReader(dataset, dataset.fragments[0]).read(SCHEMA.project(["a", "none"]))
    assert {call.path for call in counting.calls} == {f"data/{fragment.files[0].path}"}


def test_the_same_field_in_two_files_is_refused(store):
    with pytest.raises(CorruptFileError, match="two data files"):
        reader(store, file_of(store, "a"), file_of(store, "a")).read(SCHEMA)


def test_files_that_contradict_the_manifest_are_refused(store):
    file = file_of(store, "a")
    with pytest.raises(CorruptFileError, match="expected 49, got 50"):
        reader(store, file, rows=49).read(SCHEMA)
    with pytest.raises(FileMissingError):
        reader(store, replace(file, path="gone.lance")).read(SCHEMA)
    with pytest.raises(PathEscapeError):
        reader(store, replace(file, path="../x.lance")).read(SCHEMA)
    with pytest.raises(CorruptFileError):
        reader(store, replace(file, size_bytes=file.size_bytes - 1)).read(SCHEMA)
    assert reader(store, replace(file, size_bytes=0)).read(SCHEMA.project(["a"])).num_rows == 50


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, 51)])
def test_ranges_outside_of_the_fragment_are_refused(store, start, stop):
    with pytest.raises(InvalidArgumentError):
        reader(store, file_of(store, "a")).read(SCHEMA, start, stop)


@pytest.mark.parametrize("rows", [[-1], [50], [3, 60]])
def test_rows_outside_of_the_fragment_are_refused(store, rows):
    with pytest.raises(InvalidArgumentError):
        reader(store, file_of(store, "a")).take(np.array(rows), SCHEMA)
