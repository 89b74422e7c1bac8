"""Maintenance policy: thresholds as data, and verdicts with reasons."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.compact.options import STRATEGIES
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.index.decision import WearLimits
from lance_ops.maintenance.index.merging import MOST_SEGMENTS
from lance_ops.maintenance.text import count_text

_USUAL_DELETED_RATIO = 0.1
"""Default share of deleted rows above which a compaction rewrites a large fragment."""


_DURATIONS = ("older_than", "cleanup_grace")


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """Thresholds of one dataset. An operation is due when its threshold is passed.

    Attributes:
        target_rows: Target rows per fragment.
        target_bytes: Target bytes per fragment; see `CompactionOptions.target_bytes_per_fragment`. None
            leaves it to the table's config.
        tier_growth: Factor between size tiers; see `CompactionOptions.tier_growth`.
        max_small_fragments: Compaction is due if it would merge more small fragments than this.
        max_deleted_ratio: Compaction is due with a greater share of deleted rows, 0 to 1.
        max_files_per_fragment: Compaction is due if a fragment has more data files than this: it joins them.
        max_dead_column_ratio: Compaction is due with a greater share of bytes of dropped columns, 0 to 1: it
            leaves them behind.
        min_index_coverage: An index refresh is due when an index covers a smaller share of the rows, 0 to 1.
        max_index_segments: An index refresh is due when an index has more segments than this.
        max_deferred_compactions: An index refresh is due with more deferred remaps than this.
        max_index_dead_ratio: An index refresh is due with a greater share of deleted rows in a segment, 0 to
            1.
        max_index_drift: An index refresh is due when newer vectors are more than this many times as far from
            centroids.
        max_index_imbalance: An index refresh is due when the imbalance of partitions exceeds this multiple of
            that after training.
        min_vector_recall: The check of a vector index fails below this recall on a sample, 0 to 1. Codes
            without refinement reach a half and more, and far less after degradation.
        max_versions: Cleanup is due with more versions than this.
        older_than: Minimum age of versions removed by cleanup.
        retain_versions: Number of newest versions that cleanup always keeps.
        cleanup_grace: Time for which versions removed by cleanup stay in the trash with their files, so that
            `undo_cleanup` brings them back. Zero frees their bytes at once.
        strategy: `tiers` or `rows`; see `CompactionOptions.strategy`. Without any, `tiers`.
    """

    target_rows: int = 1 << 20
    target_bytes: int | None = None
    tier_growth: int | None = None
    max_small_fragments: int = 20
    max_deleted_ratio: float = 0.1
    max_files_per_fragment: int = 10
    max_dead_column_ratio: float = 0.25
    min_index_coverage: float = 0.95
    max_index_segments: int = 10
    max_deferred_compactions: int = 4
    max_index_dead_ratio: float = 1 / 3
    max_index_drift: float = 1.5
    max_index_imbalance: float = 2.0
    min_vector_recall: float = 0.3
    max_versions: int = 100
    older_than: timedelta = timedelta(days=14)
    retain_versions: int = 10
    cleanup_grace: timedelta = timedelta(0)
    strategy: Literal["tiers", "rows"] | None = None

    def __post_init__(self) -> None:
        for name in (
            "max_deleted_ratio",
            "max_dead_column_ratio",
            "min_index_coverage",
            "min_vector_recall",
        ):
            if not 0.0 <= getattr(self, name) <= 1.0:
                value = getattr(self, name)
                raise InvalidArgumentError(f"{name} must be between 0 and 1, got {value}", field=name)
        for name, least in (("target_bytes", 1), ("tier_growth", 2)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidArgumentError(f"{name} must be at least {least}", field=name)
        if self.cleanup_grace < timedelta(0):
            raise InvalidArgumentError("cleanup_grace must not be negative", field="cleanup_grace")
        if self.strategy not in (None, *STRATEGIES):
            raise InvalidArgumentError(
                f"strategy must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}", field="strategy"
            )
        _ = self.wear_limits
        for name in (
            "target_rows",
            "retain_versions",
            "max_versions",
            "max_index_segments",
            "max_files_per_fragment",
        ):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name} must be at least 1", field=name)

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> "MaintenancePolicy":
        """Read a policy from the JSON values of `values`."""
        durations = {name: timedelta(seconds=values[name]) for name in _DURATIONS if name in values}
        return cls(**{**values, **durations})

    def values(self) -> dict[str, Any]:
        """Return JSON values of all thresholds; durations in seconds."""
        return {**asdict(self), **{name: getattr(self, name).total_seconds() for name in _DURATIONS}}

    def compaction_options(self) -> Mapping[str, object]:
        """Return `CompactionOptions` by name for a compaction that reaches the thresholds."""
        options: dict[str, object] = {"target_rows_per_fragment": self.target_rows}
        if self.target_bytes is not None:
            options["target_bytes_per_fragment"] = self.target_bytes
        if self.strategy is not None:
            options["strategy"] = self.strategy
        if self.tier_growth is not None:
            options["tier_growth"] = self.tier_growth
        if self.max_deleted_ratio < _USUAL_DELETED_RATIO:
            options["materialize_deletions_threshold"] = self.max_deleted_ratio
        return options

    def column_files_options(self) -> dict[str, Any]:
        """Return options of `compact_columns` that reach the thresholds."""
        return {
            "min_files": self.max_files_per_fragment + 1,
            "min_dead_ratio": self.max_dead_column_ratio,
        }

    @property
    def wear_limits(self) -> WearLimits:
        """Return limits for `optimize_indices` that reach the thresholds.

        Raises:
            InvalidArgumentError: They are invalid.
        """
        return WearLimits(self.max_index_dead_ratio, self.max_index_drift, self.max_index_imbalance)

    @property
    def most_segments(self) -> int:
        """Maximum segments for `optimize_indices` that reach the thresholds."""
        return min(self.max_index_segments, MOST_SEGMENTS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on an operation, with the reason.

    Attributes:
        operation: "compact", "index" or "cleanup".
        due: True if it must run.
        reason: The numbers, and the reason of a block.
        blocked: Why a run would change nothing although a threshold is passed; then it is not due.
    """

    operation: str
    due: bool
    reason: str
    blocked: str = ""

    @property
    def state(self) -> str:
        """`healthy`, `due` or `blocked`."""
        if self.blocked:
            return "blocked"
        return "due" if self.due else "healthy"

    def but_blocked(self, why: str) -> "Verdict":
        """Return a verdict with the same numbers that is blocked."""
        return replace(self, due=False, reason=f"{self.reason}; blocked: {why}", blocked=why)


