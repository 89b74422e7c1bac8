"""Planning: from the newest looks to what is done next; pure."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lance_ops.fleet.judge.estimate import order
from lance_ops.fleet.ledger.rows import Look, OperationRow
from lance_ops.fleet.plan.model import FleetPlan, LeftOut, PlannedDataset
from lance_ops.fleet.policy.model import DatasetPolicy, FleetPolicy
from lance_ops.fleet.policy.windows import next_opening, open_until
from lance_ops.storage.paths import parse_location

_PAUSE = timedelta(minutes=15)
_LONGEST_PAUSE = timedelta(days=1)
_HOUR = timedelta(hours=1)
_WORTH_BEGINNING = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What a plan may take on.

    Attributes:
        bytes: Read and written in all, by the estimates; None for no bound but those of the policy.
        datasets: At most so many.
        modes: Of classes that are taken on: `propose` for plans that a person approves.
        only: Names of datasets; all when None.
        any_time: Windows do not count: for plans that are run later.
    """

    bytes: int | None = None
    datasets: int | None = None
    modes: frozenset[str] = frozenset({"auto"})
    only: frozenset[str] | None = None
    any_time: bool = False


def plan_fleet(
    policy: FleetPolicy,
    looks: Iterable[Look],
    operations: Sequence[OperationRow],
    *,
    now: datetime,
    options: PlanOptions | None = None,
) -> FleetPlan:
    """Rank what is due, and take the best within the budget.

    Args:
        policy: Of the fleet.
        looks: The newest at each dataset.
        operations: Recent ones: what the last hour spent, and who lost to other writers.
        now: Aware.
        options: What the plan may take on.
    """
    options = options or PlanOptions()
    chosen = [look for look in looks if options.only is None or look.dataset in options.only]
    left = [
        LeftOut(dataset=look.dataset, verdict=look.verdict, reason=look.why)
        for look in chosen
        if look.verdict in ("blocked", "damaged")
    ]
    purse = _Purse.of(policy, operations, options.bytes, now)
    pauses = _pauses(operations, {look.dataset: look.since for look in chosen if look.since is not None})
    items: list[PlannedDataset] = []
    for look in order([look for look in chosen if look.is_due], now):
        rules = policy.of_dataset(look.dataset)
        losses, since = pauses.get(look.dataset, (0, now))
        why = _why_not(rules, options, now, losses, since)
        if not why and options.datasets is not None and len(items) >= options.datasets:
            why = f"the run takes at most {options.datasets} datasets"
        item = _item(policy, look, rules, losses)
        if not why:
            left_bytes = purse.left(look.store)
            if left_bytes is not None and item.bytes > left_bytes:
                why = purse.why(look.store)
                if (part := _part(item, left_bytes)) is not None:
                    item, why = part, ""
        if why:
            left.append(LeftOut(dataset=look.dataset, verdict=look.verdict, reason=why))
            continue
        purse.take(look.store, item.bytes)
        items.append(item)
    return FleetPlan(
        id=f"plan-{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}", at=now, items=tuple(items), left=tuple(left)
    )


def within(
    items: Iterable[PlannedDataset], *, most_bytes: int | None, most: int | None
) -> tuple[tuple[PlannedDataset, ...], tuple[LeftOut, ...]]:
    """The first of some items that keep to the bounds of a run.

    Args:
        items: The best first.
        most_bytes: Read and written in all, by the estimates; None for no bound.
        most: At most so many; None for no bound.

    Returns:
        Those, of which one may be a part of what was planned, and the others with the reason.
    """
    chosen: list[PlannedDataset] = []
    left: list[LeftOut] = []
    for item in items:
        taken: PlannedDataset | None = item
        why = ""
        if most is not None and len(chosen) >= most:
            taken, why = None, f"the run takes at most {most} datasets"
        elif most_bytes is not None and item.bytes > most_bytes:
            taken, why = _part(item, most_bytes), "the budget of the run is spent"
        if taken is None:
            left.append(LeftOut(dataset=item.dataset, verdict=item.verdict, reason=why))
            continue
        most_bytes = _less(most_bytes, taken.bytes)
        chosen.append(taken)
    return tuple(chosen), tuple(left)


def _part(item: PlannedDataset, most: int) -> PlannedDataset | None:
    """What so many bytes do of an item that takes more; None where that is nothing worth beginning.

    What is larger than any budget would wait for ever: it is done bit by bit.
    """
    if most < _WORTH_BEGINNING or "compact" not in item.operations:
        return None
    return replace(item, bytes=most, most_bytes=most)


