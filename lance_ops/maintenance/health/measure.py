"""Health: the numbers of a dataset from its newest manifest and one listing."""

from dataclasses import dataclass, fields

from lance_ops.index.coverage import coverage
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import list_versions

DEFAULT_TARGET_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class DatasetHealth:
    """State of one version of a dataset.

    Attributes:
        version: The version.
        rows: Live rows.
        physical_rows: Rows in data files, deleted ones included.
        deleted_rows: Rows marked deleted.
        deleted_ratio: Deleted rows over physical rows, 0 to 1.
        fragments: Fragments.
        small_fragments: Fragments with fewer rows than the target.
        data_files: Data files.
        data_bytes: Recorded size of the data files.
        indices: Ordinary indices.
        unindexed_rows: Live rows that the worst covered index does not cover.
        index_coverage: Share of live rows that the worst covered index covers, 0 to 1; 1 without indices.
        index_segments: Segments of the index that has most of them; each costs every query a search.
        deferred_compactions: Compactions whose moves the indices have not followed yet; each reader does.
        live_versions: Versions whose manifest is still there.
        manifest_bytes: Size of this version's manifest file.
    """

    version: int
    rows: int
    physical_rows: int
    deleted_rows: int
    deleted_ratio: float
    fragments: int
    small_fragments: int
    data_files: int
    data_bytes: int
    indices: int
    unindexed_rows: int
    index_coverage: float
    index_segments: int
    deferred_compactions: int
    live_versions: int
    manifest_bytes: int

    def to_dict(self) -> dict[str, int | float]:
        """All numbers by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def measure_health(dataset: Dataset, *, target_rows: int = DEFAULT_TARGET_ROWS) -> DatasetHealth:
    """Measure one version; lists the versions and reads no data.

    Args:
        dataset: The version.
        target_rows: Rows of a fragment that is not small.
    """
    fragments = dataset.fragments
    physical = sum(fragment.physical_rows for fragment in fragments)
    deleted = sum(fragment.num_deleted_rows for fragment in fragments)
    covered = coverage(dataset)
    reuse = dataset.fragment_reuse
    locations = list_versions(dataset.store)
    size = next((item.size for item in locations if item.version == dataset.version), None)
    return DatasetHealth(
        version=dataset.version,
        rows=physical - deleted,
        physical_rows=physical,
        deleted_rows=deleted,
        deleted_ratio=deleted / physical if physical else 0.0,
        fragments=len(fragments),
        small_fragments=sum(1 for fragment in fragments if fragment.num_rows < target_rows),
        data_files=sum(len(fragment.files) for fragment in fragments),
        data_bytes=sum(fragment.data_bytes for fragment in fragments),
        indices=len(covered),
        unindexed_rows=max((item.unindexed_rows for item in covered), default=0),
        index_coverage=min((item.ratio for item in covered), default=1.0),
        index_segments=max((len(item.segments) for item in covered), default=0),
        deferred_compactions=0 if reuse is None else len(reuse.generations),
        live_versions=len(locations),
        manifest_bytes=size or 0,
    )
