"""Downstream jobs that the manifest sensor starts, until each has read the newest data.

The entry of a dataset records the jobs that have read its data. Every tick compares the others with their
runs, so that a run without effect (it failed, was cancelled, died, or was never launched) is requested again.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.attempts import Outlook, Stage, outlook_of_version
from lance_ops.dagster.checks.computed import downstream_verdict
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.downstream import LanceDownstream, attempts_of, newest_asked_for
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.publication import VersionEvent, last_published, now_utc
from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.dagster.sensor.tick import Tick
from lance_ops.maintenance.text import count_text


@dataclass(frozen=True, slots=True)
class DataState:
    """A data version, and the first version that had it, if known."""

    data_version: str
    since: int


@dataclass(frozen=True, slots=True)
class Downstream:
    """The jobs that a sensor starts, and their runs.

    Attributes:
        jobs: The jobs, with the datasets that they read.
        instance: Has the runs.
        place: Location of sensor and jobs; None if unknown.
    """

    jobs: Sequence[LanceDownstream]
    instance: dg.DagsterInstance
    place: CodePlace | None = None

    def of(self, ref: LanceDatasetRef) -> list[str]:
        """Return the names of the jobs that read a dataset."""
        return list(dict.fromkeys(item.job.name for item in self.jobs if ref.name in item.datasets))


def state_of_data(
    ref: LanceDatasetRef,
    dealt: Sequence[VersionEvent],
    before: DatasetCursor,
    instance: dg.DagsterInstance,
) -> DataState | None:
    """Return the data that downstream jobs should have read by now; None if nothing can have changed."""
    if dealt:
        # Only versions above the cursor count, by any publisher: a repeated tick finds the same.
        newest = dealt[-1].facts.data_version
        same = itertools.takewhile(lambda event: event.facts.data_version == newest, reversed(dealt))
        return DataState(newest, min(event.facts.version for event in same))
    published = last_published(instance, ref.key) if before.problem is not None else None
    if published is None or published.data_version is None:
        return None
    return DataState(published.data_version, published.version)


def with_state(
    entry: DatasetCursor, state: DataState | None, jobs: Sequence[str], *, recreated: bool
) -> DatasetCursor:
    """Return an entry with another state of the data, which no job has read yet.

    Args:
        entry: The entry.
        state: The state; None if it is not known to have changed.
        jobs: The jobs that read the dataset.
        recreated: The dataset was, since the last tick.
    """
    if state is None or state.data_version == entry.data_version:
        return entry
    # A sensor that lost its cursor checks the runs first, see `_recall`.
    known_at = None if entry.data_version is None or not jobs else now_utc().timestamp()
    return replace(
        entry,
        data_version=state.data_version,
        since=state.since if jobs else None,
        known_at=known_at,
        recreated=recreated and bool(jobs),
        done=(),
        given_up=(),
    )


def start_downstream(
    tick: Tick, ref: LanceDatasetRef, entry: DatasetCursor, downstream: Downstream, *, renewed: bool = False
) -> DatasetCursor:
    """Request the jobs that have not read the newest data yet, unless a run is about to.

    Args:
        tick: The tick under construction.
        ref: The dataset.
        entry: Its entry.
        downstream: The jobs.
        renewed: There is a new event, which drops the check result in Dagster.

    Returns:
        The entry, with the jobs that have read the data by now.
    """
    jobs = downstream.of(ref)
    if entry.data_version is None or not jobs:
        return entry
    if entry.since is not None and not set(jobs).difference(entry.done):
        if renewed:
            tick.events.append(downstream_verdict(ref, entry.since, {}, downstream.place))
        return entry
    if entry.known_at is None or entry.since is None:
        entry = _recall(ref, entry, jobs, downstream.instance)
    since, known_at = entry.since, entry.known_at
    assert since is not None
    assert known_at is not None
    told: dict[str, Outlook] = {}
    for name in jobs:
        if name in entry.done:
            continue
        outlook = outlook_of_version(
            attempts_of(name, ref, _tags(name, ref, entry), downstream.instance, downstream.place),
            since=since,
            known_at=known_at,
            now=now_utc().timestamp(),
            recreated=entry.recreated,
        )
        told[name] = outlook
        if outlook.stage is Stage.DONE:
            entry = replace(entry, done=(*entry.done, name))
        elif outlook.stage is Stage.DUE:
            tick.requests.append(_request(name, ref, entry, outlook))
        else:
            tick.notes.append(_note(name, ref, outlook))
    given_up = tuple(name for name in jobs if name in told and told[name].stage is Stage.GIVEN_UP)
    settled = set(entry.done) >= set(jobs)
    if given_up != entry.given_up or settled or (given_up and renewed):
        left = {name: told[name] for name in given_up}
        tick.events.append(downstream_verdict(ref, since, left, downstream.place))
    return replace(entry, given_up=given_up)


def _recall(
    ref: LanceDatasetRef, entry: DatasetCursor, jobs: Sequence[str], instance: dg.DagsterInstance
) -> DatasetCursor:
    """Complete an entry by the runs, after a release without it or after the cursor was lost.

    The data are read if the newest run that was started for the dataset succeeded for the same data. Else the
    runs since then count, or those since the newest event of the dataset.
    """
    asked: list[dg.RunRecord] = []
    done = list(entry.done)
    for name in jobs:
        record = newest_asked_for(name, ref, instance)
        if record is None or record.dagster_run.tags.get(keys.DATA_TAG) != entry.data_version:
            continue
        asked.append(record)
        if record.dagster_run.status is dg.DagsterRunStatus.SUCCESS:
            done.append(name)
    known_at = min((record.create_timestamp.timestamp() for record in asked), default=None)
    if known_at is None:
        events = instance.fetch_materializations(ref.key, limit=1).records
        known_at = events[0].timestamp if events else now_utc().timestamp()
    since = entry.since
    if since is None:
        triggers = [record.dagster_run.tags[keys.TRIGGER_TAG].rpartition("@")[2] for record in asked]
        since = min((int(text) for text in triggers if text.isdecimal()), default=entry.version or 0)
    return replace(entry, since=since, known_at=known_at, done=tuple(dict.fromkeys(done)))


def _request(name: str, ref: LanceDatasetRef, entry: DatasetCursor, outlook: Outlook) -> dg.RunRequest:
    # The version distinguishes the same data before and after a restore; the failed run, two attempts. A
    # repeated tick has the same key.
    key = f"{name}|{ref.name}|{entry.data_version}|{entry.since}"
    return dg.RunRequest(
        job_name=name,
        run_key=f"{key}|after {outlook.last}" if outlook.failed else key,
        tags=_tags(name, ref, entry),
    )


def _tags(name: str, ref: LanceDatasetRef, entry: DatasetCursor) -> dict[str, str]:
    """Return the tags of the runs that are started for the data."""
    return {
        keys.DOWNSTREAM_TAG: name,
        keys.TRIGGER_TAG: f"{ref.name}@{entry.since}",
        keys.DATA_TAG: str(entry.data_version),
    }


def _note(name: str, ref: LanceDatasetRef, outlook: Outlook) -> str:
    if outlook.stage is Stage.AT_WORK:
        return f"{name} is already queued or running"
    failed = f"{count_text(outlook.failed, 'run')} of {name} for {ref.name} failed"
    if outlook.not_before is None:
        return f"{failed}: given up"
    return f"{failed}: the next one is due at {datetime.fromtimestamp(outlook.not_before, UTC):%H:%M:%S} UTC"
