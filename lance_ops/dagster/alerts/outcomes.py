"""Ends of runs in the order of the event log: failures open incidents, successes close them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from lance_ops.alerts.incidents import Incidents
from lance_ops.alerts.texts import iso_time
from lance_ops.alerts.values import Alert, CheckAlert, ConflictAlert, FailureAlert, alert_from_dict
from lance_ops.dagster import keys
from lance_ops.dagster.alerts.options import AlertOptions
from lance_ops.dagster.alerts.recovery import Recovery
from lance_ops.dagster.attempts import PAUSES
from lance_ops.dagster.run_map import RunMap, Subject
from lance_ops.dagster.version_event import plain_metadata

_GIVEN_UP = f"the last of {len(PAUSES) + 1} attempts was cancelled: no more runs are started for it"
_RUNS_PER_TICK = 50
_SUCCESSES_PER_TICK = 200
_FIRST_LOOK_BACK_SECONDS = 3600.0
_PARTITION = "dagster/partition"
_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"


@dataclass(frozen=True, slots=True)
class FailureCursor:
    """Position of a sensor in the event log.

    Attributes:
        after: Storage id of the last failure or cancellation that was read; None before the first.
        run: Run of that event. If the instance no longer knows it, its log may have been wiped, and storage
            ids start over.
        since: Time of that event, or the time from which to search the first, in seconds since 1970.
        success: Storage id after which successes are read; None without open incidents.
    """

    after: int | None = None
    run: str | None = None
    since: float | None = None
    success: int | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any], former: object) -> "FailureCursor":
        """Read a state, or the cursor of an earlier release."""
        found = content or (former if isinstance(former, dict) else {})
        after, success, since = (_number(found.get(name)) for name in ("after", "success", "since"))
        run = found.get("run")
        return cls(
            None if after is None else int(after),
            run if isinstance(run, str) else None,
            since,
            None if success is None else int(success),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def alerts_of_former(former: object) -> list[Alert]:
    """Return the pending alerts in the cursor of an earlier release."""
    entries = former.get("waiting") if isinstance(former, dict) else None
    found: list[Alert] = []
    for entry in entries if isinstance(entries, list) else ():
        alert = alert_from_dict(entry)
        if alert is not None:
            since = _number(entry.get("since"))
            found.append(alert if since is None else replace(alert, at=iso_time(since)))
    return found


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(slots=True)
class News:
    """Result of reading the event log.

    Attributes:
        cursor: Position for the next tick.
        raised: New incidents.
    """

    cursor: FailureCursor
    raised: list[Alert] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Reads ends of runs.

    Attributes:
        instance: With the event log.
        watched: The datasets.
        options: Contains the URL of the webserver.
    """

    instance: dg.DagsterInstance
    watched: RunMap
    options: AlertOptions

    def read(self, incidents: Incidents, cursor: FailureCursor, now: float) -> News:
        """Open and close incidents for the runs that ended since the last tick, in order.

        Args:
            incidents: Changed in place.
            cursor: Of the last tick.
            now: Seconds since 1970.
        """
        # Saved from the first tick on: a daemon that is down before the first failure misses none.
        since = now - _FIRST_LOOK_BACK_SECONDS if cursor.since is None else cursor.since
        wiped = cursor.run is not None and self.instance.get_run_by_id(cursor.run) is None
        failures = self._ends(None if wiped else cursor.after, since)
        open_runs = incidents.open_of(lambda alert: not isinstance(alert, CheckAlert))
        success = None if wiped or not open_runs else cursor.success
        successes: list[Any] = []
        if open_runs or failures:
            # A success before the first failure ends nothing.
            start = failures[0].storage_id if failures else cursor.after
            start = success if success is not None else None if wiped and not failures else start
            successes = self._records(dg.DagsterEventType.RUN_SUCCESS, start, since, _SUCCESSES_PER_TICK)
        if len(failures) == _RUNS_PER_TICK:
            # Events after the last failure read wait until the failures before them are read.
            successes = [item for item in successes if item.storage_id < failures[-1].storage_id]
        if len(successes) == _SUCCESSES_PER_TICK:
            # Vice versa: a success closes no failure that came after it.
            failures = [item for item in failures if item.storage_id < successes[-1].storage_id]
        raised: list[Alert] = []
        for record in sorted([*failures, *successes], key=lambda record: record.storage_id):
            run = self.instance.get_run_by_id(record.run_id)
            event = record.event_log_entry.dagster_event
            if run is None or event is None:
                continue
            if event.event_type is dg.DagsterEventType.RUN_SUCCESS:
                self._close(incidents, run, record.timestamp)
                continue
            cancelled = event.event_type is dg.DagsterEventType.RUN_CANCELED
            if cancelled and run.tags.get(keys.ATTEMPT_TAG) != str(len(PAUSES)):
                continue
            message = _GIVEN_UP if cancelled else event.message or "the run failed"
            for alert in failure_alerts(
                self.instance, run, self.watched, message, self.options, record.timestamp
            ):
                # A retried failure that was given up is an incident already.
                known = cancelled and incidents.open_of(partial(_is_same, alert))
                if not known and incidents.raise_alert(alert):
                    raised.append(alert)
        return News(self._following(cursor, failures, successes, since, incidents), raised)

    def _ends(self, after: int | None, since: float) -> list[Any]:
        """Yield failed and cancelled runs, in the order of the event log."""
        types = (dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_CANCELED)
        pages = [self._records(event_type, after, since, _RUNS_PER_TICK) for event_type in types]
        found = sorted((item for page in pages for item in page), key=lambda item: item.storage_id)
        # A full page may be followed by older ends than the last one of the other page.
        return found[:_RUNS_PER_TICK]

    def _records(self, event_type: Any, after: int | None, since: float, limit: int) -> list[Any]:
        selection = (
            dg.RunStatusChangeRecordsFilter(event_type, after_timestamp=since)
            if after is None
            else dg.RunStatusChangeRecordsFilter(event_type, after_storage_id=after)
        )
        found = self.instance.fetch_run_status_changes(selection, limit=limit, ascending=True)
        return list(found.records)

    def _following(
        self,
        cursor: FailureCursor,
        failures: list[Any],
        successes: list[Any],
        since: float,
        incidents: Incidents,
    ) -> FailureCursor:
        following = replace(cursor, since=since)
        if failures:
            last = failures[-1]
            following = FailureCursor(last.storage_id, last.run_id, last.timestamp, cursor.success)
        if not incidents.open_of(lambda alert: not isinstance(alert, CheckAlert)):
            return replace(following, success=None)
        if successes:
            return replace(following, success=successes[-1].storage_id)
        first = failures[0].storage_id if failures else following.after
        return following if following.success is not None else replace(following, success=first)

    def _close(self, incidents: Incidents, run: dg.DagsterRun, at: float) -> None:
        """Close the incidents whose work a successful run repeated."""
        recovery = Recovery(self.instance, self.watched, run)

        def belongs(alert: Alert) -> bool:
            if isinstance(alert, CheckAlert) or alert.partition != _partition_of(run, alert.dataset):
                return False
            return recovery.ends(alert)

        incidents.resolve(belongs, datetime.fromtimestamp(at, UTC), run_url=self.options.run_url(run.run_id))


