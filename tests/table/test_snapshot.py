"""Snapshots that travel: small, frozen, and with everything that a task reads."""

import pickle
import shutil
from dataclasses import FrozenInstanceError, replace

import pytest

import lance_ops as lo
from lance_ops.storage import open_store
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.take import RowKey, take_rows
from lance_ops.table.snapshot import Snapshot
from tests.support.tables import create, rows


@pytest.fixture
def dataset(tmp_path):
    create(open_store(tmp_path), rows(0, 40), rows_per_fragment=10)
    lo.delete(tmp_path, "a % 10 = 3")
    return lo.dataset(tmp_path)


def test_a_task_gets_its_fragments_and_columns_and_no_more(dataset) -> None:
    columns = dataset.lance_schema.project(["a"])
    narrowed = dataset.narrowed(dataset.fragments[1:3], columns)
    assert [fragment.id for fragment in narrowed.fragments] == [1, 2]
    assert narrowed.lance_schema is columns
    assert narrowed.indices == ()
    assert narrowed.data_storage_version == dataset.data_storage_version
    assert narrowed.uses_stable_row_ids == dataset.uses_stable_row_ids


def test_what_travels_does_not_grow_with_the_dataset(dataset) -> None:
    one = dataset.fragments[0]
    many = tuple(replace(one, id=number) for number in range(1000))
    large = Snapshot(dataset.store, dataset.manifest.replace(fragments=many))
    small = dataset.narrowed(dataset.fragments[:1])
    assert len(pickle.dumps(large.narrowed(many[:1]))) < len(pickle.dumps(small)) + 10


def test_what_was_read_stays_behind(dataset) -> None:
    narrowed = dataset.narrowed(dataset.fragments)
    size = len(pickle.dumps(narrowed))
    assert narrowed.deletion_vector(narrowed.fragments[0]) is narrowed.deletion_vector(narrowed.fragments[0])
    FragmentRows(narrowed, narrowed.fragments[0], 0).fetch(narrowed.lance_schema, range(5))
    assert len(pickle.dumps(narrowed)) == size


def test_a_copy_reads_the_same_rows_without_the_manifest(tmp_path, dataset) -> None:
    projection = dataset.scanner(["a"]).plan.projection
    copy = pickle.loads(pickle.dumps(dataset.narrowed(dataset.fragments[:2])))
    shutil.rmtree(tmp_path / "_versions")
    assert take_rows(copy, projection, [2, 3, 12], RowKey.OFFSET)["a"].to_pylist() == [2, 4, 14]
    assert type(copy) is Snapshot


def test_a_fragment_without_its_deletion_file_has_all_rows(dataset) -> None:
    whole = dataset.fragments[0].replace(deletion_file=None)
    found = FragmentRows(dataset, whole, 0)
    assert found.live_rows(0, 10) == range(10)
    assert len(FragmentRows(dataset, dataset.fragments[0], 0).live_rows(0, 10)) == 9


def test_a_snapshot_is_frozen(dataset) -> None:
    for snapshot in (dataset.snapshot(), dataset.narrowed(())):
        with pytest.raises(FrozenInstanceError):
            snapshot.manifest = dataset.manifest
