"""Moving a dataset into an external manifest store and out of it: whole at every step and after crashes."""

import contextlib
import uuid

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    DatasetNotFoundError,
    InconsistentStoreError,
    InvalidArgumentError,
    LanceOpsError,
    UnsupportedError,
)
from lance_ops.storage import open_store
from lance_ops.storage.external import ManifestEntry, MemoryManifestStore
from lance_ops.storage.external.opening import with_manifests
from lance_ops.storage.manifest_names import NamingScheme, manifest_path
from tests.storage.external.faulty_manifests import FaultyManifests
from tests.support.faulty_store import FaultyStore, InjectedCrash


class Place:
    """A dataset of three versions with a branch, and a database without rows."""

    def __init__(self, *, moved=False):
        self.name = uuid.uuid4().hex
        self.uri = f"memory://{self.name}"
        self.options = {"manifest_store": self.uri}
        self.manifests = MemoryManifestStore(self.name)
        for number in range(3):
            lo.append(self.uri, pa.table({"id": [number]}))
        lo.create_branch(self.uri, "dev")
        lo.append(f"{self.uri}/tree/dev", pa.table({"id": [9]}))
        if moved:
            lo.migrate_store(self.uri, into=self.uri)

    @property
    def bytes(self):
        return open_store(self.uri)

    def store(self):
        return open_store(self.uri, self.options)

    def versions(self, folder=""):
        base = f"{self.uri}/{folder}" if folder else self.uri
        return [entry.version for entry in self.manifests.entries(base)]

    def rows(self, options, folder=""):
        uri = f"{self.uri}/{folder}" if folder else self.uri
        return sorted(lo.dataset(uri, storage_options=options).to_table()["id"].to_pylist())


def test_into_and_out_again():
    place = Place()
    moved = lo.migrate_store(place.uri, into=place.uri)
    assert (moved.version, moved.rows, moved.direction, moved.dropped) == (3, 2, "into", ())
    assert (place.versions(), place.versions("tree/dev")) == ([3], [4])
    lo.append(place.uri, pa.table({"id": [3]}), storage_options=place.options)
    lo.append(f"{place.uri}/tree/dev", pa.table({"id": [10]}), storage_options=place.options)
    assert place.rows(place.options) == [0, 1, 2, 3]
    assert place.rows(place.options, "tree/dev") == [0, 1, 2, 9, 10]
    assert lo.dataset(place.uri, version=1, storage_options=place.options).count_rows() == 1
    out = lo.migrate_store(place.uri, out=True, storage_options=place.options)
    assert (out.version, out.rows, out.direction) == (4, 4, "out")
    assert (place.versions(), place.versions("tree/dev")) == ([], [])
    assert place.rows(None) == [0, 1, 2, 3]
    with pytest.raises(InconsistentStoreError):
        place.rows(place.options)
    lo.append(place.uri, pa.table({"id": [4]}))
    assert place.rows(None) == [0, 1, 2, 3, 4]


def test_each_direction_twice_changes_nothing():
    place = Place()
    assert [lo.migrate_store(place.uri, into=place.uri).rows for _ in range(2)] == [2, 0]
    assert [lo.migrate_store(place.uri, rebuild=True, storage_options=place.options).rows] == [0]
    assert [lo.migrate_store(place.uri, out=True, storage_options=place.options).rows for _ in range(2)] == [
        2,
        0,
    ]


