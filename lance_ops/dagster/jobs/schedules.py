"""Schedules that evaluate every dataset and run operations that are due by policy."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.jobs.operations import CLEANUP, COMPACT, INDEX
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.maintenance.health.policy import Verdict
from lance_ops.maintenance.health.verdicts import judge_dataset

_CONFIG_WHEN_DUE: Mapping[str, Mapping[str, object]] = {"cleanup": {"dry_run": False}}
"""Config of scheduled runs, which no user reviews first."""
_DUE_BY_TIME = frozenset({"cleanup"})
_THREADS = 8


@dataclass(frozen=True, slots=True)
class MaintenanceTimes:
    """Cron expressions of the maintenance schedules.

    The defaults run in a useful order: compacted rows are indexed, then unused files of both are cleaned up.

    Attributes:
        compact: Of compaction.
        index: Of the index refresh.
        cleanup: Of the cleanup.
        timezone: Time zone of the expressions.
    """

    compact: str = "0 * * * *"
    index: str = "20 * * * *"
    cleanup: str = "40 3 * * *"
    timezone: str = "UTC"

    @property
    def by_operation(self) -> dict[str, str]:
        """Cron expressions by operation."""
        return {"compact": self.compact, "index": self.index, "cleanup": self.cleanup}


def build_maintenance_schedules(
    refs: Sequence[LanceDatasetRef],
    jobs: Sequence[dg.JobDefinition],
    *,
    times: MaintenanceTimes | None = None,
    prefix: str = "",
    default_status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
) -> list[dg.ScheduleDefinition]:
    """Build schedules for compaction, index refresh and cleanup; they require the resource `lance_store`.

    Each requests one run per dataset for which the operation is due, and never twice for the same version and
    policy, unless that run failed: then once a day. Cleanup, which becomes due with time, may run again the
    next day. An operation without effect is blocked, and not started: the checks and alerts have the reason.

    Args:
        refs: The datasets.
        jobs: From `build_jobs`, for the same datasets.
        times: Cron expressions.
        prefix: Prefix of the jobs and the resource, as for `build_jobs`.
        default_status: Initial status.
    """
    by_name = index_refs(refs)
    by_job = {job.name: job for job in jobs}
    crons = (times or MaintenanceTimes()).by_operation
    timezone = (times or MaintenanceTimes()).timezone
    return [
        _build_schedule(
            operation,
            by_job[keys.prefixed(prefix, job_name)],
            crons[operation],
            timezone,
            by_name,
            keys.prefixed(prefix, keys.STORE_RESOURCE),
            default_status,
        )
        for operation, job_name in (("compact", COMPACT), ("index", INDEX), ("cleanup", CLEANUP))
    ]


def _build_schedule(
    operation: str,
    job: dg.JobDefinition,
    cron: str,
    timezone: str,
    refs: Mapping[str, LanceDatasetRef],
    store_key: str,
    default_status: dg.DefaultScheduleStatus,
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"{job.name}_when_due",
        job=job,
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=default_status,
        required_resource_keys={store_key},
        description=f"Runs {job.name} for every dataset for which it is due by policy.",
    )
    def when_due(
        context: dg.ScheduleEvaluationContext, **_resources: object
    ) -> list[dg.RunRequest] | dg.SkipReason:
        # Dagster passes the resource twice when a test calls the schedule like a function.
        store: LanceStoreResource = getattr(context.resources, store_key)
        day = context.scheduled_execution_time.date().isoformat()
        with ThreadPoolExecutor(_THREADS) as pool:
            judged = list(pool.map(lambda ref: _judge(operation, ref, store), refs.values()))
        reasons = "; ".join(f"{item.ref.name}: {item.verdict.reason}" for item in judged)
        context.log.info("%s: %s", operation, reasons)
        due = [_request(item, day, context.instance) for item in judged if item.verdict.due]
        return due or dg.SkipReason(reasons)

    return when_due


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdict on a dataset.

    Attributes:
        ref: The dataset.
        version: Its version, and the transaction that made it: numbers recur in a recreated dataset.
        verdict: Verdict on one operation.
    """

    ref: LanceDatasetRef
    version: str
    verdict: Verdict


def _judge(operation: str, ref: LanceDatasetRef, store: LanceStoreResource) -> _Judged:
    """Return the verdict on one dataset; none if it cannot be read."""
    try:
        dataset = store.open(ref)
        verdicts = {verdict.operation: verdict for verdict in judge_dataset(dataset, ref.policy)}
    except Exception as error:  # noqa: BLE001 - one dataset must not keep maintenance from all others
        return _Judged(ref, "", Verdict(operation, due=False, reason=str(error)))
    uuid = dataset.manifest.transaction_file.partition("-")[2].removesuffix(".txn")
    return _Judged(ref, f"{dataset.version}:{uuid}", verdicts[operation])


def _request(item: _Judged, day: str, instance: dg.DagsterInstance) -> dg.RunRequest:
    operation = item.verdict.operation
    run_key = f"{operation}:{item.ref.uri}@{item.version}:{item.ref.policy_hash}"
    by_day = operation in _DUE_BY_TIME or _has_failed(run_key, instance)
    config = _CONFIG_WHEN_DUE.get(operation, {})
    return dg.RunRequest(
        run_key=f"{run_key}:{day}" if by_day else run_key,
        partition_key=item.ref.name,
        run_config={"ops": {operation: {"config": dict(config)}}} if config else {},
        tags={**item.ref.run_tags, keys.DUE_TAG: item.verdict.reason, keys.DUE_FOR_TAG: run_key},
    )


def _has_failed(run_key: str, instance: dg.DagsterInstance) -> bool:
    """Return whether the last run for a version failed or died: nothing else would ever request it again."""
    runs = instance.get_runs(dg.RunsFilter(tags={keys.DUE_FOR_TAG: run_key}), limit=1)
    return any(run.status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED) for run in runs)
