"""Job and schedule of an ingest."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, cast

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.ingest.asset import DESCRIPTIONS
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.jobs.operations import NamedJob
from lance_ops.errors import InvalidArgumentError


def build_ingest_job(
    ingest: LanceIngest,
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Mapping[str, str] | None = None,
    hooks: AbstractSet[dg.HookDefinition] | None = None,
    config: Mapping[str, Any] | None = None,
    executor_def: dg.ExecutorDefinition | None = None,
) -> NamedJob:
    """Build a job that materializes an ingest, e.g. `flights_ingest_job`.

    `build_lance_definitions` makes one for each ingest; another one needs a different name. Unlike runs from
    the asset's page, its runs have the tag by which `dagster.yaml` limits the runs of one dataset to one at a
    time, maintenance included.

    Args:
        ingest: What to load.
        name: Name of the job; default that of the ingest with the suffix `_job`.
        description: Description of the job.
        tags: Additional tags of its runs.
        hooks: Hooks of its step.
        config: Run config, as for `dg.define_asset_job`.
        executor_def: Executor of its one step; in-process by default.
    """
    job = dg.define_asset_job(
        name or ingest.job_name,
        # Without `partitions_loaded`, which would compare all partitions in each run of a backfill.
        selection=dg.AssetSelection.assets(ingest.key).without_checks()
        | dg.AssetSelection.checks(dg.AssetCheckKey(ingest.key, keys.ROWS_LOADED)),
        tags={**(tags or {}), **ingest.ref.run_tags},
        description=description or DESCRIPTIONS[ingest.effective_mode].format(ingest.ref.name),
        hooks=hooks,
        config=config,
        executor_def=executor_def or dg.in_process_executor,
    )
    return cast("NamedJob", job)


def build_ingest_schedule(
    ingest: LanceIngest,
    *,
    job: NamedJob | None = None,
    cron_schedule: str | None = None,
    execution_timezone: str | None = None,
    name: str | None = None,
    default_status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
) -> dg.ScheduleDefinition:
    """Build a schedule of an ingest: its newest complete partition, all partitions, or new rows.

    `build_lance_definitions` makes one for each ingest that has a `cron_schedule`. A partition of time is
    requested once, however often the schedule ticks; late rows are loaded by another launch.

    Args:
        ingest: What to load.
        job: From `build_ingest_job`; the one that `build_lance_definitions` makes by default.
        cron_schedule: Cron expression; default that of the ingest.
        execution_timezone: Time zone of the cron expression; default that of the ingest.
        name: Name of the schedule; default that of the job with `_schedule` instead of `_job`.
        default_status: Initial status.

    Raises:
        InvalidArgumentError: No cron expression is given.
    """
    cron = cron_schedule or ingest.cron_schedule
    if cron is None:
        raise InvalidArgumentError(
            f"the schedule of {ingest.asset_name} has no cron_schedule",
            field="cron_schedule",
            hint='e.g. cron_schedule="15 0 * * *" loads at 00:15',
        )
    job_name = ingest.job_name if job is None else job.name
    times = _times_of(ingest.partitions)

    @dg.schedule(
        name=name or f"{job_name.removesuffix('_job')}_schedule",
        job_name=job_name,
        cron_schedule=cron,
        execution_timezone=execution_timezone
        or ingest.execution_timezone
        or (times.timezone if times else "UTC"),
        default_status=default_status,
        description=f"Loads {_subject(ingest)} of {ingest.asset_name}.",
    )
    def load_on_time(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        tags = ingest.ref.run_tags
        if ingest.partitions is None:
            return [dg.RunRequest(tags=tags)]
        at = context.scheduled_execution_time
        wanted = _partitions_at(ingest.partitions, at, context.instance)
        # A time partition is requested once; others at each tick.
        return [
            dg.RunRequest(run_key=None if times is None else key, partition_key=key, tags=tags)
            for key in wanted
        ] or dg.SkipReason(f"{ingest.asset_name} has no complete partition at {at:%Y-%m-%d %H:%M %Z}")

    return load_on_time


def _subject(ingest: LanceIngest) -> str:
    if ingest.partitions is None:
        return "new rows"
    return "all partitions" if _times_of(ingest.partitions) is None else "newest complete partition"


def _partitions_at(
    partitions: dg.PartitionsDefinition[Any], at: datetime, instance: dg.DagsterInstance
) -> Sequence[str]:
    """Return the partitions to load: those of the last complete time, or all if none is a time."""
    times = _times_of(partitions)
    with dg.partition_loading_context(at, instance):
        if times is None:
            return list(partitions.get_partition_keys())
        last = times.get_last_partition_key()
        if last is None:
            return []
        if not isinstance(partitions, dg.MultiPartitionsDefinition):
            return [last]
        dimension = next(item.name for item in partitions.partitions_defs if item.partitions_def is times)
        return list(partitions.get_multipartition_keys_with_dimension_value(dimension, last))


def _times_of(partitions: dg.PartitionsDefinition[Any] | None) -> dg.TimeWindowPartitionsDefinition | None:
    """Return the time partitions, or their dimension; None without any."""
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        found = (_times_of(item.partitions_def) for item in partitions.partitions_defs)
        return next((times for times in found if times is not None), None)
    return partitions if isinstance(partitions, dg.TimeWindowPartitionsDefinition) else None
