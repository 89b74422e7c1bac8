"""Forecast: when each threshold of a policy is passed at the present rate of commits.

The rate is what the newest versions added, over the time between the first and the last of them. What
compactions and cleanups took away in between does not count: the forecast says when they are due again.
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
"""Newest versions that the rate is taken from."""

_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRate:
    """What commits add in a day.

    Attributes:
        versions: Versions.
        fragments: Fragments.
        rows: Rows, deleted ones included.
        deleted_rows: Rows marked deleted.
    """

    versions: float
    fragments: float
    rows: float
    deleted_rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One threshold.

    Attributes:
        measure: Name of the measure in `DatasetHealth`.
        operation: What is due when the threshold is passed.
        value: The measure now.
        limit: The threshold of the policy.
        days: Until it is passed; 0 when it is, None when the present rate never gets there.
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
    """Foresee when the thresholds are passed; reads the newest versions' manifests.

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
    """What commits add in a day; None when the entries do not tell.

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
    """When each threshold is passed, at a rate. Pure."""
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
    """Days until what is left is used up, and more."""
    if left < 0:
        return 0.0
    if per_day <= 0:
        return None
    days = left / per_day
    return days if math.isfinite(days) else None
