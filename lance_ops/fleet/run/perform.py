"""One operation of a fleet on one dataset: arguments from its policy, result as numbers."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from lance_ops.fleet.run.noted import began_now
from lance_ops.fleet.run.task import MaintainTask
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.health.verdicts import options_of_policy
from lance_ops.maintenance.index.operation import optimize_indices
from lance_ops.maintenance.jobs.operation import list_jobs
from lance_ops.maintenance.runner import Runner
from lance_ops.table.dataset import Dataset

_FRAGMENTS_AT_ONCE = 256
_JOB = "fleet-compact-"
RUN_PROPERTY = "lance_ops.fleet.run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """Result of an operation; see `OperationRow`."""

    changed: bool
    summary: str
    error: str = ""
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    rows_deleted: int = 0
    versions_after: int | None = None
    conflicts: int = 0


def performed(
    operation: str, dataset: Dataset, task: MaintainTask, runner: Runner, *, level: int
) -> Performed:
    """Run one operation.

    Args:
        operation: `ttl`, `compact`, `index` or `cleanup`.
        dataset: Its newest version.
        task: The dataset with its policy.
        runner: Executes its tasks.
        level: Reduction of group sizes.

    Raises:
        LanceOpsError: As raised by the operation.
    """
    return _OPERATIONS[operation](dataset, task, runner, level)


def _ttl(dataset: Dataset, task: MaintainTask, runner: Runner, level: int) -> Performed:
    del level
    assert task.policy.ttl is not None
    done = delete(
        dataset,
        task.policy.ttl.predicate(dataset.schema, datetime.now(UTC)),
        max_fraction=task.policy.settings["ttl_max_fraction"],
        **_run_options(task, runner),
    )
    return Performed(
        changed=done.changed,
        summary=done.summary(),
        bytes_written=done.bytes_written,
        rows_deleted=done.rows_deleted,
        conflicts=len(done.lost_to),
    )


def _compact(dataset: Dataset, task: MaintainTask, runner: Runner, level: int) -> Performed:
    options = compaction_options(options_of_policy(dataset, task.policy.maintenance), task, level)
    job_key = _job_key(dataset, task) if task.item.large else None
    done = compact(dataset, options=options, job_key=job_key, **_run_options(task, runner))
    return Performed(
        changed=bool(done.groups),
        summary=done.summary(),
        error="; ".join(str(item) for item in done.failed[:3]),
        bytes_read=done.bytes_removed,
        bytes_written=done.bytes_written + done.index_bytes_written,
        conflicts=len(done.lost_to),
    )


def compaction_options(options: CompactionOptions, task: MaintainTask, level: int) -> CompactionOptions:
    """Return the compaction options of the policy, within the plan, with smaller groups after conflicts."""
    settings = task.policy.settings
    changes: dict[str, Any] = {
        "max_source_bytes": settings["max_source_bytes"] or options.max_source_bytes,
        "commit_every": settings["commit_every"] or options.commit_every,
        "budget_bytes": task.item.most_bytes or options.budget_bytes,
    }
    if level:
        # A smaller compaction ends sooner, so that fewer commits of others conflict.
        changes["commit_every"] = 1
        changes["max_source_fragments"] = max(2, _FRAGMENTS_AT_ONCE >> (2 * level))
    return replace(options, **changes)


def _index(dataset: Dataset, task: MaintainTask, runner: Runner, level: int) -> Performed:
    del level
    rules = task.policy.maintenance
    done = optimize_indices(
        dataset, most_segments=rules.most_segments, limits=rules.wear_limits, **_run_options(task, runner)
    )
    return Performed(
        changed=done.changed,
        summary=done.summary(),
        bytes_written=done.bytes_written,
        conflicts=len(done.lost_to),
    )


def _cleanup(dataset: Dataset, task: MaintainTask, runner: Runner, level: int) -> Performed:
    del runner, level
    rules = task.policy.maintenance
    done = cleanup(dataset, older_than=rules.older_than, retain_versions=rules.retain_versions)
    return Performed(
        changed=done.changed,
        summary=done.summary(),
        error="; ".join(done.errors[:3]),
        bytes_freed=done.bytes_removed,
        versions_after=done.versions_kept,
    )


def _job_key(dataset: Dataset, task: MaintainTask) -> str:
    """Return the job key of an unfinished compaction of the fleet, else a new one."""
    known = [job.key for job in list_jobs(dataset.store) if job.key.startswith(_JOB)]
    return known[0] if known else f"{_JOB}{task.run}"


def _run_options(task: MaintainTask, runner: Runner) -> dict[str, Any]:
    return {"runner": runner, "properties": {RUN_PROPERTY: task.run, **began_now()}}


_OPERATIONS = {"ttl": _ttl, "compact": _compact, "index": _index, "cleanup": _cleanup}
