"""Maintenance of one dataset: compaction, index refresh and cleanup in this order, each where it is due.

Verdicts are measured again after each operation that changed something: a compaction may leave indices
uncovered, and both leave old versions. An operation that fails does not stop the others.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack, overload

from lance_ops.errors import InvalidArgumentError, LanceOpsError, check_type, public
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.column_files.plan import ColumnFilesPlan
from lance_ops.maintenance.compact.plan import CompactionPlan, plan_compaction
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict
from lance_ops.maintenance.health.verdicts import (
    judge_dataset,
    measure_by_policy,
    options_of_policy,
    plan_columns_of_policy,
)
from lance_ops.maintenance.index.operation import optimize_indices
from lance_ops.maintenance.index.refresh_estimate import foresee_refresh
from lance_ops.maintenance.maintain.perform import OPERATIONS, Limits, Tried, perform, try_operation
from lance_ops.maintenance.maintain.result import MaintainResult, OperationOutcome, measures_of
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import slots_of
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.text import bytes_text, seconds_text, table_text
from lance_ops.storage.lease import Lease
from lance_ops.table.dataset import Dataset

_CONFLICT_RETRIES = 2
_NO_GROUP_FITS = "no group of fragments fits the budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperation:
    """What `maintain` would do with one operation.

    Attributes:
        verdict: Whether it is due, and why.
        plan: Plan of a due operation; None if it is not due.
    """

    verdict: Verdict
    plan: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainPlan:
    """Plan of `maintain` for one version; prints as text.

    Later operations are planned from the present version: a compaction changes what an index refresh does.

    Attributes:
        uri: The dataset.
        version: The version.
        health: Its measures.
        operations: Every operation, in order.
    """

    uri: str
    version: int
    health: DatasetHealth
    operations: tuple[PlannedOperation, ...]

    @property
    def due(self) -> tuple[str, ...]:
        """Names of the due operations."""
        return tuple(item.verdict.operation for item in self.operations if item.verdict.due)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "operation": "maintain",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "due": list(self.due),
            "operations": [
                {
                    "operation": item.verdict.operation,
                    "state": item.verdict.state,
                    "reason": item.verdict.reason,
                    "plan": None if item.plan is None else _values_of(item.plan),
                }
                for item in self.operations
            ],
        }

    def __str__(self) -> str:
        rows = [(item.verdict.operation, item.verdict.state, item.verdict.reason) for item in self.operations]
        plans = [str(item.plan) for item in self.operations if item.plan is not None]
        head = f"maintain {self.uri} at version {self.version}"
        return "\n".join([head, table_text(("operation", "state", "because"), rows), *plans])


@dataclass(frozen=True, slots=True)
class CompactPlans:
    """Plans of a compaction that is due: of fragments, and of the data files within them.

    Attributes:
        rows: Merges of fragments.
        columns: Joins of data files.
    """

    rows: CompactionPlan
    columns: ColumnFilesPlan

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: those of the first plan, and `columns`."""
        return {**self.rows.to_dict(), "columns": self.columns.to_dict()}

    def __str__(self) -> str:
        return f"{self.rows}\n{self.columns}"


def _values_of(plan: Any) -> object:
    return plan.to_dict() if hasattr(plan, "to_dict") else str(plan)


