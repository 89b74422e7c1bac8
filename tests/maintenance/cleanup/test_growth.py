"""What a cleanup costs as versions pile up: memory that does not follow them, reads side by side."""

import threading
import tracemalloc

import pyarrow as pa
import pyarrow.lib
import pytest

import lance_ops as lo
from lance_ops.maintenance.cleanup.line import CleanupOptions, Line
from lance_ops.maintenance.cleanup.plan import plan_cleanup
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.listing import NamingScheme, manifest_path
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
