"""The steps of writers and readers: a crash or failure at any of them is repaired, and none is skipped."""

import contextlib
import shutil
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CommitOutcomeUnknownError,
    CorruptManifestError,
    InconsistentStoreError,
    LanceOpsError,
    StorageError,
)
from lance_ops.storage import open_store
from lance_ops.storage.external import ExternalStore, ManifestEntry, MemoryManifestStore
from lance_ops.storage.manifest_names import NamingScheme, manifest_path, staged_version
from tests.storage.external.faulty_manifests import FaultyManifests
from tests.support.faulty_store import FaultyStore, InjectedCrash

APPENDED = pa.table({"id": [9]})


class Place:
    """A dataset of two versions in memory."""

    def __init__(self):
        self.name = uuid.uuid4().hex
        self.bytes = open_store(f"memory://{self.name}")
        self.manifests = MemoryManifestStore(self.name)
        for number in range(2):
            lo.append(self.store(), pa.table({"id": [number]}))

    def store(self, bytes_=None, manifests=None):
        return ExternalStore(
            self.bytes if bytes_ is None else bytes_, manifests or self.manifests, f"base/{self.name}"
        )

    def rows(self, bytes_=None, manifests=None):
        return sorted(lo.Dataset.open(self.store(bytes_, manifests)).to_table()["id"].to_pylist())

    def row(self, version):
        return self.manifests.get(f"base/{self.name}", version)

    def staged(self):
        names = (info.path.rpartition("/")[2] for info in self.bytes.list("_versions"))
        return [name for name in names if staged_version(name) is not None]

    def stage(self, version, data=None, row=True):
        """Leave a commit after step 1 or 2."""
        path = f"{manifest_path(version, NamingScheme.V2)}-{uuid.uuid4()}"
        data = self.next_manifest() if data is None else data
        self.bytes.put(path, data)
        if row:
            self.manifests.put_if_not_exists(
                f"base/{self.name}", ManifestEntry(version, f"base/{self.name}/{path}", len(data))
            )
        return path

    def next_manifest(self):
        """Return the manifest that an append would commit, without committing it."""
        faulty = FaultyStore(self.bytes)
        with pytest.raises(InjectedCrash):
            lo.append(self.store(faulty, FaultyManifests(self.manifests, 1, bytes_=faulty)), APPENDED)
        (name,) = self.staged()
        data = bytes(self.bytes.read(f"_versions/{name}"))
        self.bytes.delete(f"_versions/{name}")
        return data


@pytest.fixture
def place():
    return Place()


def test_a_writer_performs_the_four_steps_in_their_order(place):
    log = []

    class Noting(FaultyManifests):
        def _change(self, name, call):
            entry_before = place.row(3)
            result = super()._change(name, call)
            log.append((name, entry_before, place.row(3), bool(place.staged()), final()))
            return result

    def final():
        return place.bytes.exists(manifest_path(3, NamingScheme.V2))

    lo.append(place.store(manifests=Noting(place.manifests)), APPENDED)
    reserve, publish = log
    assert reserve[0] == "put_if_not_exists"
    assert reserve[1] is None
    assert staged_version(reserve[2].path.rpartition("/")[2]) == 3
    assert reserve[3:] == (True, False)
    assert publish[0] == "put_if_exists"
    assert publish[2].path == f"base/{place.name}/{manifest_path(3, NamingScheme.V2)}"
    assert publish[3:] == (True, True)
    assert place.staged() == []