def failure_alerts(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    watched: RunMap,
    message: str,
    options: AlertOptions,
    at: float,
) -> Iterator[Alert]:
    """Return one alert for each failed step of a run on a dataset; one for the run if no step failed.

    Args:
        instance: With the event log.
        run: The failed run.
        watched: The datasets.
        message: Dagster's message about the end of the run.
        options: Contains the URL of the webserver.
        at: Time of the failure, in seconds since 1970.
    """
    steps = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    for record in steps:
        event = record.event_log_entry.dagster_event
        if event is None:
            continue
        data = event.step_failure_data
        metadata = {} if data.user_failure_data is None else plain_metadata(data.user_failure_data.metadata)
        for ref in watched.of_step(run, event.step_key or "", metadata):
            yield replace(
                _alert(ref, run, event.step_key or "", data, metadata),
                **_common(ref, run, watched, options, at),
            )
    if not steps:
        for ref in watched.of_run(run):
            computed = [step for step in watched.steps_of(run) if watched.computes(step, ref.name)]
            step = computed[0] if len(computed) == 1 else ""
            died = FailureAlert(ref.name, ref.uri, run.job_name, step, run.run_id, "", message)
            yield replace(died, **_common(ref, run, watched, options, at))


def _common(
    ref: Subject, run: dg.DagsterRun, watched: RunMap, options: AlertOptions, at: float
) -> dict[str, Any]:
    partition = _partition_of(run, ref.name)
    return {
        "at": iso_time(at),
        "owners": ref.owners,
        "run_url": options.run_url(run.run_id),
        "asset_url": options.asset_url(ref.key),
        "partition": partition,
        "restart": watched.restart_command(run, partition),
    }


def _is_same(alert: Alert, other: Alert) -> bool:
    """Return whether two alerts are about the same work."""
    if isinstance(alert, CheckAlert) or isinstance(other, CheckAlert):
        return False
    work = ((item.dataset, item.job, item.step, item.partition) for item in (alert, other))
    return len(set(work)) == 1


def _partition_of(run: dg.DagsterRun, dataset: str) -> str:
    """Return the partition of a run: a success of another partition does not end its failure."""
    start, end = run.tags.get(_RANGE_START), run.tags.get(_RANGE_END)
    if start is not None and end is not None:
        return f"{start}...{end}"
    partition = run.tags.get(_PARTITION, "")
    # Maintenance jobs are partitioned by dataset.
    return "" if partition == dataset else partition


def _alert(ref: Subject, run: dg.DagsterRun, step: str, data: Any, metadata: Mapping[str, Any]) -> Alert:
    """Return the alert of a failed step.

    Args:
        ref: Its dataset.
        run: The run.
        step: Name of the step.
        data: Dagster's data of the failure, which have no public type.
        metadata: Metadata that lance_ops added to it.
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
            hint=str(metadata.get(keys.ERROR_HINT, "")),
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
    """Return the cause below Dagster's wrappers, such as the one after the last retry."""
    while (
        error is not None
        and error.cause is not None
        and str(error.cls_name).startswith(("Dagster", "RetryRequested"))
    ):
        error = error.cause
    return error
