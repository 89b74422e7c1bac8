"""Accuracy of estimates: what a compaction was expected to take, and what it took.

Each commit of a compaction notes in its properties how long its tasks were expected to take and how long they
took, so that `history` shows how good the estimates are.
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
"""Property of a commit: JSON of `{method: {planned, measured}}`, seconds of tasks alone in a slot."""


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
        slots: Tasks that the runner executes at once.
        seconds: Expected for all plans that were carried out.
        task_seconds: Expected of the tasks that were committed, one after the other.
        measured_task_seconds: What these took.
        bytes_written: Expected of the data files that were committed.
    """

    slots: int
    seconds: float = 0.0
    task_seconds: float = 0.0
    measured_task_seconds: float = 0.0
    bytes_written: int = 0
    _estimates: dict[tuple[int, ...], GroupEstimate] = field(default_factory=dict)

    def planned(self, plan: CompactionPlan) -> None:
        """Take note of a plan that is going to be carried out."""
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
        """Return what the commit of some groups notes; nothing of groups that were not estimated."""
        noted: dict[str, dict[str, float]] = {}
        # Tasks side by side slow each other down; what is noted is of one alone.
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
    """What a commit noted about its tasks, for people; empty when it noted nothing that can be read."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        noted = list(json.loads(properties.get(ACCURACY_KEY, "{}")).values())
        planned = sum(float(item["planned"]) for item in noted)
        measured = sum(float(item["measured"]) for item in noted)
        if noted:
            return f"tasks of {seconds_text(measured)}, {seconds_text(planned)} expected"
    return ""


def error_of(estimate: float, measured: float) -> float | None:
    """How far a measured number lies from its estimate, as a share of the estimate; None without one."""
    return measured / estimate - 1 if estimate > 0 else None


def _short(value: float) -> float:
    """A number in few digits: a note is kept in every manifest until the next commit."""
    return float(f"{value:.4g}")