@pytest.mark.parametrize("next_one", ["reader", "writer", "cleanup"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_change_is_repaired_by_the_next_one(when, next_one):
    for of in ("bytes", "rows"):
        fail_at = 0
        while True:
            fail_at += 1
            place = Place()
            faulty = FaultyStore(place.bytes, fail_at if of == "bytes" else None, when=when)
            manifests = FaultyManifests(
                place.manifests, fail_at if of == "rows" else None, when=when, bytes_=faulty
            )
            store = place.store(faulty, manifests)
            died = False
            try:
                lo.append(store, APPENDED)
            except InjectedCrash:
                died = True
            if not died and not (faulty.fired or manifests.changes >= fail_at):
                break
            committed = place.row(3) is not None
            rows = [0, 1, 9] if committed else [0, 1]
            if next_one == "reader":
                assert place.rows() == rows
            elif next_one == "writer":
                lo.append(place.store(), pa.table({"id": [7]}))
                rows = sorted([*rows, 7])
            else:
                lo.cleanup(place.store(), retain_versions=1, older_than=timedelta(0), delete_unverified=True)
                # What was not decided may be the manifest of a writer that is alive.
                assert len(place.staged()) <= (not committed)
            assert place.rows() == rows
            assert lo.fsck(place.store()).findings == ()
            newest = place.manifests.get_latest(f"base/{place.name}")
            assert newest.path.endswith(".manifest")
            # Without the external manifest store, all of it is there, too.
            if not place.staged():
                assert sorted(lo.Dataset.open(place.bytes).to_table()["id"].to_pylist()) == rows
        assert fail_at > 2


def test_the_rows_of_a_lost_answer_are_ours(place):
    for of in ("put_if_not_exists", "put_if_exists"):
        place = Place()
        probe = FaultyManifests(place.manifests)
        lo.append(place.store(manifests=probe), APPENDED)
        fail_at = next(at for at, name in enumerate(probe.calls, 1) if name == of)
        place = Place()
        for when in ("before", "after"):
            manifests = FaultyManifests(place.manifests, fail_at, when=when, mode="error")
            lo.append(place.store(manifests=manifests), APPENDED)
        assert place.rows() == [0, 1, 9, 9]
        assert lo.fsck(place.store()).findings == ()


@pytest.mark.parametrize("call", ["exists", "read", "put"])
def test_a_reader_that_cannot_finish_a_version_refuses_to_read_and_the_next_one_can(place, call):
    place.stage(3)
    faulty = FaultyStore(
        place.bytes,
        lambda at: at.name == call and "_versions/" in at.path,
        mode="error",
        count="any",
        times=1 << 30,
    )
    with pytest.raises(StorageError):
        place.rows(faulty)
    assert place.rows() == [0, 1, 9]
    assert place.staged() == []


def test_a_reader_that_cannot_update_the_row_refuses_to_read(place):
    place.stage(3)
    with pytest.raises(StorageError):
        place.rows(manifests=FaultyManifests(place.manifests, 1, mode="error"))
    assert place.rows() == [0, 1, 9]


def test_of_a_version_by_its_number_the_commit_is_finished_as_well(place):
    place.stage(3)
    assert lo.Dataset.open(place.store(), version=3).count_rows() == 3
    assert place.row(3).path.endswith(".manifest")


def test_readers_that_finish_one_version_together_all_read_it(place):
    for version in range(3, 8):
        place.stage(version, place.next_manifest() if version == 3 else None)
        barrier = threading.Barrier(4)

        def read(_, barrier=barrier):
            barrier.wait()
            return place.rows()

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(read, range(4)))
        assert found == [[0, 1, *[9] * (version - 2)]] * 4
        assert place.staged() == []


def test_a_reader_without_the_external_store_is_one_version_behind_at_most(place):
    place.stage(3)
    plain = lo.Dataset.open(place.bytes)
    assert plain.version == 2
    assert place.rows() == [0, 1, 9]
    assert lo.Dataset.open(place.bytes).version == 3


def test_a_copied_folder_is_a_dataset_without_the_external_store(tmp_path):
    options = {"manifest_store": f"sqlite:///{tmp_path / 'm.db'}"}
    for number in range(3):
        lo.append(tmp_path / "t.lance", pa.table({"id": [number]}), storage_options=options)
    shutil.copytree(tmp_path / "t.lance", tmp_path / "copy.lance")
    assert lo.dataset(tmp_path / "copy.lance").to_table()["id"].to_pylist() == [0, 1, 2]


def test_a_staged_manifest_that_is_no_commit_is_in_nobodys_way(place):
    place.stage(3, b"half", row=False)
    assert place.rows() == [0, 1]
    lo.append(place.store(), APPENDED)
    assert place.rows() == [0, 1, 9]
    lo.cleanup(place.store(), retain_versions=1, older_than=timedelta(0), delete_unverified=True)
    assert place.staged() == []


def test_a_lost_manifest_is_an_error_and_not_an_older_version(place):
    path = place.stage(3)
    place.bytes.delete(path)
    for look in (place.rows, lambda: lo.append(place.store(), APPENDED), lambda: lo.fsck(place.store())):
        with pytest.raises(CorruptManifestError, match="its manifest is lost"):
            look()


@pytest.mark.parametrize(
    "path", ["elsewhere/_versions/7.manifest", "base/{}/data/x.manifest", "base/{}/_versions/8.manifest", ""]
)
def test_a_row_that_names_no_manifest_of_its_version_is_damage(place, path):
    place.manifests.put_if_not_exists(f"base/{place.name}", ManifestEntry(3, path.format(place.name), 1))
    with pytest.raises(CorruptManifestError, match="row of version 3"):
        place.rows()


def test_a_manifest_of_another_size_than_its_row_is_damage(place):
    path = place.stage(3)
    place.bytes.put(path, b"cut")
    with pytest.raises(CorruptManifestError, match="has 3 bytes"):
        place.rows()


@pytest.mark.parametrize("version", [3, 4])
def test_a_version_of_a_writer_without_the_external_store_is_neither_missed_nor_replaced(place, version):
    data = place.next_manifest()
    place.bytes.put(manifest_path(version, NamingScheme.V2), data)
    for look in (place.rows, lambda: lo.append(place.store(), APPENDED)):
        with pytest.raises(InconsistentStoreError, match=f"object store has version {version}"):
            look()
    assert bytes(place.bytes.read(manifest_path(version, NamingScheme.V2))) == data


def test_two_writers_of_one_version_one_of_them_without_the_external_store(place):
    place.stage(3)
    place.bytes.put(manifest_path(3, NamingScheme.V2), b"theirs")
    with pytest.raises(InconsistentStoreError, match="does not use it"):
        place.rows()
    assert bytes(place.bytes.read(manifest_path(3, NamingScheme.V2))) == b"theirs"


def test_while_the_database_is_down_nothing_is_read_as_newest_or_written(place):
    before = sorted(info.path for info in place.bytes.list(""))
    down = place.store(manifests=FaultyManifests(place.manifests, mode="down"))
    opened = lo.Dataset.open(place.store())
    for look in (
        lambda: lo.Dataset.open(down),
        lambda: lo.append(down, APPENDED),
        lambda: lo.delete(down, "true"),
        lambda: lo.compact(down),
        lambda: lo.cleanup(down, retain_versions=1, older_than=timedelta(0)),
        lambda: lo.fsck(down),
        lambda: lo.write_dataset(APPENDED, down, mode="overwrite"),
    ):
        with pytest.raises(LanceOpsError, match="database failed"):
            look()
    assert lo.Dataset.open(down, version=1).count_rows() == 1
    assert opened.count_rows() == 2
    left = sorted(info.path for info in place.bytes.list("") if "_lance_ops" not in info.path)
    assert [path for path in left if path not in before] == []
    assert place.rows() == [0, 1]


def test_a_database_that_fails_after_the_plan_leaves_an_unknown_outcome(place):
    class Failing(FaultyManifests):
        def put_if_not_exists(self, base_uri, entry):
            self.mode = "down"
            return super().put_if_not_exists(base_uri, entry)

    with pytest.raises(CommitOutcomeUnknownError):
        lo.append(place.store(manifests=Failing(place.manifests)), APPENDED)
    assert place.rows() == [0, 1]


def test_a_database_without_its_rows_is_refused(place):
    other = MemoryManifestStore(uuid.uuid4().hex)
    for look in (
        lambda: place.rows(manifests=other),
        lambda: lo.append(place.store(manifests=other), APPENDED),
        lambda: lo.write_dataset(APPENDED, place.store(manifests=other), mode="create"),
    ):
        with pytest.raises(InconsistentStoreError, match="has no version of this dataset"):
            look()
    assert lo.Dataset.open(place.store(manifests=other), version=2).count_rows() == 2


def test_rows_without_their_manifests_are_refused(place):
    place.bytes.delete_many(info.path for info in list(place.bytes.list("")))
    for look in (place.rows, lambda: lo.append(place.store(), APPENDED)):
        with pytest.raises(InconsistentStoreError, match="has version 2 as the newest one"):
            look()


def test_old_names_are_migrated_and_committed_on(place):
    lo.migrate_manifest_paths(place.store(), "v1")
    assert [place.row(version).path.rpartition("/")[2] for version in (1, 2)] == ["1.manifest", "2.manifest"]
    lo.append(place.store(), APPENDED)
    assert place.row(3).path.endswith("/3.manifest")
    lo.migrate_manifest_paths(place.store(), "v2")
    lo.append(place.store(), APPENDED)
    assert place.rows() == [0, 1, 9, 9]
    assert lo.fsck(place.store()).findings == ()
    for version in range(1, 5):
        assert place.row(version).path.endswith(manifest_path(version, NamingScheme.V2))


def test_a_cleanup_that_crashes_anywhere_is_finished_by_the_next_one():
    fail_at = 0
    fired = True
    while fired:
        fail_at += 1
        place = Place()
        lo.append(place.store(), APPENDED)
        faulty = FaultyStore(place.bytes)
        manifests = FaultyManifests(place.manifests, fail_at, bytes_=faulty)
        with contextlib.suppress(InjectedCrash):
            lo.cleanup(place.store(faulty, manifests), retain_versions=1, older_than=timedelta(0))
        fired = manifests.changes >= fail_at
        assert place.rows() == [0, 1, 9]
        lo.cleanup(place.store(), retain_versions=1, older_than=timedelta(0))
        assert place.rows() == [0, 1, 9]
        assert [entry.version for entry in place.manifests.entries(f"base/{place.name}")] == [3]
        assert lo.fsck(place.store()).findings == ()
    assert fail_at > 2


def test_branches_and_clones_have_rows_of_their_own(place):
    lo.create_branch(place.store(), "dev")
    branch = place.store().child("tree/dev")
    lo.append(branch, APPENDED)
    assert place.rows() == [0, 1]
    assert sorted(lo.Dataset.open(branch).to_table()["id"].to_pylist()) == [0, 1, 9]
    assert place.manifests.get_latest(f"base/{place.name}/tree/dev").version == 3
    assert place.manifests.get_latest(f"base/{place.name}").version == 2
    lo.delete_branch(place.store(), "dev")
    assert place.manifests.get_latest(f"base/{place.name}/tree/dev") is None
    lo.create_branch(place.store(), "dev")
    assert sorted(lo.Dataset.open(branch).to_table()["id"].to_pylist()) == [0, 1]
