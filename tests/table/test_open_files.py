from dataclasses import replace

import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError, CorruptManifestError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.open_files import OpenFiles
from tests.support.counting_store import CountingStore
from tests.support.tables import create, rows


@pytest.fixture
def dataset(tmp_path):
    return create(CountingStore(open_store(tmp_path)), rows(0, 30), rows_per_fragment=10)


def test_a_file_that_is_open_needs_no_more_of_its_metadata(dataset) -> None:
    dataset.store.reset()
    assert dataset.take([3, 15], ["a"])["a"].to_pylist() == [3, 15]
    first = len(dataset.store.requests)
    dataset.store.reset()
    assert dataset.take([4, 16], ["a"])["a"].to_pylist() == [4, 16]
    assert len(dataset.store.requests) < first


def test_files_that_were_not_used_for_long_are_closed(dataset) -> None:
    files = OpenFiles(max_files=2)
    first, second, third = (fragment.files[0] for fragment in dataset.fragments)
    one = files.open(dataset.bases, first, 10)
    files.open(dataset.bases, second, 10)
    assert files.open(dataset.bases, first, 10) is one
    files.open(dataset.bases, third, 10)
    assert files.open(dataset.bases, first, 10) is one
    dataset.store.reset()
    files.open(dataset.bases, second, 10)
    assert dataset.store.requests


def test_a_file_of_other_rows_is_refused_each_time(dataset) -> None:
    files = OpenFiles()
    (file,) = dataset.fragments[0].files
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="expected 11, got 10"):
            files.open(dataset.bases, file, 11)
    # The same file under another list of fields is another one.
    other = files.open(dataset.bases, replace(file, fields=(-2, *file.fields[1:])), 10)
    assert other is not files.open(dataset.bases, file, 10)


def test_damage_to_a_file_that_was_read_before_is_seen_by_who_opens_it_anew(dataset) -> None:
    assert Dataset.open(dataset.store).to_table().num_rows == 30
    assert Dataset.open(dataset.store).manifest is Dataset.open(dataset.store).manifest
    store, path = dataset.bases.data_path(dataset.fragments[1].files[0])
    good = store.read(path).to_pybytes()
    start, length = FileReader.open(store, path)._contents.columns[0]
    store.put(path, good[:start] + bytes(255 for _ in range(length)) + good[start + length :])
    with pytest.raises(CorruptFileError, match=path):
        Dataset.open(dataset.store).to_table()
    store.put(path, good)
    assert Dataset.open(dataset.store).to_table().num_rows == 30
    manifest = dataset.location.path
    data = dataset.store.read(manifest).to_pybytes()
    dataset.store.put(manifest, data[:-20] + bytes(4) + data[-16:])
    with pytest.raises(CorruptManifestError, match=manifest):
        Dataset.open(dataset.store)


def test_a_schema_is_worked_out_once() -> None:
    schema = Schema.from_arrow(pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int8())]))]))
    found = prepare_schema(schema)
    assert prepare_schema(schema) is found
    assert found.arrow.equals(schema.to_arrow())
    assert (found.ids, found.leaves) == ((0, 1, 2), frozenset({0, 2}))
    assert prepare_schema(replace(schema)) is not found
