"""One operation of a fleet on one dataset: arguments from its task, result as numbers."""

from datetime import UTC, datetime

from lance_ops.fleet.run.noted import began_now
from lance_ops.fleet.run.task import MaintainTask
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.jobs.operation import list_jobs
from lance_ops.maintenance.maintain.perform import Limits, Performed, perform
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import Runner
from lance_ops.table.dataset import Dataset

_JOB = "fleet-compact-"
RUN_PROPERTY = "lance_ops.fleet.run"


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
    run: RunOptions = {"runner": runner, "properties": {RUN_PROPERTY: task.run, **began_now()}}
    if operation == "ttl":
        return _ttl(dataset, task, run)
    if operation == "compact" and task.item.large:
        run["job_key"] = _job_key(dataset, task)
    return perform(operation, dataset, task.policy.maintenance, run, limits=limits_of(task), level=level)


def limits_of(task: MaintainTask) -> Limits:
    """Return the limits of a compaction by the policy and the plan of the fleet."""
    settings = task.policy.settings
    return Limits(
        max_source_bytes=settings["max_source_bytes"],
        commit_every=settings["commit_every"],
        budget_bytes=task.item.most_bytes,
    )


def _ttl(dataset: Dataset, task: MaintainTask, run: RunOptions) -> Performed:
    assert task.policy.ttl is not None
    done = delete(
        dataset,
        task.policy.ttl.predicate(dataset.schema, datetime.now(UTC)),
        max_fraction=task.policy.settings["ttl_max_fraction"],
        **run,
    )
    return Performed(
        changed=done.changed,
        summary=done.summary(),
        bytes_written=done.bytes_written,
        rows_deleted=done.rows_deleted,
        conflicts=len(done.lost_to),
        result=done,
    )


def _job_key(dataset: Dataset, task: MaintainTask) -> str:
    """Return the job key of an unfinished compaction of the fleet, else a new one."""
    known = [job.key for job in list_jobs(dataset.store) if job.key.startswith(_JOB)]
    return known[0] if known else f"{_JOB}{task.run}"
