"""Accuracy of estimates: planned and measured cost of a compaction.

Each commit of a compaction records in its properties the planned and the measured time of its tasks, so that
`history` shows how good the estimates are.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lance_ops.maintenance.compact.estimate import GroupEstimate, makespan
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.method import Method
from lance_ops.maintenance.compact.plan import CompactionPlan
from lance_ops.maintenance.text import seconds_text

ACCURACY_KEY = "lance_ops.compaction.estimate"
"""Property of a commit: JSON of `{method: {planned, measured}}`, seconds of tasks with a slot to themselves.
"""


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """A rewritten group.

    Attributes:
        group: The planned group.
        method: The method used.
        seconds: Duration of its task, beside concurrent ones.
    """

    group: CompactionGroup
    method: Method
    seconds: float


@dataclass(slots=True)
class Accuracy:
    """Estimates of one call of `compact`, over its rounds of planning.

    Attributes:
        slots: Concurrent tasks of the runner.
        seconds: Planned time of all executed plans.
        task_seconds: Planned time of the committed tasks in sequence.
        measured_task_seconds: Measured time of these.
        bytes_written: Planned bytes of the committed data files.
    """

    slots: int
    seconds: float = 0.0
    task_seconds: float = 0.0
    measured_task_seconds: float = 0.0
    bytes_written: int = 0
    _estimates: dict[tuple[int, ...], GroupEstimate] = field(default_factory=dict)

    def planned(self, plan: CompactionPlan) -> None:
        """Add a plan that is going to be executed."""
        self.seconds += plan.estimate.seconds
        for group, estimate in zip(plan.groups, plan.estimates, strict=True):
            self._estimates[group.fragment_ids] = estimate

    def committed(self, groups: Iterable[MeasuredGroup]) -> None:
        """Add committed groups."""
        for done in groups:
            estimate = self._estimates.get(done.group.fragment_ids)
            if estimate is not None:
                self.task_seconds += estimate.seconds
                self.bytes_written += estimate.bytes_written
                self.measured_task_seconds += done.seconds

    def properties(self, groups: Sequence[MeasuredGroup]) -> dict[str, str]:
        """Return the property for the commit of some groups; empty without estimates."""
        noted: dict[str, dict[str, float]] = {}
        # Concurrent tasks slow each other down; the recorded time is that of a single one.
        used = max(1, min(self.slots, len(groups)))
        alone = 1 / makespan([1.0] * used, used)
        for method in Method:
            of_method = [item for item in groups if item.method is method]
            planned = [self._estimates.get(item.group.fragment_ids) for item in of_method]
            if not of_method or None in planned:
                continue
            noted[method.value] = {
                "planned": _short(sum(item.seconds for item in planned if item is not None)),
                "measured": _short(alone * sum(item.seconds for item in of_method)),
            }
        return {ACCURACY_KEY: json.dumps(noted, separators=(",", ":"))} if noted else {}


def accuracy_text(properties: Mapping[str, str]) -> str:
    """Return the recorded times of a commit's tasks as text; empty without a readable record."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        noted = list(json.loads(properties.get(ACCURACY_KEY, "{}")).values())
        planned = sum(float(item["planned"]) for item in noted)
        measured = sum(float(item["measured"]) for item in noted)
        if noted:
            return f"tasks took {seconds_text(measured)}, planned {seconds_text(planned)}"
    return ""


def error_of(estimate: float, measured: float) -> float | None:
    """Return the relative error of an estimate; None without one."""
    return measured / estimate - 1 if estimate > 0 else None


def _short(value: float) -> float:
    """Return a number with few digits: the record is stored in every manifest until the next commit."""
    return float(f"{value:.4g}")
