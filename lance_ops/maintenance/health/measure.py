"""Health measurement: numbers of a dataset from its newest manifest and one listing."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.index.coverage import coverage
from lance_ops.index.upkeep.lost_rows import misleads, names_gone_row_ids
from lance_ops.index.upkeep.wear import measure_wear
from lance_ops.maintenance.column_files.dead_bytes import DeadBytes
from lance_ops.maintenance.compact.estimate import RowShape, estimate_group, request_seconds
from lance_ops.maintenance.compact.groups import find_groups, small_sources
from lance_ops.maintenance.compact.options import CompactionOptions, resolve_options
from lance_ops.maintenance.index.decision import WearLimits, decide
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.manifest.fragments.totals import (
    numbers_of,
    total_bytes,
    total_physical_rows,
    total_rows,
)
from lance_ops.table.manifest.listing import list_versions
from lance_ops.table.mem_wal.state import count_left_out

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
        small_fragments: Small fragments that a compaction would merge; those that it leaves alone for their
            neighbours' size do not count.
        data_files: Data files.
        data_bytes: Recorded size of the data files.
        indices: Ordinary indices.
        unindexed_rows: Live rows without coverage by the index with the lowest coverage.
        index_coverage: Lowest share of live rows covered by an index, 0 to 1; 1 without indices.
        index_segments: Highest number of segments of an index; each costs every query a search.
        deferred_compactions: Compactions with a deferred remap, which every reader applies.
        live_versions: Versions with a manifest.
        manifest_bytes: Size of this version's manifest file.
        index_dead_ratio: Highest share of deleted rows in an index segment, 0 to 1.
        index_imbalance: Highest imbalance of the partitions of a vector index, see `ModelFit`.
        index_drift: Highest drift of a vector index, see `ModelFit`.
        worn_indices: Indices that a refresh would rebuild, in whole or in part, for these numbers.
        short_indices: Full-text and vector indices with stable row ids of rows that a compaction removed:
            pylance returns too few rows from these.
        debt_seconds: Extra seconds of each full scan, compared with a compacted table, by the cost model.
        debt_requests: Extra requests of each full scan.
        mem_wal_generations: Flushed generations of MemWAL that the version lacks; None without MemWAL.
        mem_wal_rows: Rows of MemWAL that a plain scan leaves out, in generations and log entries.
        mem_wal_bytes: Bytes of the generations, as their writers recorded them.
        debt_bytes: Bytes of deleted rows and dropped columns that a compaction would purge.
        most_files: Highest number of data files of a fragment; a scan of all columns reads each of them.
        dead_column_bytes: Bytes of dropped and replaced columns in data files, part of `debt_bytes`.
            Estimated from a sample of the files.
        dead_column_ratio: These over the recorded size of the data files, 0 to 1.
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
    index_dead_ratio: float | None = None
    index_imbalance: float | None = None
    index_drift: float | None = None
    worn_indices: int | None = None
    short_indices: int | None = None
    debt_seconds: float = 0.0
    debt_requests: int = 0
    debt_bytes: int = 0
    mem_wal_generations: int | None = None
    mem_wal_rows: int | None = None
    mem_wal_bytes: int | None = None
    most_files: int = 0
    dead_column_bytes: int = 0
    dead_column_ratio: float = 0.0

    def to_dict(self) -> dict[str, int | float]:
        """Return all known numbers by name."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


@public(target="uri_or_dataset")
def measure_health(
    uri_or_dataset: Target,
    *,
    target_rows: int = DEFAULT_TARGET_ROWS,
    compaction: CompactionOptions | None = None,
    limits: WearLimits | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DatasetHealth:
    """Measure one version; lists the versions and reads no data, except to measure index degradation.

    Where columns were dropped, the descriptions of some data files are read.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`, which is measured at its own version.
        target_rows: Rows of a fragment that is not small; without effect beside `compaction`.
        compaction: Options of the compaction that counts: small fragments and layout debt are what it would
            change. By default those of the table's config, with `target_rows`.
        limits: Sample the indices (`measure_wear`), and judge them by these. None leaves the numbers of their
            wear open.
        storage_options: For opening the dataset.

    Examples:
        >>> health = lo.measure_health("events.lance")
        >>> health.rows, health.small_fragments
        (10, 2)
    """
    dataset = open_dataset(uri_or_dataset, storage_options).with_side_sizes()
    fragments = dataset.fragments
    physical = total_physical_rows(fragments)
    deleted = physical - total_rows(fragments)
    covered = coverage(dataset)
    reuse = dataset.fragment_reuse
    locations = list_versions(dataset.store)
    wear = () if limits is None else measure_wear(dataset)
    fits = [item.fit for item in wear if item.fit is not None]
    options = compaction or compaction_options(dataset, {"target_rows_per_fragment": target_rows})
    shape, request = RowShape.of(dataset.lance_schema), request_seconds(dataset.uri)
    # Layout debt: the present version, compared with a compaction without budget and indices.
    groups = find_groups(dataset, options, frozenset())
    debts = [estimate_group(group, shape, request) for group in groups]
    waiting = count_left_out(dataset)
    dead = DeadBytes(dataset.bases, dataset.lance_schema).of(fragments)
    data_bytes = total_bytes(fragments)
    size = next((item.size for item in locations if item.version == dataset.version), None)
    return DatasetHealth(
        version=dataset.version,
        rows=physical - deleted,
        physical_rows=physical,
        deleted_rows=deleted,
        deleted_ratio=deleted / physical if physical else 0.0,
        fragments=len(fragments),
        small_fragments=small_sources(groups, options),
        data_files=int(numbers_of(fragments).file_counts.sum()),
        data_bytes=data_bytes,
        indices=len(covered),
        unindexed_rows=max((item.unindexed_rows for item in covered), default=0),
        index_coverage=min((item.ratio for item in covered), default=1.0),
        index_segments=max((len(item.segments) for item in covered), default=0),
        deferred_compactions=0 if reuse is None else len(reuse.generations),
        live_versions=len(locations),
        manifest_bytes=size or 0,
        index_dead_ratio=max((item.dead_ratio for item in wear), default=None),
        index_imbalance=max((fit.imbalance for fit in fits), default=None),
        index_drift=max((fit.drift for fit in fits if fit.drift is not None), default=None),
        debt_seconds=sum(debt.scan_seconds_saved for debt in debts),
        debt_requests=sum(debt.scan_requests_saved for debt in debts),
        mem_wal_generations=None if waiting is None else waiting.generations,
        mem_wal_rows=None if waiting is None else waiting.rows,
        mem_wal_bytes=None if waiting is None else waiting.generation_bytes,
        debt_bytes=sum(debt.bytes_saved for debt in debts) + dead,
        most_files=int(numbers_of(fragments).file_counts.max(initial=0)),
        dead_column_bytes=dead,
        dead_column_ratio=dead / data_bytes if data_bytes else 0.0,
        worn_indices=None if limits is None else sum(1 for item in wear if decide(item, limits).is_due),
        short_indices=(
            None
            if limits is None
            else sum(1 for item in covered if names_gone_row_ids(dataset, item) or misleads(dataset, item))
        ),
    )


def compaction_options(dataset: Dataset, chosen: Mapping[str, object]) -> CompactionOptions:
    """Return the options of a compaction by which a dataset is measured.

    Args:
        dataset: The version, whose config counts; one that cannot be read is left to the compaction, whose
            error names it.
        chosen: Names of `CompactionOptions` to values.
    """
    try:
        return resolve_options(dataset.config, chosen)[0]
    except InvalidArgumentError:
        return resolve_options({}, chosen)[0]
