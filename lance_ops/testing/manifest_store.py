"""Test suite for external manifest stores: one of several racing writers gets the row of a version."""

import pickle
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_ops.errors import AlreadyExistsError
from lance_ops.storage.external import ExternalManifestStore, ManifestEntry
from lance_ops.storage.external.probe import check_create_only


def _entry(version: int, name: str = "a", size: int | None = 7) -> ManifestEntry:
    return ManifestEntry(version, f"folder/{name} %_é'", size)


class ManifestStoreConformance:
    """Contract of `ExternalManifestStore`. A subclass named `Test...` overrides the fixture `manifests`."""

    @pytest.fixture
    def manifests(self) -> ExternalManifestStore:
        """The external manifest store; it may hold rows of other datasets."""
        raise pytest.UsageError("override the fixture `manifests`")

    @pytest.fixture
    def base(self) -> str:
        """The `base_uri` of a dataset that has no rows."""
        return f"tables/{uuid.uuid4().hex} %_é'.lance"

    def test_it_creates_only(self, manifests: ExternalManifestStore, base: str) -> None:
        check_create_only(manifests, base)
        assert manifests.get_latest(base) is None

    def test_nothing_is_found_where_nothing_was_put(
        self, manifests: ExternalManifestStore, base: str
    ) -> None:
        assert manifests.get(base, 1) is None
        assert manifests.get_latest(base) is None
        assert list(manifests.entries(base)) == []
        assert manifests.put_if_exists(base, _entry(1)) is False
        manifests.delete(base, 1, "folder/a")
        assert manifests.get(base, 1) is None

    def test_a_row_is_returned_as_it_was_put(self, manifests: ExternalManifestStore, base: str) -> None:
        for entry in (_entry(1), _entry(2, size=None), _entry((1 << 63) - 1, "b", 1 << 40)):
            manifests.put_if_not_exists(base, entry)
            assert manifests.get(base, entry.version) == entry

    def test_a_row_is_never_replaced_by_a_new_one(self, manifests: ExternalManifestStore, base: str) -> None:
        manifests.put_if_not_exists(base, _entry(1))
        for entry in (_entry(1), _entry(1, "b")):
            with pytest.raises(AlreadyExistsError):
                manifests.put_if_not_exists(base, entry)
        assert manifests.get(base, 1) == _entry(1)

    def test_a_row_that_exists_can_be_changed(self, manifests: ExternalManifestStore, base: str) -> None:
        manifests.put_if_not_exists(base, _entry(1))
        assert manifests.put_if_exists(base, _entry(1, "b", 8)) is True
        assert manifests.get(base, 1) == _entry(1, "b", 8)

    def test_versions_are_numbers_and_the_highest_is_the_latest(
        self, manifests: ExternalManifestStore, base: str
    ) -> None:
        for version in (9, 10, 2, 100):
            manifests.put_if_not_exists(base, _entry(version))
        assert manifests.get_latest(base) == _entry(100)
        assert [entry.version for entry in manifests.entries(base)] == [100, 10, 9, 2]

    def test_datasets_do_not_share_rows(self, manifests: ExternalManifestStore, base: str) -> None:
        manifests.put_if_not_exists(base, _entry(1))
        for other in (f"{base}/tree/x", base.upper(), base[:-1], f"{base} "):
            assert manifests.get_latest(other) is None
            manifests.put_if_not_exists(other, _entry(5, "other"))
        assert manifests.get_latest(base) == _entry(1)

    def test_a_row_is_deleted_by_its_path_or_its_final_one(
        self, manifests: ExternalManifestStore, base: str
    ) -> None:
        for path in ("folder/5.manifest", "folder/5.manifest-ab"):
            manifests.put_if_not_exists(base, ManifestEntry(5, path, 1))
            for other in ("folder/5", "folder/5.manifes_", "folder/5.manifest-a%", "folder/6.manifest"):
                manifests.delete(base, 5, other)
            manifests.delete(base, 6, path)
            assert manifests.get(base, 5) == ManifestEntry(5, path, 1)
            manifests.delete(base, 5, "folder/5.manifest")
            assert manifests.get(base, 5) is None

    def test_of_racing_writers_exactly_one_wins(self, manifests: ExternalManifestStore, base: str) -> None:
        for version in range(1, 6):
            barrier = threading.Barrier(8)

            def attempt(
                number: int, version: int = version, barrier: threading.Barrier = barrier
            ) -> ManifestEntry | None:
                entry = _entry(version, f"writer {number}")
                barrier.wait()
                try:
                    manifests.put_if_not_exists(base, entry)
                except AlreadyExistsError:
                    return None
                return entry

            with ThreadPoolExecutor(8) as pool:
                won = [entry for entry in pool.map(attempt, range(8)) if entry is not None]
            assert won == [manifests.get(base, version)]

    def test_a_pickled_copy_asks_the_same_database(self, manifests: ExternalManifestStore, base: str) -> None:
        manifests.put_if_not_exists(base, _entry(1))
        copy = pickle.loads(pickle.dumps(manifests))
        assert copy.get(base, 1) == _entry(1)
        assert (copy.name, copy.server) == (manifests.name, manifests.server)
