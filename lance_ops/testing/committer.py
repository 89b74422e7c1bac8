"""Test suite for committers: one of several concurrent writers gets a version, completely."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import AlreadyExistsError
from lance_ops.storage import Store, open_store
from lance_ops.table.commit.committer import Committer
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY, ManifestLocation, list_versions

_SEVEN = ManifestLocation(7, f"{VERSIONS_DIRECTORY}/7.manifest")
_EIGHT = ManifestLocation(8, f"{VERSIONS_DIRECTORY}/8.manifest")


class CommitterConformance:
    """Contract of `Committer`. A subclass named `Test...` overrides the fixtures."""

    @pytest.fixture
    def committer(self) -> Committer:
        """The committer, the same for all writers of one test."""
        raise pytest.UsageError("override the fixture `committer`")

    @pytest.fixture
    def store(self) -> Store:
        """A fresh, empty store for each test; in memory by default."""
        return open_store(f"memory://{uuid.uuid4().hex}")

    def test_a_manifest_is_stored_whole_and_nothing_else(self, committer: Committer, store: Store) -> None:
        committer.commit(store, _SEVEN, b"seven" * 1000)
        committer.commit(store, _EIGHT, b"")
        assert _versions(store) == {_SEVEN.path: b"seven" * 1000, _EIGHT.path: b""}

    def test_a_version_is_never_replaced(self, committer: Committer, store: Store) -> None:
        committer.commit(store, _SEVEN, b"first")
        for manifest in (b"second", b"first"):
            with pytest.raises(AlreadyExistsError):
                committer.commit(store, _SEVEN, manifest)
        assert _versions(store) == {_SEVEN.path: b"first"}

    def test_a_version_that_another_writer_put_is_never_replaced(
        self, committer: Committer, store: Store
    ) -> None:
        store.put(_SEVEN.path, b"theirs")
        with pytest.raises(AlreadyExistsError):
            committer.commit(store, _SEVEN, b"ours")
        assert _versions(store) == {_SEVEN.path: b"theirs"}

    def test_a_writer_that_lost_can_have_the_next_version(self, committer: Committer, store: Store) -> None:
        committer.commit(store, _SEVEN, b"theirs")
        with pytest.raises(AlreadyExistsError):
            committer.commit(store, _SEVEN, b"ours")
        committer.commit(store, _EIGHT, b"ours")
        assert _versions(store) == {_SEVEN.path: b"theirs", _EIGHT.path: b"ours"}

    def test_of_racing_writers_exactly_one_wins(self, committer: Committer, store: Store) -> None:
        for version in range(1, 6):
            location = ManifestLocation(version, f"{VERSIONS_DIRECTORY}/{version}.manifest")
            barrier = threading.Barrier(8)

            def attempt(
                number: int, location: ManifestLocation = location, barrier: threading.Barrier = barrier
            ) -> bytes | None:
                manifest = b"%d" % number * 1000
                barrier.wait()
                try:
                    committer.commit(store, location, manifest)
                except AlreadyExistsError:
                    return None
                return manifest

            with ThreadPoolExecutor(8) as pool:
                won = [manifest for manifest in pool.map(attempt, range(8)) if manifest is not None]
            assert won == [bytes(store.read(location.path).to_pybytes())]
        assert len(_versions(store)) == 5

    def test_racing_appends_all_arrive_once(self, committer: Committer, store: Store) -> None:
        lo.append(store, pa.table({"id": [-1]}), committer=committer)

        def append(number: int) -> None:
            lo.append(store, pa.table({"id": [number]}), committer=committer)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(append, range(8)))
        dataset = lo.Dataset.open(store)
        assert dataset.version == 9
        assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(-1, 8))

    def test_maintenance_keeps_the_rows(self, committer: Committer, store: Store) -> None:
        for number in range(4):
            lo.append(store, pa.table({"id": [number, number + 10]}), committer=committer)
        lo.create_index(store, "id", committer=committer)
        lo.delete(store, "id = 11", committer=committer)
        lo.update(store, {"id": "id + 100"}, where="id = 3", committer=committer)
        lo.compact(store, committer=committer)
        lo.optimize_indices(store, committer=committer)
        rows = [0, 1, 2, 10, 12, 13, 103]
        kept = lo.Dataset.open(store).version
        lo.create_tag(store, "kept", kept)
        lo.append(store, pa.table({"id": [999]}), committer=committer)
        lo.restore(store, kept, committer=committer)
        lo.cleanup(store, retain_versions=1, older_than=timedelta(0))
        dataset = lo.Dataset.open(store)
        assert sorted(dataset.to_table()["id"].to_pylist()) == rows
        assert dataset.count_rows("id >= 10") == 4
        assert [location.version for location in list_versions(store)] == [kept, dataset.version]
        assert lo.fsck(store).findings == ()


def _versions(store: Store) -> dict[str, bytes]:
    """Return all files in the folder that readers list for versions."""
    return {info.path: bytes(store.read(info.path).to_pybytes()) for info in store.list(VERSIONS_DIRECTORY)}
