"""Contents of a report, from the ledger: totals, their trend by day, and a page for each dataset."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TypeVar

from lance_ops.fleet.adopt.operation import worst
from lance_ops.fleet.forecast.operation import DatasetForecast, FleetForecast, forecast_fleet
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import VERDICTS, Look, OperationRow, RunRow
from lance_ops.fleet.policy.model import DatasetPolicy, FleetPolicy
from lance_ops.fleet.report.tables import HistoryLine, IndexLine
from lance_ops.maintenance.text import seconds_text

N = TypeVar("N", int, float)

STALE = "stale"
"""Verdict shown instead of `healthy` if the last observation is too old, or used another policy."""
SHOWN = (*VERDICTS[:-1], STALE, VERDICTS[-1])
"""Verdicts in a report, worst first."""
STALE_AFTER = timedelta(days=1)

_LIMITS = {
    "small_fragments": ("compact", "max_small_fragments"),
    "deleted_ratio": ("compact", "max_deleted_ratio"),
    "index_coverage": ("index", "min_index_coverage"),
    "versions": ("cleanup", "max_versions"),
}
_DAYS = 30
_LAST = 10
_POINTS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A dataset of the report.

    Attributes:
        number: Position in the report, and id of its page.
        look: The newest.
        stale: Why the look is no answer any more; empty when it is.
        history: Looks, oldest first, thinned.
        operations: The last ones, newest first.
        forecast: When its thresholds are passed; None if unknown.
        last: When each operation was last done.
        limits: Thresholds of the policy by the measures of a look, for the operations that it has.
        versions: The newest commits; empty where the report did not open the dataset.
        indices: Its indices; empty as well then.
        unread: Error of opening the dataset; empty without one.
    """

    number: int
    look: Look
    stale: str
    history: tuple[Look, ...]
    operations: tuple[OperationRow, ...]
    forecast: DatasetForecast | None
    last: Mapping[str, datetime]
    limits: Mapping[str, float]
    versions: tuple[HistoryLine, ...] = ()
    indices: tuple[IndexLine, ...] = ()
    unread: str = ""

    @property
    def verdict(self) -> str:
        """The verdict; `STALE` if it is healthy but outdated."""
        return _shown(self.look, self.stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Contents of a report.

    Attributes:
        at: Time of the report.
        policy: Policy of the fleet.
        stale_after: Age from which an observation is stale.
        counts: Number of datasets by verdict, see `SHOWN`.
        pages: Datasets, worst first; those beyond the limit are in the table only.
        bound: Maximum datasets with a page of their own.
        runs: The last runs, newest first.
        days: Days of the trends, oldest first.
        due_by_day: Number of due datasets at the end of each day.
        debt_by_day: Extra seconds of a full scan of each dataset, in total, at the end of each day.
        spent_by_day: Seconds of operations.
        moved_by_day: Bytes read and written.
        freed_by_day: Bytes freed.
        saved_by_day: Estimated seconds saved by one full scan of each dataset.
        forecast: Forecast of the fleet.
        classes: Settings of each class that has a dataset.
        unseen: Failed rules and unreadable folders, a line each; empty if no store was opened.
    """

    at: datetime
    policy: FleetPolicy
    stale_after: timedelta
    counts: Mapping[str, int]
    pages: tuple[Page, ...]
    bound: int
    runs: tuple[RunRow, ...]
    days: tuple[date, ...]
    due_by_day: tuple[int, ...]
    debt_by_day: tuple[float, ...]
    spent_by_day: tuple[float, ...]
    moved_by_day: tuple[int, ...]
    freed_by_day: tuple[int, ...]
    saved_by_day: tuple[float, ...]
    forecast: FleetForecast
    classes: Mapping[str, DatasetPolicy]
    unseen: tuple[str, ...] = ()

    @property
    def looks(self) -> list[Look]:
        """The newest observation of each dataset."""
        return [page.look for page in self.pages]


def make_report(
    policy: FleetPolicy,
    ledger: FleetLedger,
    *,
    now: datetime,
    bound: int = 1000,
    stale_after: timedelta = STALE_AFTER,
) -> Report:
    """Make a report from a ledger.

    Args:
        policy: Policy of the fleet.
        ledger: Ledger of the fleet.
        now: The time, aware.
        bound: Maximum datasets with a page of their own.
        stale_after: Age from which an observation is stale.

    Raises:
        LanceOpsError: The ledger cannot be read.
    """
    since = now - timedelta(days=_DAYS)
    latest = ledger.latest()
    history, operations = ledger.looks(since=since), ledger.operations(since=since)
    foreseen = forecast_fleet(policy, latest, history, operations, now=now, days=14)
    forecasts = {item.dataset: item for item in foreseen.datasets}
    looks_of: dict[str, list[Look]] = defaultdict(list)
    for look in history:
        looks_of[look.dataset].append(look)
    operations_of: dict[str, list[OperationRow]] = defaultdict(list)
    for row in operations:
        operations_of[row.dataset].append(row)
    stale = {name: _staleness(look, policy, now, stale_after) for name, look in latest.items()}
    ordered = sorted(
        worst(list(latest.values()), len(latest)),
        key=lambda look: SHOWN.index(_shown(look, stale[look.dataset])),
    )
    pages = tuple(
        Page(
            number=number,
            look=look,
            stale=stale[look.dataset],
            history=_thinned(looks_of[look.dataset]) if number < bound else (),
            operations=tuple(reversed(operations_of[look.dataset][-_LAST:])) if number < bound else (),
            forecast=forecasts.get(look.dataset),
            last={row.operation: row.at for row in operations_of[look.dataset] if row.outcome == "done"},
            limits=_limits(policy.of_dataset(look.dataset)),
        )
        for number, look in enumerate(ordered)
    )
    days = tuple((now - timedelta(days=_DAYS - 1 - offset)).date() for offset in range(_DAYS))
    counts = Counter(page.verdict for page in pages)
    classes: dict[str, DatasetPolicy] = {}
    for look in latest.values():
        classes.setdefault(look.class_name, policy.of_dataset(look.dataset))
    return Report(
        at=now,
        policy=policy,
        stale_after=stale_after,
        counts={verdict: counts[verdict] for verdict in SHOWN},
        pages=pages,
        bound=bound,
        runs=tuple(reversed(ledger.runs(since=since)[-_LAST:])),
        days=days,
        due_by_day=_state_by_day(history, days, lambda look: int(look.is_due)),
        debt_by_day=_state_by_day(history, days, lambda look: look.debt_seconds),
        spent_by_day=_by_day(operations, days, lambda row: row.seconds),
        moved_by_day=_by_day(operations, days, lambda row: row.bytes_read + row.bytes_written),
        freed_by_day=_by_day(operations, days, lambda row: row.bytes_freed),
        saved_by_day=_by_day(operations, days, lambda row: row.scan_seconds_saved),
        forecast=foreseen,
        classes=classes,
    )


def _limits(policy: DatasetPolicy) -> dict[str, float]:
    return {
        measure: getattr(policy.maintenance, threshold)
        for measure, (operation, threshold) in _LIMITS.items()
        if operation in policy.operations
    }


def _by_day(
    operations: Sequence[OperationRow], days: Sequence[date], measure: Callable[[OperationRow], N]
) -> tuple[N | int, ...]:
    values: dict[date, list[N]] = defaultdict(list)
    for row in operations:
        values[row.at.date()].append(measure(row))
    return tuple(sum(values[day]) for day in days)


def _state_by_day(
    history: Sequence[Look], days: Sequence[date], measure: Callable[[Look], N]
) -> tuple[N | int, ...]:
    """Sum a measure over the newest observation of each dataset until the end of each day."""
    state: dict[str, N] = {}
    waiting = iter(history)
    following = next(waiting, None)
    sums: list[N | int] = []
    for day in days:
        while following is not None and following.at.date() <= day:
            state[following.dataset] = measure(following)
            following = next(waiting, None)
        sums.append(sum(state.values()))
    return tuple(sums)


def _shown(look: Look, stale: str) -> str:
    return STALE if stale and look.verdict == VERDICTS[-1] else look.verdict


def _staleness(look: Look, policy: FleetPolicy, now: datetime, stale_after: timedelta) -> str:
    """Return why an observation may be outdated; empty if it is recent and used this policy."""
    if now - look.at > stale_after:
        return f"last surveyed {seconds_text((now - look.at).total_seconds())} ago"
    if look.rules is not None and look.rules != policy.of_dataset(look.dataset).fingerprint():
        return "assessed by an earlier policy"
    return ""


def _thinned(looks: Sequence[Look]) -> tuple[Look, ...]:
    """Thin out values to a maximum number, including the newest."""
    step = max(1, len(looks) // _POINTS)
    return tuple(looks[(len(looks) - 1) % step :: step])