def _item(policy: FleetPolicy, look: Look, rules: DatasetPolicy, losses: int) -> PlannedDataset:
    large = look.data_bytes > rules.settings["large_bytes"]
    return PlannedDataset(
        dataset=look.dataset,
        store=look.store,
        path=path_of(policy, look),
        uri=look.uri,
        verdict=look.verdict,
        why=look.why,
        operations=look.due,
        mode=rules.mode,
        owner=rules.owner,
        version=look.version,
        data_bytes=look.data_bytes,
        large=large,
        rank=look.rank,
        seconds=look.cost_seconds,
        bytes=look.cost_bytes,
        scan_seconds_saved=look.debt_seconds if "compact" in look.due else 0.0,
        bytes_saved=look.reclaimable_bytes,
        level=losses,
        terms=tuple(rules.terms(operation) for operation in look.due),
        head=look.head or "",
    )


def path_of(policy: FleetPolicy, look: Look) -> str:
    """Path of a dataset below the root of its store; "" for the root itself."""
    root = parse_location(policy.store(look.store).root).uri
    return look.uri.removeprefix(root).strip("/")


def _why_not(
    rules: DatasetPolicy, options: PlanOptions, now: datetime, losses: int, lost_at: datetime
) -> str:
    """Why a dataset that is due is not taken on now; empty when it is."""
    if rules.mode not in options.modes:
        return {
            "observe": "its mode is observe",
            "propose": "its mode is propose: a plan has to be approved",
            "auto": "its mode is auto",
        }[rules.mode]
    if not options.any_time and open_until(now, rules.windows, rules.blackouts) is None:
        opens = next_opening(now, rules.windows, rules.blackouts)
        return "outside its windows" + ("" if opens is None else f" until {opens:%Y-%m-%d %H:%M %Z}")
    if losses:
        again = lost_at + min(_LONGEST_PAUSE, _PAUSE * 2 ** min(losses - 1, 10))
        if now < again:
            return f"it lost to other writers {losses} times in a row, and waits until {again:%Y-%m-%d %H:%M}"
    return ""


def _pauses(
    operations: Sequence[OperationRow], since: Mapping[str, datetime]
) -> dict[str, tuple[int, datetime]]:
    """Runs in a row that lost to other writers, and when the last of them did.

    Args:
        operations: Oldest first.
        since: When a path got another dataset: what was done before was done to the one that is gone.
    """
    found: dict[str, tuple[int, datetime]] = {}
    for row in operations:
        if row.dataset in since and row.at < since[row.dataset]:
            continue
        if row.outcome == "conflict":
            found[row.dataset] = (found.get(row.dataset, (0, row.at))[0] + 1, row.at)
        elif row.outcome == "done":
            found.pop(row.dataset, None)
    return found


@dataclass(slots=True)
class _Purse:
    """Bytes that may still be read and written: of the run, of the hour, of each store."""

    run: int | None
    hour: int | None
    stores: dict[str, int | None]

    @classmethod
    def of(
        cls, policy: FleetPolicy, operations: Sequence[OperationRow], run: int | None, now: datetime
    ) -> "_Purse":
        moved: dict[str, int] = {}
        for row in operations:
            if now - row.at < _HOUR:
                moved[row.store] = moved.get(row.store, 0) + row.bytes_read + row.bytes_written
        hour = policy.budget.bytes_per_hour
        return cls(
            run,
            None if hour is None else hour - sum(moved.values()),
            {
                store.name: _less(policy.budget_of(store.name).bytes_per_hour, moved.get(store.name, 0))
                for store in policy.stores
            },
        )

    def left(self, store: str) -> int | None:
        known = [amount for amount in (self.run, self.hour, self.stores.get(store)) if amount is not None]
        return min(known, default=None)

    def why(self, store: str) -> str:
        least = self.left(store)
        if least == self.run:
            return "the budget of the run is spent"
        what = "the fleet" if least == self.hour else f"store {store}"
        return f"the bytes that {what} may move in an hour are spent"

    def take(self, store: str, amount: int) -> None:
        self.run = _less(self.run, amount)
        self.hour = _less(self.hour, amount)
        self.stores[store] = _less(self.stores.get(store), amount)


def _less(amount: int | None, by: int) -> int | None:
    return None if amount is None else amount - by
