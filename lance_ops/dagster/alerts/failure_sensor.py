"""A sensor that tells of every failed run of maintenance and of ingests: of lost conflicts, and of the rest.

Dagster's own failure sensors offer a run once and have no memory. This one reads the failures in the order of
the event log, and keeps in its cursor how far it came and what it could not deliver.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from lance_ops.alerts.notifier import LogNotifier, Notifier
from lance_ops.alerts.values import Alert, ConflictAlert, FailureAlert
from lance_ops.dagster import keys
from lance_ops.dagster.alerts.delivery import deliver
from lance_ops.dagster.alerts.queue import AlertCursor, Waiting, parse_alert_cursor
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.downstream import LanceDownstream
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.run_map import RunMap, Subject, conditional_assets
from lance_ops.dagster.version_event import plain_metadata
from lance_ops.maintenance.text import count_text

_RUNS_PER_TICK = 50
_FIRST_LOOK_BACK_SECONDS = 3600.0


def build_failure_alert_sensor(
    refs: Sequence[LanceDatasetRef],
    notifier: Notifier | None = None,
    *,
    ingests: Sequence[LanceIngest] = (),
    assets: Sequence[dg.AssetsDefinition] = (),
    downstream: Sequence[LanceDownstream] = (),
    fleets: Mapping[str, str] | None = None,
    name: str = "lance_failure_alert_sensor",
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that hands a notifier an alert for every failed run that worked on one of the datasets.

    A step that lost against another writer gives a `ConflictAlert`, every other failure a `FailureAlert`.
    What the notifier does not take is told again in later ticks.

    Args:
        refs: The datasets.
        notifier: Who is told; the log by default.
        ingests: How rows come into some of them: runs from an asset's page tell no dataset, only the asset.
        assets: Assets that write some of them through `LanceIOManager`, or read them.
        downstream: Jobs that read some of them.
        fleets: Jobs of the sensor's repository that maintain many datasets in one run, with where their
            policies are: whatever fails in such a run is told.
        name: Name of the sensor.
        minimum_interval_seconds: Pause between ticks.
        default_status: Whether it runs from the start.

    Raises:
        InvalidArgumentError: Datasets that cannot be told apart, or nothing to watch.
    """
    known = index_refs(refs) if refs or not fleets else {}
    told = notifier or LogNotifier()

    @dg.sensor(
        name=name,
        description="Tells when a run on a dataset failed, and what to do; of a lost conflict both sides.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def failure_alert_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = parse_alert_cursor(context.cursor)
        now = time.time()
        watched = RunMap(
            known.values(),
            ingests=ingests,
            assets=assets,
            downstream=downstream,
            fleets=fleets,
            place=CodePlace.of_sensor(context),
        )
        for asset in conditional_assets(context).values():
            watched.add_readers(asset)
        found, ahead = _failures_since(context.instance, cursor, watched, now)
        for alert in found:
            context.log.warning(str(alert))
        waiting = [*cursor.waiting, *(Waiting(now, alert) for alert in found)]
        left = deliver([item.alert for item in waiting], told, context.log)
        by_alert = {id(item.alert): item for item in waiting}
        following, dropped = ahead.with_waiting([by_alert[id(alert)] for alert in left], now)
        for alert in dropped:
            context.log.error("nobody took this alert, and it is given up: %s", alert)
        rest = f"; {len(following.waiting)} wait" if following.waiting else ""
        return dg.SensorResult(
            skip_reason=f"told of {count_text(len(waiting) - len(left), 'failure')}{rest}",
            cursor=following.serialize(),
        )

    return failure_alert_sensor


def _failures_since(
    instance: dg.DagsterInstance, cursor: AlertCursor, watched: RunMap, now: float
) -> tuple[list[Alert], AlertCursor]:
    """Alerts of the failures that are not looked at yet, oldest first, and how far that is."""
    # Kept from the first look on: a daemon that is down before the first failure misses none.
    since = now - _FIRST_LOOK_BACK_SECONDS if cursor.since is None else cursor.since
    wiped = cursor.run_id is not None and instance.get_run_by_id(cursor.run_id) is None
    selection = (
        dg.RunStatusChangeRecordsFilter(dg.DagsterEventType.RUN_FAILURE, after_timestamp=since)
        if cursor.after is None or wiped
        else dg.RunStatusChangeRecordsFilter(dg.DagsterEventType.RUN_FAILURE, after_storage_id=cursor.after)
    )
    records = instance.fetch_run_status_changes(selection, limit=_RUNS_PER_TICK, ascending=True).records
    alerts: list[Alert] = []
    for record in records:
        run = instance.get_run_by_id(record.run_id)
        if run is not None:
            event = record.event_log_entry.dagster_event
            message = (event.message if event is not None else None) or "the run failed"
            alerts += failure_alerts(instance, run, watched, message)
    if not records:
        return alerts, replace(cursor, since=since)
    last = records[-1]
    return alerts, AlertCursor(last.storage_id, run_id=last.run_id, since=last.timestamp)


def failure_alerts(
    instance: dg.DagsterInstance, run: dg.DagsterRun, watched: RunMap, message: str
) -> Iterator[Alert]:
    """One alert for each failed step of a run that worked on a dataset; one for the run if no step did.

    Args:
        instance: With the event log.
        run: The failed run.
        watched: The datasets.
        message: What Dagster says about the end of the run.
    """
    steps = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    for record in steps:
        event = record.event_log_entry.dagster_event
        if event is None:
            continue
        data = event.step_failure_data
        metadata = {} if data.user_failure_data is None else plain_metadata(data.user_failure_data.metadata)
        for ref in watched.of_step(run, event.step_key or "", metadata):
            yield _alert(ref, run, event.step_key or "", data, metadata)
    if not steps:
        for ref in watched.of_run(run):
            yield FailureAlert(ref.name, ref.uri, run.job_name, "", run.run_id, "", message)


def _alert(ref: Subject, run: dg.DagsterRun, step: str, data: Any, metadata: Mapping[str, Any]) -> Alert:
    """The alert of a failed step.

    Args:
        ref: What it worked on.
        run: The run.
        step: Name of the step.
        data: Dagster's data of the failure, which have no public type.
        metadata: What we noted in it.
    """
    described = None if data.user_failure_data is None else data.user_failure_data.description
    cause = _cause(data.error)
    message = described or (str(cause.message).strip() if cause is not None else "")
    if keys.CONFLICT_KIND in metadata:
        version = metadata.get(keys.CONFLICT_VERSION)
        return ConflictAlert(
            dataset=ref.name,
            uri=ref.uri,
            job=run.job_name,
            step=step,
            run_id=run.run_id,
            conflict=str(metadata[keys.CONFLICT_KIND]),
            ours=str(metadata.get(keys.CONFLICT_OURS, "")),
            theirs=str(metadata.get(keys.CONFLICT_THEIRS, "")),
            version=version if isinstance(version, int) else None,
            message=message,
        )
    error = str(metadata.get(keys.ERROR) or getattr(cause, "cls_name", None) or "")
    return FailureAlert(
        dataset=ref.name,
        uri=ref.uri,
        job=run.job_name,
        step=step,
        run_id=run.run_id,
        error=error.partition(":")[0],
        message=message,
        path=str(metadata.get(keys.ERROR_PATH, "")),
        hint=str(metadata.get(keys.ERROR_HINT, "")),
    )


def _cause(error: Any) -> Any:
    """What Dagster's wrappers, of which the last of several retries is one, were made for."""
    while (
        error is not None
        and error.cause is not None
        and str(error.cls_name).startswith(("Dagster", "RetryRequested"))
    ):
        error = error.cause
    return error
