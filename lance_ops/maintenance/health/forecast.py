"""Forecast of when thresholds of a policy are passed at the present rate of commits.

The rate is the growth over the newest versions, divided by their time span. Reductions by compactions and
cleanups are ignored: the forecast shows when they are due again.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lance_ops.errors import public
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.table.dataset import Target, open_dataset
from lance_ops.table.history.history import HistoryEntry

VERSIONS = 32
"""Number of newest versions for the rate."""

_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRate:
    """Growth per day from commits.

    Attributes: versions: Versions. fragments: Fragments. rows: Rows, deleted ones included. deleted_rows:
    Rows marked deleted.
    """

    versions: float
    fragments: float
    rows: float
    deleted_rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast of one threshold.

    Attributes:
        measure: Name of the measure in `DatasetHealth`.
        operation: The operation due when the threshold is passed.
        value: Present value of the measure.
        limit: The threshold of the policy.
        days: Days until it is passed; 0 if passed, None if never at the present rate.
    """

    measure: str
    operation: str
    value: float
    limit: float
    days: float | None


@public(dataset="uri_or_dataset")
def forecast_health(
    uri_or_dataset: Target,
    policy: MaintenancePolicy,
    health: DatasetHealth,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[Forecast, ...]:
    """Forecast when thresholds are passed; reads the newest versions' manifests.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        policy: Its thresholds.
        health: Its measures.
        storage_options: For opening the dataset.

    Returns:
        Nothing while there is no rate: with fewer than two versions, or all of one moment.

    Examples:
        >>> policy, health = lo.MaintenancePolicy(), lo.measure_health("events.lance")
        >>> [item.measure for item in lo.forecast_health("events.lance", policy, health)]
        ['small_fragments', 'deleted_ratio', 'live_versions']
    """
    rate = growth_rate(open_dataset(uri_or_dataset, storage_options).history(limit=VERSIONS))
    return () if rate is None else tuple(foresee(health, policy, rate))


def growth_rate(history: Sequence[HistoryEntry]) -> GrowthRate | None:
    """Return the growth per day; None if the entries have no time span.

    Args:
        history: Newest first.
    """
    known = [entry for entry in reversed(history) if not entry.damage]
    if len(known) < 2:
        return None
    days = (known[-1].timestamp - known[0].timestamp).total_seconds() / _DAY
    if days <= 0:
        return None
    fragments = rows = deleted = 0
    for before, after in pairwise(known):
        fragments += max(0, after.size.fragments - before.size.fragments)
        deleted += max(0, (after.size.deleted_rows or 0) - (before.size.deleted_rows or 0))
        stored = [(entry.size.rows or 0) + (entry.size.deleted_rows or 0) for entry in (before, after)]
        rows += max(0, stored[1] - stored[0])
    return GrowthRate(
        versions=(len(known) - 1) / days,
        fragments=fragments / days,
        rows=rows / days,
        deleted_rows=deleted / days,
    )


def foresee(health: DatasetHealth, policy: MaintenancePolicy, rate: GrowthRate) -> Iterator[Forecast]:
    """Return when each threshold is passed, at a rate. Pure."""
    yield Forecast(
        measure="small_fragments",
        operation="compact",
        value=health.small_fragments,
        limit=policy.max_small_fragments,
        days=_days(policy.max_small_fragments - health.small_fragments, rate.fragments),
    )
    # deleted + d t > limit (stored + r t)
    yield Forecast(
        measure="deleted_ratio",
        operation="compact",
        value=health.deleted_ratio,
        limit=policy.max_deleted_ratio,
        days=_days(
            policy.max_deleted_ratio * health.physical_rows - health.deleted_rows,
            rate.deleted_rows - policy.max_deleted_ratio * rate.rows,
        ),
    )
    if health.indices:
        # covered < limit (rows + r t)
        covered = health.rows - health.unindexed_rows
        yield Forecast(
            measure="index_coverage",
            operation="index",
            value=health.index_coverage,
            limit=policy.min_index_coverage,
            days=_days(
                covered - policy.min_index_coverage * health.rows, policy.min_index_coverage * rate.rows
            ),
        )
    yield Forecast(
        measure="live_versions",
        operation="cleanup",
        value=health.live_versions,
        limit=policy.max_versions,
        days=_days(policy.max_versions - health.live_versions, rate.versions),
    )


def _days(left: float, per_day: float) -> float | None:
    """Return the days until the rest is used up."""
    if left < 0:
        return 0.0
    if per_day <= 0:
        return None
    days = left / per_day
    return days if math.isfinite(days) else None
