"""Fleet forecast, from the ledger alone; pure but for reading it."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from lance_ops.fleet.ledger.rows import Look, OperationRow
from lance_ops.fleet.policy.model import DatasetPolicy, FleetPolicy
from lance_ops.fleet.policy.windows import open_until
from lance_ops.maintenance.health.forecast import Forecast, GrowthRate, foresee
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.text import bytes_text, count_text, seconds_text, share_text

_DAY = 86400.0
_STEP = timedelta(minutes=15)
_WEEK_STEPS = 7 * 24 * 4
_LEAST_SPAN = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetForecast:
    """When the thresholds of one dataset are passed.

    Attributes:
        dataset: Its name.
        days: Until the first of them is; 0 when it is, None when none is at the present rate.
        first: The operation that is due then.
        thresholds: Each measure with its threshold.
        bytes_per_day: Growth of its data files.
        reclaimable_bytes: What a cleanup would free now, or as soon as it is due.
    """

    dataset: str
    days: float | None
    first: str
    thresholds: tuple[Forecast, ...]
    bytes_per_day: float
    reclaimable_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateError:
    """How far estimates of an operation were off.

    Attributes:
        operation: Its name.
        count: Operations that were estimated.
        seconds: Median of |done - planned| / planned, of their time; None without any.
        bytes: So, of bytes read and written, or freed.
        seconds_bias: Median of (done - planned) / planned: above 0 when they took longer.
    """

    operation: str
    count: int
    seconds: float | None
    bytes: float | None
    seconds_bias: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetForecast:
    """What is to come, at the present rate.

    Attributes:
        at: When.
        days: How far it looks.
        datasets: Those with something due within, the first first.
        backlog_seconds: Estimate of the work that is due now.
        backlog_bytes: So, bytes that it reads and writes.
        bytes_per_day: What is to be read and written each day to keep up: every new byte once.
        budget_per_day: What the policy allows, windows counted; None for no bound.
        suffices: Whether backlog and growth fit into the budget of those days; None without a bound.
        short_by: Share of the need that it lacks; 0 when it suffices.
        frees_bytes: What cleanups free when they are done.
        errors: Of past estimates, by operation.
    """

    at: datetime
    days: int
    datasets: tuple[DatasetForecast, ...]
    backlog_seconds: float
    backlog_bytes: int
    bytes_per_day: float
    budget_per_day: float | None
    suffices: bool | None
    short_by: float
    frees_bytes: int
    errors: tuple[EstimateError, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"operation": "fleet forecast", **asdict(self), "at": self.at.isoformat()}

    def lines(self) -> list[str]:
        """What it comes to, a line each."""
        within = [item for item in self.datasets if item.days is not None and item.days <= self.days]
        now = sum(1 for item in within if item.days == 0)
        later = f"{len(within) - now:,} more within {count_text(self.days, 'day')}"
        backlog = f"{seconds_text(self.backlog_seconds)} of work, {bytes_text(self.backlog_bytes)} to move"
        growth = f"{bytes_text(round(self.bytes_per_day))} more each day"
        found = [f"{count_text(now, 'dataset')} due now, {later}", f"backlog: {backlog}; {growth}"]
        if self.budget_per_day is not None:
            enough = "suffices" if self.suffices else f"is short by {share_text(self.short_by)}"
            found.append(f"budget: {bytes_text(round(self.budget_per_day))} a day, which {enough}")
        found.append(f"cleanup frees {bytes_text(self.frees_bytes)}")
        for item in self.errors:
            parts = [
                f"{name} {share_text(value)}"
                for name, value in (("time", item.seconds), ("bytes", item.bytes))
                if value is not None
            ]
            if parts:
                found.append(
                    f"estimates of {item.operation}: median error {', '.join(parts)} "
                    f"({count_text(item.count, 'operation')})"
                )
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())


def forecast_fleet(
    policy: FleetPolicy,
    looks: Mapping[str, Look],
    history: Sequence[Look],
    operations: Sequence[OperationRow],
    *,
    now: datetime,
    days: int = 14,
) -> FleetForecast:
    """Foresee what is due, and whether the budget suffices.

    Args:
        policy: Of the fleet.
        looks: The newest at each dataset.
        history: All looks that tell growth, oldest first; what the newest versions of a dataset told is taken
            where there are too few.
        operations: Past ones, for the errors of their estimates.
        now: Aware.
        days: How far to look.
    """
    by_dataset: dict[str, list[Look]] = defaultdict(list)
    for look in history:
        newest = looks.get(look.dataset)
        if newest is not None and newest.since is not None and look.at < newest.since:
            # That was another dataset at the same path.
            continue
        if look.version is not None:
            by_dataset[look.dataset].append(look)
    found = [
        _of_dataset(look, policy.of_dataset(name), by_dataset.get(name, ()))
        for name, look in looks.items()
        if look.version is not None
    ]
    found.sort(key=lambda item: (item.days is None, item.days, item.dataset))
    backlog = [look for look in looks.values() if look.is_due]
    growth = sum(item.bytes_per_day for item in found)
    # Every new byte is read and written once by a compaction.
    need = sum(look.cost_bytes for look in backlog) + 2 * growth * days
    budget = budget_per_day(policy, now)
    short = 0.0 if budget is None or need <= budget * days else 1 - budget * days / need
    return FleetForecast(
        at=now,
        days=days,
        datasets=tuple(item for item in found if item.days is not None and item.days <= days),
        backlog_seconds=sum(look.cost_seconds for look in backlog),
        backlog_bytes=sum(look.cost_bytes for look in backlog),
        bytes_per_day=2 * growth,
        budget_per_day=budget,
        suffices=None if budget is None else not short,
        short_by=short,
        frees_bytes=sum(look.reclaimable_bytes for look in looks.values()),
        errors=estimate_errors(operations),
    )


def budget_per_day(policy: FleetPolicy, now: datetime) -> float | None:
    """Bytes that the policy lets move in a day, on average over a week of its windows; None for no bound."""
    bounds = [policy.budget.bytes_per_hour]
    stores = [policy.budget_of(store.name).bytes_per_hour for store in policy.stores]
    if all(bound is not None for bound in stores):
        bounds.append(sum(bound for bound in stores if bound is not None))
    known = [bound for bound in bounds if bound is not None]
    if not known:
        return None
    is_open = sum(
        1
        for step in range(_WEEK_STEPS)
        if open_until(now + step * _STEP, policy.windows, policy.blackouts) is not None
    )
    return min(known) * 24 * is_open / _WEEK_STEPS


def estimate_errors(operations: Iterable[OperationRow]) -> tuple[EstimateError, ...]:
    """How far past estimates were off, by operation."""
    by_name: dict[str, list[OperationRow]] = defaultdict(list)
    for row in operations:
        if row.outcome == "done" and row.seconds_planned:
            by_name[row.operation].append(row)
    errors: list[EstimateError] = []
    for name, rows in sorted(by_name.items()):
        seconds = [row.seconds_error for row in rows if row.seconds_error is not None]
        sizes = [row.bytes_error for row in rows if row.bytes_error is not None]
        errors.append(
            EstimateError(
                operation=name,
                count=len(rows),
                seconds=statistics.median(map(abs, seconds)) if seconds else None,
                bytes=statistics.median(map(abs, sizes)) if sizes else None,
                seconds_bias=statistics.median(seconds) if seconds else None,
            )
        )
    return tuple(errors)


def _of_dataset(look: Look, policy: DatasetPolicy, history: Sequence[Look]) -> DatasetForecast:
    thresholds: tuple[Forecast, ...] = ()
    rate = _rate(look, history)
    if rate is not None:
        thresholds = tuple(
            item
            for item in foresee(_health(look), policy.maintenance, rate)
            if item.operation in policy.operations
        )
    known = [item for item in thresholds if item.days is not None]
    first = min(known, key=lambda item: item.days or 0.0, default=None)
    days, operation = (None, "") if first is None else (first.days, first.operation)
    if look.is_due:
        days, operation = 0.0, look.due[0]
    return DatasetForecast(
        dataset=look.dataset,
        days=days,
        first=operation,
        thresholds=thresholds,
        bytes_per_day=_bytes_per_day(look, history) if "compact" in policy.operations else 0.0,
        reclaimable_bytes=look.reclaimable_bytes,
    )


def _rate(look: Look, history: Sequence[Look]) -> GrowthRate | None:
    """What looks saw grow, what maintenance took away left out; else what the newest versions told."""
    span = _span(history)
    if span is not None:
        return GrowthRate(
            versions=_grown(history, lambda item: item.version or 0) / span,
            fragments=_grown(history, lambda item: item.fragments) / span,
            rows=_grown(history, _stored) / span,
            deleted_rows=_grown(history, lambda item: round(_stored(item) * item.deleted_ratio)) / span,
        )
    if look.versions_per_day is None:
        return None
    return GrowthRate(
        versions=look.versions_per_day,
        fragments=look.fragments_per_day or 0.0,
        rows=look.rows_per_day or 0.0,
        deleted_rows=look.deleted_per_day or 0.0,
    )


def _bytes_per_day(look: Look, history: Sequence[Look]) -> float:
    span = _span(history)
    if span is not None:
        return _grown(history, lambda item: item.data_bytes) / span
    return look.bytes_per_day or 0.0


def _span(history: Sequence[Look]) -> float | None:
    """Days between the first and the last look; None when they tell nothing."""
    if len(history) < 2 or history[-1].at - history[0].at < _LEAST_SPAN:
        return None
    return (history[-1].at - history[0].at).total_seconds() / _DAY


def _grown(history: Sequence[Look], measure: Any) -> float:
    values = [measure(item) for item in history]
    return float(sum(max(0, after - before) for before, after in pairwise(values)))


def _stored(look: Look) -> int:
    return round(look.rows / max(1e-9, 1 - look.deleted_ratio)) if look.deleted_ratio < 1 else look.rows


def _health(look: Look) -> DatasetHealth:
    """The measures that thresholds are about, as a look has them."""
    stored = _stored(look)
    return DatasetHealth(
        version=look.version or 0,
        rows=look.rows,
        physical_rows=stored,
        deleted_rows=stored - look.rows,
        deleted_ratio=look.deleted_ratio,
        fragments=look.fragments,
        small_fragments=look.small_fragments,
        data_files=look.fragments,
        data_bytes=look.data_bytes,
        indices=look.indices,
        unindexed_rows=round(look.rows * (1 - look.index_coverage)),
        index_coverage=look.index_coverage,
        index_segments=look.index_segments,
        deferred_compactions=0,
        live_versions=look.versions,
        manifest_bytes=0,
    )
