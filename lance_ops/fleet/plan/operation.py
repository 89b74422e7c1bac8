"""Planning: from the newest observations to the next operations; pure."""

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
USED_UP = "used up"
"""How the reason of a dataset that no budget is left for ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Limits of a plan.

    Attributes:
        bytes: Maximum estimated bytes read and written; None for the limits of the policy only.
        datasets: Maximum number of datasets.
        modes: Modes of planned classes: `propose` for plans that need approval.
        only: Names of datasets; None for all.
        any_time: Ignore windows: for plans that run later.
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
    """Rank due datasets, and choose by priority within the budget.

    Args:
        policy: Policy of the fleet.
        looks: Newest observation of each dataset.
        operations: Recent operations: bytes of the last hour, and conflicts.
        now: The time, aware.
        options: Limits of the plan.
    """
    options = options or PlanOptions()
    chosen = [look for look in looks if options.only is None or look.dataset in options.only]
    left = [
        LeftOut(dataset=look.dataset, verdict=look.verdict, reason=look.why)
        for look in chosen
        if look.verdict in ("blocked", "damaged")
    ]
    purse = _RemainingBudget.of(policy, operations, options.bytes, now)
    pauses = _pauses(operations, {look.dataset: look.since for look in chosen if look.since is not None})
    items: list[PlannedDataset] = []
    for look in order([look for look in chosen if look.is_due], now):
        rules = policy.of_dataset(look.dataset)
        losses, since = pauses.get(look.dataset, (0, now))
        why = _why_not(rules, options, now, losses, since)
        if not why and options.datasets is not None and len(items) >= options.datasets:
            why = f"the run is limited to {options.datasets} datasets"
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
    """Return the first items within the limits of a run.

    Args:
        items: Items by priority.
        most_bytes: Maximum estimated bytes read and written; None for no limit.
        most: Maximum number; None for no limit.

    Returns:
        These items, one of which may be reduced, and the others with the reason.
    """
    chosen: list[PlannedDataset] = []
    left: list[LeftOut] = []
    for item in items:
        taken: PlannedDataset | None = item
        why = ""
        if most is not None and len(chosen) >= most:
            taken, why = None, f"the run is limited to {most} datasets"
        elif most_bytes is not None and item.bytes > most_bytes:
            taken, why = _part(item, most_bytes), f"the budget of the run is {USED_UP}"
        if taken is None:
            left.append(LeftOut(dataset=item.dataset, verdict=item.verdict, reason=why))
            continue
        most_bytes = _less(most_bytes, taken.bytes)
        chosen.append(taken)
    return tuple(chosen), tuple(left)


def _part(item: PlannedDataset, most: int) -> PlannedDataset | None:
    """Return the part of a large item that fits into a number of bytes; None if that is too little to start.

    An item larger than any budget would wait for ever: it is done in parts.
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
    """Return the path of a dataset below the root of its store; "" for the root itself."""
    root = parse_location(policy.store(look.store).root).uri
    return look.uri.removeprefix(root).strip("/")


def _why_not(
    rules: DatasetPolicy, options: PlanOptions, now: datetime, losses: int, lost_at: datetime
) -> str:
    """Return why a due dataset cannot be maintained now; empty if it can."""
    if rules.mode not in options.modes:
        return {
            "observe": "its mode is observe",
            "propose": "its mode is propose: a plan must be approved",
            "auto": "its mode is auto",
        }[rules.mode]
    if not options.any_time and open_until(now, rules.windows, rules.blackouts) is None:
        opens = next_opening(now, rules.windows, rules.blackouts)
        return "outside its windows" + ("" if opens is None else f" until {opens:%Y-%m-%d %H:%M %Z}")
    if losses:
        again = lost_at + min(_LONGEST_PAUSE, _PAUSE * 2 ** min(losses - 1, 10))
        if now < again:
            return f"{losses} runs in a row had commit conflicts; paused until {again:%Y-%m-%d %H:%M}"
    return ""


def _pauses(
    operations: Sequence[OperationRow], since: Mapping[str, datetime]
) -> dict[str, tuple[int, datetime]]:
    """Return the number of consecutive runs with conflicts, and the time of the last one.

    Args:
        operations: Operations, oldest first.
        since: Time at which the path got another dataset: earlier operations do not count.
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
class _RemainingBudget:
    """Remaining bytes to read and write: of the run, of the hour, of each store."""

    run: int | None
    hour: int | None
    stores: dict[str, int | None]

    @classmethod
    def of(
        cls, policy: FleetPolicy, operations: Sequence[OperationRow], run: int | None, now: datetime
    ) -> "_RemainingBudget":
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
            return f"the budget of the run is {USED_UP}"
        what = "the fleet" if least == self.hour else f"store {store}"
        return f"the bytes per hour of {what} are {USED_UP}"

    def take(self, store: str, amount: int) -> None:
        self.run = _less(self.run, amount)
        self.hour = _less(self.hour, amount)
        self.stores[store] = _less(self.stores.get(store), amount)


def _less(amount: int | None, by: int) -> int | None:
    return None if amount is None else amount - by
