"""Downstream jobs of datasets, and the versions that their runs have read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.attempts import Attempt, RunState
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.jobs.operations import NamedJob
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.publication import now_utc

_RUNS_SEARCHED = 50
_OF_ONE_VERSION = 10
_STARTS_WITHIN = timedelta(minutes=15)

_STATES = {
    dg.DagsterRunStatus.SUCCESS: RunState.SUCCEEDED,
    dg.DagsterRunStatus.FAILURE: RunState.ENDED,
    dg.DagsterRunStatus.CANCELED: RunState.ENDED,
    dg.DagsterRunStatus.STARTED: RunState.WORKING,
    dg.DagsterRunStatus.CANCELING: RunState.WORKING,
}
_COMING_UP = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING)


@dataclass(frozen=True, slots=True)
class LanceDownstream:
    """A job that runs when data change.

    A version is handled when a successful run has recorded that it read this version or a newer one: as
    `lance/input_versions` ({name: version}) in the metadata of a materialization, or through
    `LanceIOManager`. A run that records nothing counts if it began after the version was known. A run that
    fails, is cancelled or dies is retried three times.

    Attributes:
        job: The job, for instance of an asset that Spark computes from the dataset.
        datasets: Names of the datasets that it reads.
    """

    job: NamedJob
    datasets: Sequence[str]


def attempts_of(
    job_name: str,
    ref: LanceDatasetRef,
    tags: Mapping[str, str],
    instance: dg.DagsterInstance,
    place: CodePlace | None,
) -> Iterator[Attempt]:
    """Return the newest runs of a job by any launcher, and all that were requested for a version.

    Args:
        job_name: Name of the job.
        ref: The dataset that it reads.
        tags: Tags of runs requested for the version.
        instance: Has the runs.
        place: Code location of the job; excludes runs of other jobs with its name.
    """
    of_version = dg.RunsFilter(job_name=job_name, tags=tags)
    records = [
        *instance.get_run_records(dg.RunsFilter(job_name=job_name), limit=_RUNS_SEARCHED),
        *instance.get_run_records(of_version, limit=_OF_ONE_VERSION),
    ]
    for record in {record.dagster_run.run_id: record for record in records}.values():
        if place is None or CodePlace.of_run(record.dagster_run) in (None, place):
            asked_for = tags.items() <= record.dagster_run.tags.items()
            yield replace(_attempt(record, ref, instance), asked_for=asked_for)


def newest_asked_for(
    job_name: str, ref: LanceDatasetRef, instance: dg.DagsterInstance
) -> dg.RunRecord | None:
    """Return the newest run of a job that the sensor started for a dataset; None without one."""
    ours = dg.RunsFilter(job_name=job_name, tags={keys.DOWNSTREAM_TAG: job_name})
    for record in instance.get_run_records(ours, limit=_RUNS_SEARCHED):
        if record.dagster_run.tags.get(keys.TRIGGER_TAG, "").rpartition("@")[0] == ref.name:
            return record
    return None


def _attempt(record: dg.RunRecord, ref: LanceDatasetRef, instance: dg.DagsterInstance) -> Attempt:
    run = record.dagster_run
    created, changed = _seconds(record.create_timestamp), _seconds(record.update_timestamp)
    state = _STATES.get(run.status, RunState.WAITING)
    # Only Dagster's run monitoring, if enabled, would ever end a run whose process never started.
    if run.status in _COMING_UP and changed < (now_utc() - _STARTS_WITHIN).timestamp():
        state = RunState.ENDED
    return Attempt(
        run.run_id,
        state,
        record.start_time or created,
        record.end_time or changed,
        record.start_time is not None or state in (RunState.WORKING, RunState.SUCCEEDED),
        version_read(run.run_id, ref, instance) if state is RunState.SUCCEEDED else None,
    )


def _seconds(at: datetime) -> float:
    return at.timestamp()


def version_read(run_id: str, ref: LanceDatasetRef, instance: dg.DagsterInstance) -> int | None:
    """Return the version of a dataset that a run recorded as read; None without a record.

    Of several, the newest.
    """
    wanted = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}
    found: list[object] = []
    for record in instance.get_records_for_run(run_id, of_type=wanted).records:
        entry = record.event_log_entry
        made, observed = entry.asset_materialization, entry.asset_observation
        if made is not None:
            noted = _plain(made.metadata.get(keys.INPUT_VERSIONS))
            found.append(noted.get(ref.name) if isinstance(noted, dict) else None)
        if observed is not None and observed.asset_key == ref.key:
            found.append(_plain(observed.metadata.get(keys.VERSION)))
    return max((version for version in found if type(version) is int), default=None)


def _plain(value: object) -> object:
    """Return a value of metadata without Dagster's wrapper."""
    return getattr(value, "value", value)
