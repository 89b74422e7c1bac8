"""What a cleanup costs as versions pile up: memory that does not follow them, reads side by side."""

import threading
import tracemalloc
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.lib
import pytest

import lance_ops as lo
from lance_ops.maintenance.cleanup import execute
from lance_ops.maintenance.cleanup.line import CleanupOptions, Line
from lance_ops.maintenance.cleanup.plan import plan_cleanup
from lance_ops.storage import ObjectInfo
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY, NamingScheme, manifest_path
from tests.support.faulty_store import FaultyStore
from tests.support.interleaving import Snapshot

FRAGMENTS = 200


def table_of_versions(name: str, versions: int) -> tuple[MemoryStore, int]:
    """A dataset of so many versions with as large manifests; also the size of one of them."""
    store = MemoryStore(f"memory://growth/{name}")
    lo.write_dataset(pa.table({"x": list(range(FRAGMENTS))}), store, max_rows_per_file=1)
    manifest = Dataset.open(store).manifest
    data = encode_manifest(manifest)
    for version in range(2, versions + 1):
        path = manifest_path(version, NamingScheme.V2)
        store.put(path, encode_manifest(manifest.replace(version=version)))
    return store, len(data)


def peak(store: MemoryStore) -> int:
    tracemalloc.start()
    try:
        plan = plan_cleanup(Line.of(store), CleanupOptions(retain_versions=1))
        assert len(plan.files) > FRAGMENTS
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_follow_versions_times_fragments() -> None:
    few, size = table_of_versions("few", 30)
    many, _ = table_of_versions("many", 330)
    assert size > 20_000
    peak(few)
    # A version costs its number, time, place and verdict; before, it cost its manifest twice.
    assert (peak(many) - peak(few)) / 300 < size / 10
    for store in (few, many):
        Snapshot.drop(store)


class DistantStore(FaultyStore):
    """Answers nothing before so many requests for manifests are under way."""

    def __init__(self, inner: MemoryStore, together: int) -> None:
        super().__init__(inner)
        self._barrier = threading.Barrier(together)
        self._met = False

    @property
    def uri(self) -> str:
        return "distant://bucket/table"

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        if path.endswith(".manifest") and not self._met and threading.current_thread().name != "MainThread":
            # Breaks, and with it the test, when nobody else comes.
            self._barrier.wait(timeout=30)
            self._met = True
        return super().read(path, offset, length)


@pytest.mark.parametrize("together", [2, 12])
def test_manifests_are_read_side_by_side_where_requests_take_time(together: int) -> None:
    store, _ = table_of_versions(f"distant{together}", 40)
    plan = plan_cleanup(Line.of(DistantStore(store, together)), CleanupOptions(retain_versions=1))
    assert len(plan.expired) == 39
    Snapshot.drop(store)


class ListedStore(FaultyStore):
    """Counts the names that listings of the versions yield."""

    names = 0

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        for info in super().list(prefix, start_after=start_after):
            self.names += prefix == VERSIONS_DIRECTORY
            yield info


@pytest.mark.parametrize(("versions", "retained"), [(100, 1), (400, 1), (400, 200)])
def test_names_listed_follow_versions(versions: int, retained: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "CHUNK", 10)
    inner = MemoryStore(f"memory://listed/{versions}-{retained}")
    for number in range(versions):
        mode = "overwrite" if number else "create"
        if number < 40:
            # Each has a file of its own, so that the files are removed in several chunks, too.
            lo.write_dataset(pa.table({"x": [number]}), inner, mode=mode)
    manifest = Dataset.open(inner).manifest
    for version in range(manifest.version + 1, versions + 1):
        data = encode_manifest(manifest.replace(version=version))
        inner.put(manifest_path(version, NamingScheme.V2), data)
    store = ListedStore(inner)
    result = lo.cleanup(store, retain_versions=retained)
    assert result.versions_removed == versions - retained
    assert len(list(inner.list("data"))) == 1
    # Two listings of all, one of the kept ones, and those before and after the newest for a chunk of files.
    assert store.names <= 3 * versions + retained
    Snapshot.drop(inner)


def test_a_version_that_appears_during_the_removal_keeps_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "CHUNK", 1)
    inner = MemoryStore("memory://listed/late")
    for number in range(6):
        lo.write_dataset(pa.table({"x": [number]}), inner, mode="overwrite" if number else "create")
    old = {version: Dataset.open(inner, version).manifest for version in (1, 2, 3, 4, 5)}
    detached = 1 << 63 | 7

    class Restoring(FaultyStore):
        """Another library, which read versions before, restores two of them while files are removed."""

        removed = 0

        def delete(self, name: str) -> None:
            if name.startswith("data/"):
                self.removed += 1
                if self.removed == 1:
                    data = encode_manifest(old[4].replace(version=7))
                    inner.put(manifest_path(7, NamingScheme.V2), data)
                    data = encode_manifest(old[5].replace(version=detached))
                    inner.put(manifest_path(detached, NamingScheme.V2), data)
            super().delete(name)

    result = lo.cleanup(Restoring(inner), retain_versions=1)
    assert result.versions_removed == 5
    assert Dataset.open(inner).to_table().to_pydict() == {"x": [3]}
    assert Dataset.open(inner, detached).to_table().to_pydict() == {"x": [4]}
    assert len(list(inner.list("data"))) == 3
    Snapshot.drop(inner)
