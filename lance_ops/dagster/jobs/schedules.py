"""Schedules that look at every dataset and run an operation where the policy says that it is due."""

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
"""Config of a run that nobody looks at first."""
_DUE_BY_TIME = frozenset({"cleanup"})
_THREADS = 8


@dataclass(frozen=True, slots=True)
class MaintenanceTimes:
    """When each operation looks for work, as cron expressions.

    The defaults keep the order in which the operations help each other: what compaction rewrites is indexed,
    and what both leave behind is cleaned up.

    Attributes:
        compact: Of compaction.
        index: Of the index refresh.
        cleanup: Of the cleanup.
        timezone: In which they are meant.
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
    """Schedules for compaction, index refresh and cleanup; they want the resource `lance_store`.

    Each asks for one run per dataset for which the operation is due, and never twice for the same version and
    policy, unless that run failed: then once a day. Cleanup, which gets due by time alone, may come back the
    next day as well. An operation that could not
    help is blocked, and not started: the checks, and so the alerts, say why.

    Args:
        refs: The datasets.
        jobs: From `build_jobs`, for the same datasets.
        times: When to look.
        prefix: Of the jobs and the resource, as for `build_jobs`.
        default_status: Whether they run from the start.
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
        description=f"Runs {job.name} for every dataset whose policy says that it is due.",
    )
    def when_due(
        context: dg.ScheduleEvaluationContext, **_resources: object
    ) -> list[dg.RunRequest] | dg.SkipReason:
        # Dagster hands the resource over twice when the schedule is called like a function, in a test.
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
        version: Its version, and the transaction that made it: numbers recur in a dataset that is made anew.
        verdict: On one operation.
    """

    ref: LanceDatasetRef
    version: str
    verdict: Verdict


def _judge(operation: str, ref: LanceDatasetRef, store: LanceStoreResource) -> _Judged:
    """The verdict on one dataset; one that cannot be read needs other help than maintenance."""
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
    """Whether the last run for a version failed, or died: nothing else would ever ask for it again."""
    runs = instance.get_runs(dg.RunsFilter(tags={keys.DUE_FOR_TAG: run_key}), limit=1)
    return any(run.status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED) for run in runs)
