"""Fleet forecast from the ledger alone; pure except for reading it."""

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
    """Forecast for one dataset.

    Attributes:
        dataset: Its name.
        days: Days until the first threshold is passed; 0 if passed, None if never at the present rate.
        first: The operation due then.
        thresholds: Each measure with its threshold.
        bytes_per_day: Growth of its data files.
        reclaimable_bytes: Bytes that a cleanup would free.
    """

    dataset: str
    days: float | None
    first: str
    thresholds: tuple[Forecast, ...]
    bytes_per_day: float
    reclaimable_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateError:
    """Error of the estimates of an operation.

    Attributes:
        operation: Its name.
        count: Number of estimated operations.
        seconds: Median of |done - planned| / planned for their time; None without any.
        bytes: The same for bytes read and written, or freed.
        seconds_bias: Median of (done - planned) / planned: above 0 when they took longer.
    """

    operation: str
    count: int
    seconds: float | None
    bytes: float | None
    seconds_bias: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetForecast:
    """Forecast for a fleet, at the present rate.

    Attributes:
        at: Time of the forecast.
        days: Number of days ahead.
        datasets: Datasets with due operations within, earliest first.
        backlog_seconds: Estimated time of the work due now.
        backlog_bytes: Estimated bytes read and written by it.
        bytes_per_day: Bytes to read and write each day to keep up: every new byte once.
        budget_per_day: Bytes that the policy allows in its windows; None for no limit.
        suffices: Whether backlog and growth fit into the budget of those days; None without a limit.
        short_by: Missing share of the required bytes; 0 if it suffices.
        frees_bytes: Bytes freed by due cleanups.
        errors: Errors of past estimates, by operation.
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
        """Return JSON values."""
        return {"operation": "fleet forecast", **asdict(self), "at": self.at.isoformat()}

    def lines(self) -> list[str]:
        """Return the forecast as lines of text."""
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
    """Forecast due operations, and whether the budget suffices.

    Args:
        policy: Policy of the fleet.
        looks: Newest observation of each dataset.
        history: Observations for growth rates, oldest first; with too few, the rates of the newest versions
            are used.
        operations: Past operations, for the errors of their estimates.
        now: The time, aware.
        days: Number of days ahead.
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
    """Return the bytes per day that the policy allows, averaged over a week; None for no limit."""
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
    """Return the errors of past estimates, by operation."""
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
    """Return growth per day between observations, without maintenance; else that of the newest versions."""
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
    """Return the days between the first and the last observation; None if too short."""
    if len(history) < 2 or history[-1].at - history[0].at < _LEAST_SPAN:
        return None
    return (history[-1].at - history[0].at).total_seconds() / _DAY


def _grown(history: Sequence[Look], measure: Any) -> float:
    values = [measure(item) for item in history]
    return float(sum(max(0, after - before) for before, after in pairwise(values)))


def _stored(look: Look) -> int:
    return round(look.rows / max(1e-9, 1 - look.deleted_ratio)) if look.deleted_ratio < 1 else look.rows


def _health(look: Look) -> DatasetHealth:
    """Return the measures with thresholds of an observation."""
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
