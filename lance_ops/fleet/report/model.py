"""What a report shows, from the ledger: totals, their course over the days, and a page for each dataset."""

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

N = TypeVar("N", int, float)

_DAYS = 30
_LAST = 10
_POINTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A dataset of the report.

    Attributes:
        number: Names its page.
        look: The newest.
        history: Looks, oldest first, thinned.
        operations: The last ones, newest first.
        forecast: When its thresholds are passed; None where nothing tells.
        last: When each operation was last done.
        versions: What the newest commits did; empty where the report did not look at the dataset.
        indices: Its indices; so.
        unread: Why nobody looked; empty when somebody did.
    """

    number: int
    look: Look
    history: tuple[Look, ...]
    operations: tuple[OperationRow, ...]
    forecast: DatasetForecast | None
    last: Mapping[str, datetime]
    versions: tuple[HistoryLine, ...] = ()
    indices: tuple[IndexLine, ...] = ()
    unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of a report.

    Attributes:
        at: When it was made.
        policy: Of the fleet.
        counts: Datasets by verdict.
        pages: Datasets, those that need it most first; those beyond the bound have no page of their own.
        bound: Datasets with a page of their own.
        runs: The last ones, newest first.
        days: Of the courses.
        due_by_day: Datasets that were due at the end of each day.
        moved_by_day: Bytes read and written.
        freed_by_day: Bytes freed.
        saved_by_day: Scan seconds saved, by the estimates.
        forecast: What is to come.
        classes: What the policy comes to for each class that has a dataset.
        unseen: Rules that failed and folders that could not be looked into, a line each; empty where the
            report asked no store.
    """

    at: datetime
    policy: FleetPolicy
    counts: Mapping[str, int]
    pages: tuple[Page, ...]
    bound: int
    runs: tuple[RunRow, ...]
    days: tuple[date, ...]
    due_by_day: tuple[int, ...]
    moved_by_day: tuple[int, ...]
    freed_by_day: tuple[int, ...]
    saved_by_day: tuple[float, ...]
    forecast: FleetForecast
    classes: Mapping[str, DatasetPolicy]
    unseen: tuple[str, ...] = ()

    @property
    def looks(self) -> list[Look]:
        """The newest look at each dataset."""
        return [page.look for page in self.pages]


def make_report(policy: FleetPolicy, ledger: FleetLedger, *, now: datetime, bound: int = 1000) -> Report:
    """Read the ledger.

    Args:
        policy: Of the fleet.
        ledger: Of the fleet.
        now: Aware.
        bound: Datasets with a page of their own.

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
    pages = tuple(
        Page(
            number=number,
            look=look,
            history=_thinned(looks_of[look.dataset]) if number < bound else (),
            operations=tuple(reversed(operations_of[look.dataset][-_LAST:])) if number < bound else (),
            forecast=forecasts.get(look.dataset),
            last={row.operation: row.at for row in operations_of[look.dataset] if row.outcome == "done"},
        )
        for number, look in enumerate(worst(list(latest.values()), len(latest)))
    )
    days = tuple((now - timedelta(days=_DAYS - 1 - offset)).date() for offset in range(_DAYS))
    counts = Counter(look.verdict for look in latest.values())
    classes: dict[str, DatasetPolicy] = {}
    for look in latest.values():
        classes.setdefault(look.class_name, policy.of_dataset(look.dataset))
    return Report(
        at=now,
        policy=policy,
        counts={verdict: counts.get(verdict, 0) for verdict in VERDICTS},
        pages=pages,
        bound=bound,
        runs=tuple(reversed(ledger.runs(since=since)[-_LAST:])),
        days=days,
        due_by_day=_due_by_day(history, days),
        moved_by_day=_by_day(operations, days, lambda row: row.bytes_read + row.bytes_written),
        freed_by_day=_by_day(operations, days, lambda row: row.bytes_freed),
        saved_by_day=_by_day(operations, days, lambda row: row.scan_seconds_saved),
        forecast=foreseen,
        classes=classes,
    )


def _by_day(
    operations: Sequence[OperationRow], days: Sequence[date], measure: Callable[[OperationRow], N]
) -> tuple[N | int, ...]:
    sums: dict[date, N] = {}
    for row in operations:
        day = row.at.date()
        sums[day] = sums[day] + measure(row) if day in sums else measure(row)
    return tuple(sums.get(day, 0) for day in days)


def _due_by_day(history: Sequence[Look], days: Sequence[date]) -> tuple[int, ...]:
    """At the end of each day, by the newest look until then."""
    state: dict[str, bool] = {}
    waiting = list(history)
    position, counts = 0, []
    for day in days:
        while position < len(waiting) and waiting[position].at.date() <= day:
            state[waiting[position].dataset] = waiting[position].is_due
            position += 1
        counts.append(sum(state.values()))
    return tuple(counts)


def _thinned(looks: Sequence[Look]) -> tuple[Look, ...]:
    """At most so many, the newest among them."""
    step = max(1, len(looks) // _POINTS)
    return tuple(looks[(len(looks) - 1) % step :: step])