@pytest.mark.parametrize("direction", ["into", "out", "rebuild"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_anywhere_leaves_one_way_that_works_and_the_next_run_ends_it(direction, when, monkeypatch):
    fail_at = 0
    fired = True
    while fired:
        fail_at += 1
        place = Place(moved=direction == "out")
        faulty = FaultyStore(place.bytes)
        manifests = FaultyManifests(place.manifests, fail_at, when=when, bytes_=faulty)
        into = direction == "into"
        with monkeypatch.context() as patch:
            patch.setattr(
                "lance_ops.maintenance.metadata.manifest_store.open_manifests",
                lambda *_, manifests=manifests: manifests,
            )
            target = faulty if into else with_manifests(faulty, manifests)
            options = {"into": place.uri} if into else {direction: True}
            with contextlib.suppress(InjectedCrash):
                lo.migrate_store(target, **options)
        fired = manifests.changes >= fail_at
        # The bytes are complete without the database; with it, the dataset is whole or refused.
        assert place.rows(None) == [0, 1, 2]
        with contextlib.suppress(InconsistentStoreError):
            assert place.rows(place.options) == [0, 1, 2]
        if into:
            lo.migrate_store(place.uri, into=place.uri)
        else:
            lo.migrate_store(place.uri, **options, storage_options=place.options)
        way = None if direction == "out" else place.options
        lo.append(place.uri, pa.table({"id": [3]}), storage_options=way)
        assert place.rows(way) == [0, 1, 2, 3]
        assert place.rows(way, "tree/dev") == [0, 1, 2, 9]
        assert lo.fsck(place.uri, storage_options=way).findings == ()
    assert fail_at > 2


def _lose(place):
    """Lose the database."""
    place.manifests._rows.clear()


def test_lost_rows_are_made_again_from_the_object_store():
    place = Place(moved=True)
    _lose(place)
    for look in (
        lambda: place.rows(place.options),
        lambda: lo.append(place.uri, pa.table({"id": [3]}), storage_options=place.options),
    ):
        with pytest.raises(InconsistentStoreError, match="--rebuild"):
            look()
    assert lo.migrate_store(place.uri, rebuild=True, storage_options=place.options).rows == 2
    lo.append(place.uri, pa.table({"id": [3]}), storage_options=place.options)
    assert place.rows(place.options) == [0, 1, 2, 3]
    assert place.rows(place.options, "tree/dev") == [0, 1, 2, 9]


def _stage(place, number, count=1):
    """Leave manifests of version 4 as a writer does that dies after the commit; return their paths."""
    faulty = FaultyStore(place.bytes)
    store = with_manifests(faulty, FaultyManifests(place.manifests, 1, when="after", bytes_=faulty))
    with pytest.raises(InjectedCrash):
        lo.append(store, pa.table({"id": [number]}))
    entry = place.manifests.get(place.uri, 4)
    place.manifests.delete(place.uri, 4, entry.path)
    path = entry.path.removeprefix(f"{place.uri}/")
    data = place.bytes.read(path)
    copies = [f"{manifest_path(4, NamingScheme.V2)}-{uuid.uuid4()}" for _ in range(count - 1)]
    for copy in copies:
        place.bytes.put(copy, data)
    return [path, *copies]


@pytest.mark.parametrize("count", [1, 3])
def test_a_commit_that_only_the_lost_rows_knew_is_not_lost(count):
    place = Place(moved=True)
    _stage(place, 3, count)
    _lose(place)
    done = lo.migrate_store(place.uri, rebuild=True, storage_options=place.options)
    assert done.version == 4
    assert place.rows(place.options) == [0, 1, 2, 3]
    lo.append(place.uri, pa.table({"id": [4]}), storage_options=place.options)
    assert place.rows(place.options) == [0, 1, 2, 3, 4]


def test_of_several_commits_that_may_have_been_the_next_one_none_is_guessed():
    place = Place(moved=True)
    first, second = _stage(place, 3)[0], _stage(place, 4)[0]
    _lose(place)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="unknown which of them") as caught:
            lo.migrate_store(place.uri, rebuild=True, storage_options=place.options)
        assert first in caught.value.hint
        assert second in caught.value.hint
    place.bytes.delete(first)
    lo.migrate_store(place.uri, rebuild=True, storage_options=place.options)
    assert place.rows(place.options) == [0, 1, 2, 4]


def test_versions_whose_manifests_are_lost_are_dropped_by_name():
    place = Place(moved=True)
    for version in (4, 5):
        path = f"{place.uri}/{manifest_path(version, NamingScheme.V2)}{'-a' if version == 5 else ''}"
        place.manifests.put_if_not_exists(place.uri, ManifestEntry(version, path, 7))
    with pytest.raises(LanceOpsError):
        place.rows(place.options)
    done = lo.migrate_store(place.uri, rebuild=True, storage_options=place.options)
    assert done.dropped == (f"{place.uri}: 5", f"{place.uri}: 4")
    assert place.rows(place.options) == [0, 1, 2]


def test_a_dataset_that_moved_on_without_the_database_is_not_moved_into_old_rows():
    place = Place(moved=True)
    lo.append(place.uri, pa.table({"id": [3]}))
    with pytest.raises(InvalidArgumentError, match="up to version 3, expected the newest version 4"):
        lo.migrate_store(place.uri, into=place.uri)
    lo.migrate_store(place.uri, rebuild=True, storage_options=place.options)
    assert place.rows(place.options) == [0, 1, 2, 3]


def test_out_removes_staged_manifests_that_were_never_committed():
    place = Place(moved=True)
    _stage(place, 3)
    lo.migrate_store(place.uri, out=True, storage_options=place.options)
    lo.append(place.uri, pa.table({"id": [4]}))
    assert place.rows(None) == [0, 1, 2, 4]


def test_out_finishes_the_newest_version():
    place = Place(moved=True)
    (path,) = _stage(place, 3)
    size = place.bytes.size(path)
    place.manifests.put_if_not_exists(place.uri, ManifestEntry(4, f"{place.uri}/{path}", size))
    assert lo.migrate_store(place.uri, out=True, storage_options=place.options).version == 4
    assert place.rows(None) == [0, 1, 2, 3]


def test_arguments_that_make_no_sense_are_refused():
    place = Place()
    for arguments in ({}, {"out": True, "rebuild": True}, {"into": place.uri, "out": True}):
        with pytest.raises(InvalidArgumentError, match="exactly one"):
            lo.migrate_store(place.uri, **arguments)
    for arguments in ({"out": True}, {"rebuild": True}):
        with pytest.raises(InvalidArgumentError, match="without an external manifest store"):
            lo.migrate_store(place.uri, **arguments)
    with pytest.raises(InvalidArgumentError, match="already"):
        lo.migrate_store(place.store(), into=place.uri)
    with pytest.raises(InvalidArgumentError, match="no address"):
        lo.migrate_store(place.uri, into="somewhere")
    with pytest.raises(DatasetNotFoundError):
        lo.migrate_store(f"memory://{uuid.uuid4()}", into=place.uri)
