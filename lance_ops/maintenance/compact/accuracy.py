"""Accuracy of estimates: what a compaction was expected to take, and what it took.

Each commit of a compaction notes in its properties what its tasks had to do, how long they were expected to
take and how long they took. So `history` tells how good the estimates are, and a later calibration can learn
from the table itself (`learn_costs`).
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lance_ops.maintenance.compact.costs import CostModel, TaskCosts
from lance_ops.maintenance.compact.estimate import GroupEstimate, RowShape, makespan, task_units
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.method import Method
from lance_ops.maintenance.compact.plan import CompactionPlan
from lance_ops.maintenance.text import seconds_text
from lance_ops.table.snapshot import Snapshot

ACCURACY_KEY = "lance_ops.compaction.estimate"
"""Property of a commit: JSON of `{method: {planned, measured, units}}`, seconds of tasks alone in a slot."""

LEAST_RUNS = 3
"""Commits that a method has to be seen in before anything is learned from them."""


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """A group that was rewritten.

    Attributes:
        group: As planned.
        method: What was done in the end.
        seconds: Of its task, beside the others.
    """

    group: CompactionGroup
    method: Method
    seconds: float


@dataclass(slots=True)
class Accuracy:
    """Estimates of one call of `compact`, over its rounds of planning.

    Attributes:
        costs: The coefficients.
        slots: Tasks that the runner executes at once.
        seconds: Expected for all plans that were carried out.
        task_seconds: Expected of the tasks that were committed, one after the other.
        measured_task_seconds: What these took.
        bytes_written: Expected of the data files that were committed.
    """

    costs: CostModel
    slots: int
    seconds: float = 0.0
    task_seconds: float = 0.0
    measured_task_seconds: float = 0.0
    bytes_written: int = 0
    _shape: RowShape | None = None
    _estimates: dict[tuple[int, ...], GroupEstimate] = field(default_factory=dict)

    def planned(self, plan: CompactionPlan, dataset: Snapshot) -> None:
        """Take note of a plan that is going to be carried out, and of the version that it was made from."""
        self._shape = RowShape.of(dataset.lance_schema)
        self.seconds += plan.estimate.seconds
        for group, estimate in zip(plan.groups, plan.estimates, strict=True):
            self._estimates[group.fragment_ids] = estimate

    def committed(self, groups: Iterable[MeasuredGroup]) -> None:
        """Take note of groups that were committed."""
        for done in groups:
            estimate = self._estimates.get(done.group.fragment_ids)
            if estimate is not None:
                self.task_seconds += estimate.seconds
                self.bytes_written += estimate.bytes_written
                self.measured_task_seconds += done.seconds

    def properties(self, groups: Sequence[MeasuredGroup]) -> dict[str, str]:
        """What the commit of some groups notes; nothing of groups that were not estimated."""
        if self._shape is None:
            return {}
        told: dict[str, dict[str, object]] = {}
        # Tasks side by side slow each other down; what is noted is of one alone.
        alone = self._alone(len(groups))
        for method in Method:
            of_method = [item for item in groups if item.method is method]
            planned = [self._estimates.get(item.group.fragment_ids) for item in of_method]
            if not of_method or None in planned:
                continue
            units = [task_units(item.group, self._shape) for item in of_method]
            told[method.value] = {
                "planned": _short(sum(item.seconds for item in planned if item is not None)),
                "measured": _short(alone * sum(item.seconds for item in of_method)),
                "units": {name: _short(sum(item[name] for item in units)) for name in TaskCosts.names()},
            }
        return {ACCURACY_KEY: json.dumps(told, separators=(",", ":"))} if told else {}

    def _alone(self, tasks: int) -> float:
        """How much of a task's time beside others it takes alone."""
        used = max(1, min(self.slots, tasks))
        return makespan([1.0] * used, used, self.costs.overlap) ** -1 if used > 1 else 1.0


def learn_costs(base: CostModel, properties: Iterable[Mapping[str, str]]) -> tuple[CostModel, dict[str, int]]:
    """A model whose tasks take what those of earlier compactions took.

    All coefficients of a method are multiplied by one number, the median of what was measured over what the
    model says for the same work: a few compactions tell no more.

    Args:
        base: The model to start from.
        properties: Of the commits of a dataset, any order.

    Returns:
        The model, and from how many commits each method was learned; methods seen in fewer than `LEAST_RUNS`
        commits are left as they are, and out of the numbers.
    """
    ratios: dict[Method, list[float]] = {method: [] for method in Method}
    for noted in properties:
        for done in _records(noted.get(ACCURACY_KEY, "")):
            foreseen = base.of(done.method).seconds(done.units)
            if foreseen > 0 and done.measured > 0:
                ratios[done.method].append(done.measured / foreseen)
    learned = {method: found for method, found in ratios.items() if len(found) >= LEAST_RUNS}
    changes: dict[str, TaskCosts] = {}
    for method, found in learned.items():
        factor, costs = statistics.median(found), base.of(method)
        changes[method.value] = TaskCosts(
            **{name: factor * float(getattr(costs, name)) for name in TaskCosts.names()}
        )
    counts = {method.value: len(found) for method, found in learned.items()}
    if not changes:
        return base, counts
    seen = max(counts.values())
    return replace(base, source=f"{seen} earlier compactions", **changes), counts  # type: ignore[arg-type]


def accuracy_text(properties: Mapping[str, str]) -> str:
    """What a commit noted about its tasks, for people; empty when it noted nothing."""
    noted = list(_records(properties.get(ACCURACY_KEY, "")))
    if not noted:
        return ""
    planned, measured = sum(item.planned for item in noted), sum(item.measured for item in noted)
    return f"tasks of {seconds_text(measured)}, {seconds_text(planned)} expected"


def error_of(estimate: float, measured: float) -> float | None:
    """How far a measured number lies from its estimate, as a share of the estimate; None without one."""
    return measured / estimate - 1 if estimate > 0 else None


@dataclass(frozen=True, slots=True)
class _Record:
    method: Method
    planned: float
    measured: float
    units: Mapping[str, float]


def _records(text: str) -> Iterable[_Record]:
    """What a commit noted; nothing of what is no such note."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        for name, record in json.loads(text or "{}").items():
            # Notes of earlier releases lack units that came later.
            units = {unit: float(record["units"].get(unit, 0.0)) for unit in TaskCosts.names()}
            yield _Record(Method(name), float(record["planned"]), float(record["measured"]), units)


def _short(value: float) -> float:
    """A number in few digits: a note is kept in every manifest until the next commit."""
    return float(f"{value:.4g}")
