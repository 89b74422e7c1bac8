"""Retry sensor for runs that ended without success: ingests, IO-managed assets, fleets.

It keeps no list: the runs of the last day show which ended without success, whether a newer run of the same
work exists, and the number of each attempt. A retry uses the job keys of the first run, so that a run that
ended after its commit adds nothing twice.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.attempts import PAUSES
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.dead_runs import end_dead_runs
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.jobs.operations import NamedJob
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.publication import now_utc
from lance_ops.dagster.run_map import conditional_assets, restart_command

_LOOK_BACK = timedelta(days=1)
_MOST_RUNS = 200
_RETRIED_BY_DAGSTER = timedelta(minutes=10)
_ENDED = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)

_PARTITION = "dagster/partition"
_RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_BACKFILL = "dagster/backfill"
_WILL_RETRY = "dagster/will_retry"
_MAX_RETRIES = "dagster/max_retries"
"""Tag of Dagster's own retries of lost processes: the attempts are counted here."""
_NOT_COPIED = ("dagster/", ".dagster/", keys.MACHINE_TAG)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a run: two runs of the same work replace each other.

    Attributes:
        job: Name of the job of a fleet; "" for assets.
        assets: The monitored assets that it computes.
        partition: Its partition, or the first and the last of a range; "" without.
    """

    job: str
    assets: tuple[dg.AssetKey, ...]
    partition: str


@dataclass(frozen=True, slots=True)
class _Retried:
    """Work that the sensor retries.

    Attributes:
        assets: Assets that are computed on request.
        conditional: Assets that are computed because data changed: retried even after a termination.
        jobs: Ingests by the names of their jobs.
        fleet: Name of the job of a fleet.
        place: Location of the jobs.
    """

    assets: frozenset[dg.AssetKey]
    conditional: frozenset[dg.AssetKey]
    jobs: Mapping[str, dg.AssetKey]
    fleet: str | None
    place: CodePlace | None

    def work_of(self, run: dg.DagsterRun) -> Work | None:
        """Return the work of a run; None if it is not retried."""
        if self.place is not None and CodePlace.of_run(run) not in (None, self.place):
            return None
        partition = run.tags.get(_PARTITION) or "...".join(run.tags.get(name, "") for name in _RANGE)
        partition = "" if partition == "..." else partition
        if run.job_name == self.fleet:
            return Work(run.job_name, (), partition)
        selected = set(run.asset_selection or ())
        if not selected and run.job_name in self.jobs:
            selected = {self.jobs[run.job_name]}
        found = selected & (self.assets | self.conditional)
        return Work("", tuple(sorted(found)), partition) if found else None

    def is_wanted(self, record: dg.RunRecord, work: Work) -> bool:
        """Return whether work is still needed after its run ended: terminated runs are not retried."""
        run = record.dagster_run
        if run.status is dg.DagsterRunStatus.FAILURE or self.conditional.intersection(work.assets):
            return True
        return record.start_time is None and _BACKFILL not in run.tags


def build_retry_sensor(
    refs: Sequence[LanceDatasetRef] = (),
    *,
    ingests: Sequence[LanceIngest] = (),
    assets: Sequence[dg.AssetsDefinition] = (),
    fleet: NamedJob | None = None,
    name: str = "lance_retry_sensor",
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Build the sensor that retries runs that failed, were cancelled in the queue, or died.

    It retries three times, after 1, 5 and 25 minutes. It covers ingests, assets that are datasets, assets of
    the repository with the condition `lance_data_changed`, or the job of a fleet. A terminated run is not
    retried, unless it computes an asset with that condition, whose data would stay old. Downstream jobs are
    retried by the manifest sensor, maintenance by its schedules. Runs of any job whose process on this
    machine has ended are reported as failed first.

    Args:
        refs: The datasets.
        ingests: Ingests into some of them.
        assets: Assets that write some of them through `LanceIOManager`.
        fleet: The job of a fleet, instead of datasets.
        name: Name of the sensor.
        minimum_interval_seconds: Seconds between ticks.
        default_status: Initial status.
    """
    datasets = {ref.key for ref in refs}
    written = {key for asset in assets for key in asset.keys if key in datasets}
    own = frozenset({*written, *(ingest.key for ingest in ingests)})
    jobs = {ingest.job_name: ingest.key for ingest in ingests}

    @dg.sensor(
        name=name,
        description="Retries runs that failed, were cancelled in the queue, or died, up to three times.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        job_name=None if fleet is None else fleet.name,
        asset_selection=None if fleet is not None else dg.AssetSelection.all(),
    )
    def retry_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = now_utc()
        since = _since(context.cursor, now)
        conditional = frozenset() if fleet is not None else frozenset(conditional_assets(context))
        place = CodePlace.of_sensor(context)
        retried = _Retried(own, conditional, jobs, None if fleet is None else fleet.name, place)
        requests: list[dg.RunRequest] = []
        notes = [f"run {run_id} had died" for run_id in end_dead_runs(context.instance, place)]
        for record, work in _ended_last(context.instance, retried, max(since, now - _LOOK_BACK)):
            outcome = _retry_of(record, work, now, jobs)
            (notes if isinstance(outcome, str) else requests).append(outcome)  # type: ignore[arg-type]
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else "; ".join(notes) or "no run to retry",
            cursor=json.dumps({"since": since.timestamp()}),
        )

    return retry_sensor


