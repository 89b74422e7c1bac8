"""Assessment of one dataset: measures, verdict, and estimates of due operations."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from hashlib import blake2b

from lance_ops.errors import LanceOpsError, StorageError
from lance_ops.fleet.judge.estimate import OperationEstimate
from lance_ops.fleet.judge.reclaim import reclaimable
from lance_ops.fleet.policy.model import DatasetPolicy
from lance_ops.maintenance.compact.plan import CompactionPlan, plan_compaction
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import Verdict
from lance_ops.maintenance.health.verdicts import (
    judge_dataset,
    measure_by_policy,
    options_of_policy,
    plan_columns_of_policy,
)
from lance_ops.maintenance.index.refresh_estimate import foresee_refresh
from lance_ops.table.dataset import Dataset

_OVERDUE_TIMES = 5.0
"""A measure this many times over its limit is overdue at the first survey."""

# For operations without a cost model; `Corrections` learns the rest.
_CLEANUP_SECONDS, _CLEANUP_FILE_SECONDS = 0.03, 4e-4
_COPIED_BYTES_A_SECOND = 400e6
_TTL_SECONDS, _TTL_ROW_SECONDS = 0.05, 2e-8


@dataclass(frozen=True, slots=True)
class Judgement:
    """Assessment of the newest version of a dataset.

    Attributes:
        health: Measured numbers.
        verdicts: Verdicts on the allowed operations, in order.
        due: Operations to run, in order.
        blocked: Why due operations would have no effect; empty for none.
        overdue: True if a measure is far over its limit.
        estimates: Estimates of due operations.
    """

    health: DatasetHealth
    verdicts: tuple[Verdict, ...]
    due: tuple[str, ...]
    blocked: str
    overdue: bool
    estimates: tuple[OperationEstimate, ...]

    @property
    def why(self) -> str:
        """The numbers behind the verdict, or the reason of a block."""
        chosen = [item for item in self.verdicts if item.state != "healthy"]
        return "; ".join(f"{item.operation}: {item.reason}" for item in chosen)


def judge(
    dataset: Dataset,
    policy: DatasetPolicy,
    *,
    now: datetime,
    last_ttl: datetime | None = None,
    ttl_refused: str = "",
    with_estimates: bool = True,
) -> Judgement:
    """Assess the newest version of a dataset by its policy; reads metadata only.

    Args:
        dataset: The version.
        policy: Policy of the dataset.
        now: The time, aware.
        last_ttl: Time of the last `ttl` operation.
        ttl_refused: Why the last `ttl` was refused; empty if it was not.
        with_estimates: Also estimate the operations.

    Raises:
        LanceOpsError: It cannot be measured.
    """
    rules = policy.maintenance
    # Degradation is sampled from index files: useless without indices.
    health = measure_by_policy(dataset, rules, samples_indices=bool(dataset.indices))
    # One plan gives both effect and estimate.
    plan = cache(partial(_planned, dataset, policy))
    verdicts = [
        verdict
        for verdict in judge_dataset(dataset, rules, health, plan=plan)
        if verdict.operation in policy.operations
    ]
    if policy.ttl is not None:
        verdicts.insert(0, _ttl(dataset, policy, now, last_ttl, ttl_refused))
    due = tuple(verdict.operation for verdict in verdicts if verdict.due)
    return Judgement(
        health,
        tuple(verdicts),
        due,
        "; ".join(verdict.blocked for verdict in verdicts if verdict.blocked),
        bool(due) and _is_far_over(health, policy),
        tuple(estimate(name, dataset, policy, now, health, plan) for name in due) if with_estimates else (),
    )


def schema_mark(dataset: Dataset) -> str:
    """Return a fingerprint of the columns of a dataset: names, types and order."""
    text = "\n".join(f"{field.name}:{field.type}" for field in dataset.schema)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def estimate(
    operation: str,
    dataset: Dataset,
    policy: DatasetPolicy,
    now: datetime,
    health: DatasetHealth | None = None,
    plan: Callable[[], CompactionPlan] | None = None,
) -> OperationEstimate:
    """Estimate cost and benefit of an operation on a dataset, without corrections.

    Args:
        operation: Its name.
        dataset: The newest version.
        policy: Policy of the dataset.
        now: The time, aware.
        health: Its measured numbers; measured here if None and needed.
        plan: Returns its compaction plan, if the caller has it already.
    """
    rules = policy.maintenance
    if operation == "compact":
        planned = (plan() if plan is not None else _planned(dataset, policy)).estimate
        columns = plan_columns_of_policy(dataset, rules)
        moved = columns.bytes_read + columns.bytes_written
        return OperationEstimate(
            operation=operation,
            seconds=planned.seconds + moved / _COPIED_BYTES_A_SECOND,
            bytes=planned.bytes_read + planned.bytes_written + moved,
            requests=planned.requests + 3 * columns.files_before,
            scan_seconds_saved=planned.scan_seconds_saved,
            bytes_saved=planned.bytes_saved + columns.bytes_freed,
        )
    if operation == "cleanup":
        found = reclaimable(
            dataset, older_than=rules.older_than, retain_versions=rules.retain_versions, now=now
        )
        return OperationEstimate(
            operation=operation,
            seconds=_CLEANUP_SECONDS + (found.files + found.all_versions) * _CLEANUP_FILE_SECONDS,
            bytes=found.bytes,
            requests=found.all_versions + 12 + found.files // 1000,
            bytes_saved=found.bytes,
        )
    if operation == "index":
        refresh = foresee_refresh(dataset, rules.most_segments)
        return OperationEstimate(
            operation=operation,
            seconds=refresh.seconds,
            bytes=refresh.bytes,
            requests=refresh.segments * 8,
        )
    if health is None:
        health = measure_by_policy(dataset, rules, samples_indices=False)
    return OperationEstimate(
        operation=operation,
        seconds=_TTL_SECONDS + health.physical_rows * _TTL_ROW_SECONDS,
        bytes=health.physical_rows * 8,
        requests=health.data_files * 2,
    )


def _planned(dataset: Dataset, policy: DatasetPolicy) -> CompactionPlan:
    return plan_compaction(dataset, options_of_policy(dataset, policy.maintenance))


def _ttl(
    dataset: Dataset, policy: DatasetPolicy, now: datetime, last: datetime | None, refused: str
) -> Verdict:
    assert policy.ttl is not None
    every: timedelta = policy.settings["ttl_every"]
    try:
        policy.ttl.predicate(dataset.schema, now)
    except StorageError:
        raise
    except LanceOpsError as error:
        reason = error.message
        return Verdict("ttl", due=False, reason=reason, blocked=reason)
    if refused:
        return Verdict("ttl", due=False, reason=refused, blocked=refused)
    if last is None:
        return Verdict("ttl", due=True, reason=f"{policy.ttl}, never run")
    return Verdict("ttl", due=now - last >= every, reason=f"{policy.ttl}, last run on {last:%Y-%m-%d %H:%M}")


def _is_far_over(health: DatasetHealth, policy: DatasetPolicy) -> bool:
    rules = policy.maintenance
    shares = (
        ("compact", health.small_fragments, rules.max_small_fragments),
        ("cleanup", health.live_versions, rules.max_versions),
    )
    return any(
        name in policy.operations and limit and value > _OVERDUE_TIMES * limit
        for name, value, limit in shares
    )