@overload
def maintain(
    uri_or_dataset: Target,
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: Literal[False] = False,
    budget_bytes: int | None = None,
    budget_seconds: float | None = None,
    **run: Unpack[RunOptions],
) -> MaintainResult: ...
@overload
def maintain(
    uri_or_dataset: Target,
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: Literal[True],
    budget_bytes: int | None = None,
    budget_seconds: float | None = None,
    **run: Unpack[RunOptions],
) -> MaintainPlan: ...
@overload
def maintain(
    uri_or_dataset: Target,
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: bool,
    budget_bytes: int | None = None,
    budget_seconds: float | None = None,
    **run: Unpack[RunOptions],
) -> MaintainResult | MaintainPlan: ...
@public(target="uri_or_dataset")
def maintain(
    uri_or_dataset: Target,
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: bool = False,
    budget_bytes: int | None = None,
    budget_seconds: float | None = None,
    **run: Unpack[RunOptions],
) -> MaintainResult | MaintainPlan:
    """Keep a dataset healthy: compact it, refresh its indices and remove old versions, each if due.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        policy: Thresholds; the defaults of `MaintenancePolicy` without any.
        dry_run: Return what is due, with plans, and change nothing.
        budget_bytes: Maximum bytes read and written, by the estimates. A compaction does as much as fits; an
            index refresh that does not fit is left to the next call. A cleanup only removes files.
        budget_seconds: Maximum duration, by the estimates; nothing is started after it.
        **run: See `RunOptions`. Each operation has a job key of its own, derived from `job_key`.

    Returns:
        The outcome of each operation: `done` with numbers before and after, `nothing due` with the numbers
        that say so, or `failed` with the reason. Nothing is written if nothing is due.

    Raises:
        DatasetNotFoundError: There is no dataset.
        LeaseHeldError: Another process maintains it.
        LanceOpsError: It cannot be opened or measured. Errors of an operation are in its outcome.

    Examples:
        >>> result = lo.maintain("events.lance")
        >>> [(item.operation, item.state) for item in result.outcomes]
        [('compact', 'nothing due'), ('index', 'nothing due'), ('cleanup', 'nothing due')]
    """
    for name, value in (("budget_bytes", budget_bytes), ("budget_seconds", budget_seconds)):
        if value is not None and not value > 0:
            raise InvalidArgumentError(
                f"{name} must be above 0, got {value}; omit it for no limit", field=name
            )
    rules = policy or MaintenancePolicy()
    check_type(rules, MaintenancePolicy, "a MaintenancePolicy", field="policy")
    call = Run.start("maintain", uri_or_dataset, run)
    budget = _Budget(budget_bytes, budget_seconds, call.started)
    health = measure_by_policy(call.dataset, rules)
    verdicts = judge_dataset(call.dataset, rules, health)
    if dry_run:
        return MaintainPlan(
            uri=call.dataset.uri,
            version=call.dataset.version,
            health=health,
            operations=tuple(_planned(call, rules, verdicts, budget, run)),
        )
    is_due = any(item.due for item in verdicts)
    lease: AbstractContextManager[object] = nullcontext()
    if is_due:
        lease = Lease(call.store, f"maintain {uuid.uuid4().hex[:8]}")
    with lease:
        return _Maintenance(call, rules, run, budget, call.dataset, health, verdicts).run_all()


def _planned(
    call: Run,
    policy: MaintenancePolicy,
    verdicts: tuple[Verdict, ...],
    budget: "_Budget",
    run: RunOptions,
) -> Iterator[PlannedOperation]:
    dataset = call.dataset
    plans: dict[str, Callable[[], object]] = {
        "compact": lambda: CompactPlans(
            plan_compaction(
                dataset, budget.limits().of(options_of_policy(dataset, policy)), slots=slots_of(call.runner)
            ),
            plan_columns_of_policy(dataset, policy, budget.limits().bytes_left(0)),
        ),
        "index": lambda: optimize_indices(
            dataset, most_segments=policy.most_segments, limits=policy.wear_limits, dry_run=True, **run
        ),
        "cleanup": lambda: cleanup(
            dataset,
            older_than=policy.older_than,
            retain_versions=policy.retain_versions,
            grace=policy.cleanup_grace,
            dry_run=True,
            committer=run.get("committer"),
            storage_options=run.get("storage_options"),
        ),
    }
    for verdict in verdicts:
        yield PlannedOperation(verdict=verdict, plan=plans[verdict.operation]() if verdict.due else None)


@dataclass(slots=True)
class _Budget:
    """What is left of the budget of one call."""

    bytes: int | None
    seconds: float | None
    started: float

    @property
    def seconds_left(self) -> float | None:
        """Seconds that are left; None for no limit."""
        return None if self.seconds is None else self.seconds - (time.monotonic() - self.started)

    def limits(self) -> Limits:
        """Return the limits of a compaction."""
        left = self.seconds_left
        return Limits(budget_bytes=self.bytes, budget_seconds=None if left is None else max(left, 1e-3))

    def use(self, moved: int) -> None:
        """Subtract bytes read and written."""
        if self.bytes is not None:
            self.bytes -= moved

    def why_not(self, moved: int, seconds: float) -> str:
        """Return why an operation of some size may not start; empty if it may."""
        if self.bytes is not None and moved > self.bytes:
            return f"it moves {bytes_text(moved)}, of the budget {bytes_text(max(0, self.bytes))} are left"
        left = self.seconds_left
        if left is not None and seconds > left:
            return f"it takes {seconds_text(seconds)}, of the budget {seconds_text(max(0.0, left))} are left"
        return ""


