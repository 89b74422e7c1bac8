"""What the manifest sensor starts: the jobs that read a dataset, once for each state of its data."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.downstream import LanceDownstream, has_read_nothing, last_started_for
from lance_ops.dagster.publication import VersionEvent, last_published
from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.dagster.sensor.tick import Tick


@dataclass(frozen=True, slots=True)
class DataState:
    """A data version, and the first version that had it, as far as that is known."""

    data_version: str
    since: int


def state_of_data(
    ref: LanceDatasetRef,
    dealt: Sequence[VersionEvent],
    before: DatasetCursor,
    instance: dg.DagsterInstance,
) -> DataState | None:
    """What downstream jobs should have read by now; None when nothing can have changed."""
    if dealt:
        # Only what lies above the cursor counts, whoever published it: a repeated tick finds the same.
        newest = dealt[-1].facts.data_version
        same = itertools.takewhile(lambda event: event.facts.data_version == newest, reversed(dealt))
        return DataState(newest, min(event.facts.version for event in same))
    published = last_published(instance, ref.key) if before.problem is not None else None
    if published is None or published.data_version is None:
        return None
    return DataState(published.data_version, published.version)


def start_downstream(
    tick: Tick,
    ref: LanceDatasetRef,
    state: DataState,
    instance: dg.DagsterInstance,
    downstream: Sequence[LanceDownstream],
    *,
    forgotten: bool,
) -> None:
    """Request the jobs that read the dataset, once for each state of its data.

    Args:
        tick: What the tick will return.
        ref: The dataset.
        state: Its data.
        instance: With the runs.
        downstream: The jobs.
        forgotten: The cursor does not know what was started last: then the runs tell.
    """
    for item in downstream:
        if ref.name not in item.datasets:
            continue
        name = item.job.name
        if has_read_nothing(name, instance):
            # So it will read what is here now: many appends need not many runs. The dataset was looked at
            # before, so a run that begins to read in this moment reads no less.
            tick.notes.append(f"{name} is queued already")
            continue
        if forgotten and last_started_for(name, ref, instance) == state.data_version:
            tick.notes.append(f"{name} has run for this state of {ref.name}")
            continue
        tick.requests.append(
            dg.RunRequest(
                job_name=name,
                # The version tells apart two times of the same data, before and after a restore.
                run_key=f"{name}|{ref.name}|{state.data_version}|{state.since}",
                tags={
                    keys.DOWNSTREAM_TAG: name,
                    keys.TRIGGER_TAG: f"{ref.name}@{state.since}",
                    keys.DATA_TAG: state.data_version,
                },
            )
        )