def judge_health(health: DatasetHealth, policy: MaintenancePolicy) -> tuple[Verdict, ...]:
    """Return verdicts by the thresholds alone, in the order of operations; see `judge_dataset`."""
    return (_compaction(health, policy), _index(health, policy), _cleanup(health, policy))


def _compaction(health: DatasetHealth, policy: MaintenancePolicy) -> Verdict:
    small = f"{count_text(health.small_fragments, 'small fragment')} (limit {policy.max_small_fragments:,})"
    deleted = f"{health.deleted_ratio:.1%} of rows deleted (limit {policy.max_deleted_ratio:.1%})"
    most = f"limit {policy.max_files_per_fragment:,}"
    files = f"{count_text(health.most_files, 'data file')} of a fragment ({most})"
    dead = (
        f"{health.dead_column_ratio:.1%} of bytes in dropped columns (limit "
        f"{policy.max_dead_column_ratio:.1%})"
    )
    due = [
        reason
        for reason, passed in (
            (small, health.small_fragments > policy.max_small_fragments),
            (deleted, health.deleted_ratio > policy.max_deleted_ratio),
            (files, health.most_files > policy.max_files_per_fragment),
            (dead, health.dead_column_ratio > policy.max_dead_column_ratio),
        )
        if passed
    ]
    return Verdict("compact", bool(due), ", ".join(due or (small, deleted)))


def _index(health: DatasetHealth, policy: MaintenancePolicy) -> Verdict:
    if not health.indices:
        return Verdict("index", due=False, reason="there are no indices")
    covered = (
        f"lowest index coverage {health.index_coverage:.1%} of rows (limit {policy.min_index_coverage:.1%})"
    )
    segments = (
        f"{count_text(health.index_segments, 'segment')} of one index (limit {policy.max_index_segments})"
    )
    deferred = (
        f"{count_text(health.deferred_compactions, 'compaction')} with a deferred index remap (limit "
        f"{policy.max_deferred_compactions})"
    )
    worn = (
        f"{count_text(health.worn_indices or 0, 'index', 'indices')} degraded: at most "
        f"{health.index_dead_ratio or 0:.1%} of rows deleted (limit {policy.max_index_dead_ratio:.1%}), "
        f"drift {health.index_drift or 1:.2f} (limit {policy.max_index_drift:.2f}), imbalance "
        f"{health.index_imbalance or 1:.2f}"
    )
    short = (
        f"{count_text(health.short_indices or 0, 'index', 'indices')} with row ids of rows that a "
        "compaction removed, from which pylance returns too few rows"
    )
    due = [
        reason
        for reason, passed in (
            (covered, health.index_coverage < policy.min_index_coverage),
            (segments, health.index_segments > policy.max_index_segments),
            (deferred, health.deferred_compactions > policy.max_deferred_compactions),
            (worn, bool(health.worn_indices)),
            (short, bool(health.short_indices)),
        )
        if passed
    ]
    return Verdict("index", bool(due), ", ".join(due or (covered,)))


def _cleanup(health: DatasetHealth, policy: MaintenancePolicy) -> Verdict:
    reason = f"{count_text(health.live_versions, 'version')} (limit {policy.max_versions:,})"
    return Verdict("cleanup", health.live_versions > policy.max_versions, reason)