def _since(cursor: str | None, now: datetime) -> datetime:
    """Return the time from which runs count: runs that ended before the sensor's first tick do not."""
    try:
        content = json.loads(cursor or "{}")
        return datetime.fromtimestamp(float(content["since"]), UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError):
        return now


def _ended_last(
    instance: dg.DagsterInstance, retried: _Retried, since: datetime
) -> Iterator[tuple[dg.RunRecord, Work]]:
    """Yield runs without success that have no newer run of the same work."""
    ended = dg.RunsFilter(statuses=list(_ENDED), updated_after=since)
    seen: set[Work] = set()
    for record in instance.get_run_records(ended, limit=_MOST_RUNS):
        work = retried.work_of(record.dagster_run)
        if work is None or work in seen:
            continue
        seen.add(work)
        if retried.is_wanted(record, work) and not _has_newer(instance, retried, record, work):
            left = _not_computed(instance, record, work)
            if left is not None:
                yield record, left


def _not_computed(instance: dg.DagsterInstance, record: dg.RunRecord, work: Work) -> Work | None:
    """Return the unfinished work of a run: another asset of it may have failed. None if there is none."""
    if not work.assets:
        return work
    made = instance.get_records_for_run(
        record.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
    ).records
    done = {
        event.asset_key
        for event in (item.event_log_entry.asset_materialization for item in made)
        if event is not None
    }
    left = tuple(key for key in work.assets if key not in done)
    return replace(work, assets=left) if left else None


def _has_newer(instance: dg.DagsterInstance, retried: _Retried, record: dg.RunRecord, work: Work) -> bool:
    run = record.dagster_run
    tags = {_PARTITION: run.tags[_PARTITION]} if _PARTITION in run.tags else {}
    later = dg.RunsFilter(created_after=record.create_timestamp, tags=tags)
    for other in instance.get_runs(later, limit=_MOST_RUNS):
        if other.run_id == run.run_id:
            continue
        done = retried.work_of(other)
        same = done is not None and (done.job, done.partition) == (work.job, work.partition)
        if done is not None and same and set(done.assets) >= set(work.assets):
            return True
    return False


def _retry_of(
    record: dg.RunRecord, work: Work, now: datetime, ingests: Mapping[str, dg.AssetKey]
) -> dg.RunRequest | str:
    """Return the request of the next attempt, or the reason why there is none now."""
    run = record.dagster_run
    attempt = run.tags.get(keys.ATTEMPT_TAG, "")
    before = int(attempt) if attempt.isdecimal() else 0
    what = work.job or ", ".join(key.to_user_string() for key in work.assets)
    what += f" [{work.partition}]" if work.partition else ""
    if before >= len(PAUSES):
        place = CodePlace.of_run(run)
        command = restart_command(ingests, place, job=work.job, assets=work.assets, partition=work.partition)
        return f"{what}: {before + 1} runs failed: given up; fix the cause, then start it again: {command}"
    ended = datetime.fromtimestamp(record.end_time or record.update_timestamp.timestamp(), UTC)
    pause = PAUSES[before]
    if run.tags.get(_WILL_RETRY) == "true":
        pause = max(pause, _RETRIED_BY_DAGSTER)
    if now < ended + pause:
        return f"{what}: the next attempt is due at {ended + pause:%H:%M:%S} UTC"
    copied = {name: value for name, value in run.tags.items() if not name.startswith(_NOT_COPIED)}
    ranges = {name: run.tags[name] for name in _RANGE if name in run.tags}
    root = run.tags.get(keys.RETRY_ROOT_TAG) or run.root_run_id or run.run_id
    return dg.RunRequest(
        run_key=f"retry|{run.run_id}",
        job_name=work.job or None,
        asset_selection=list(work.assets) or None,
        partition_key=run.tags.get(_PARTITION),
        run_config=run.run_config,
        tags={
            **copied,
            **ranges,
            _MAX_RETRIES: "0",
            keys.ATTEMPT_TAG: str(before + 1),
            keys.RETRY_OF_TAG: run.run_id,
            keys.RETRY_ROOT_TAG: root,
        },
    )