@dataclass(slots=True)
class _Maintenance:
    """One call of `maintain`, and what it knows of the newest version."""

    call: Run
    policy: MaintenancePolicy
    run: RunOptions
    budget: _Budget
    dataset: Dataset
    health: DatasetHealth
    verdicts: tuple[Verdict, ...]

    def run_all(self) -> MaintainResult:
        """Run what is due."""
        outcomes = tuple(self._outcome(operation) for operation in OPERATIONS)
        results = [item.result for item in outcomes if item.result is not None]
        is_same = self.dataset.version == self.call.dataset.version
        common = self.call.common(
            self.dataset.version,
            attempts=sum(item.attempts for item in results),
            conflicts=tuple(line for item in results for line in item.conflicts),
            rebased_over=tuple(line for item in results for line in item.rebased_over),
            already_committed=is_same and any(item.already_committed for item in results),
        )
        return MaintainResult(**common, outcomes=outcomes)

    def _outcome(self, operation: str) -> OperationOutcome:
        verdict = next(item for item in self.verdicts if item.operation == operation)
        before = measures_of(operation, self.health)
        not_due = OperationOutcome(
            operation=operation,
            state="nothing due",
            reason=verdict.reason,
            before=before,
            blocked=verdict.blocked,
        )
        if not verdict.due:
            return not_due
        left = self._left_over(operation)
        if left:
            return replace(not_due, reason=f"{verdict.reason}; left to the next run: {left}", left=True)
        self.call.report(f"{operation}: {verdict.reason}")
        work = partial(
            perform,
            operation,
            self.dataset,
            self.policy,
            self._options(operation),
            limits=self.budget.limits(),
        )
        tried = try_operation(
            lambda level: work(level=level), retries=_CONFLICT_RETRIES if operation == "compact" else 0
        )
        return self._tried(not_due, verdict, tried)

    def _left_over(self, operation: str) -> str:
        """Return why a due operation exceeds the budget; empty if it does not."""
        if self.budget.bytes is None and self.budget.seconds is None:
            return ""
        if operation == "compact":
            why = self.budget.why_not(0, 0.0)
            options = self.budget.limits().of(options_of_policy(self.dataset, self.policy))
            plan: CompactionPlan = plan_compaction(self.dataset, options, slots=slots_of(self.call.runner))
            if why or plan.groups:
                return why
            left = self.budget.limits().bytes_left(0)
            columns = plan_columns_of_policy(self.dataset, self.policy, left)
            return "" if columns.fragments else "; ".join(plan.notes) or _NO_GROUP_FITS
        if operation == "index":
            refresh = foresee_refresh(self.dataset, self.policy.most_segments)
            return self.budget.why_not(refresh.bytes, refresh.seconds)
        return self.budget.why_not(0, 0.0)

    def _options(self, operation: str) -> RunOptions:
        key = self.run.get("job_key")
        return self.run if key is None else {**self.run, "job_key": f"{key}|{operation}"}

    def _tried(self, not_due: OperationOutcome, verdict: Verdict, tried: Tried) -> OperationOutcome:
        """Return the outcome of an operation that ran, and measure the dataset after it."""
        done = tried.done
        if done is None or done.changed:
            self._look_again()
        if done is None:
            return replace(
                not_due, state="failed", reason=tried.why, seconds=tried.seconds, error=tried.error
            )
        self.budget.use(done.bytes_read + done.bytes_written)
        outcome = replace(
            not_due,
            state="done",
            after=measures_of(not_due.operation, self.health),
            seconds=tried.seconds,
            bytes_read=done.bytes_read,
            bytes_written=done.bytes_written,
            bytes_freed=done.bytes_freed,
            version=done.result.version if done.result.changed and not_due.operation != "cleanup" else None,
            summary=done.summary,
            result=done.result,
        )
        if done.error:
            return replace(outcome, state="failed", reason=done.error)
        if not done.changed:
            remarks = "; ".join((done.summary, *done.result.remarks()))
            return replace(outcome, state="nothing due", reason=f"{verdict.reason}; {remarks}")
        return outcome

    def _look_again(self) -> None:
        """Measure the newest version; an error leaves the last measures and verdicts."""
        try:
            self.dataset = self.dataset.latest()
            self.health = measure_by_policy(self.dataset, self.policy)
            self.verdicts = judge_dataset(self.dataset, self.policy, self.health)
        except LanceOpsError as error:
            self.call.report(f"cannot be measured: {error}")
