"""Jobs that compute something from datasets, and what their runs tell about the data that they have read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.jobs.operations import NamedJob
from lance_ops.dagster.publication import now_utc

_RUNS_SEARCHED = 50
_STARTS_WITHIN = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class LanceDownstream:
    """A job that has to run when data change.

    Attributes:
        job: The job, for instance of an asset that Spark computes from the dataset.
        datasets: Names of the datasets that it reads.
    """

    job: NamedJob
    datasets: Sequence[str]


def last_started_for(job_name: str, ref: LanceDatasetRef, instance: dg.DagsterInstance) -> str | None:
    """The data version of a dataset for which the job was last started, and did not fail."""
    runs = instance.get_runs(
        dg.RunsFilter(job_name=job_name, tags={keys.DOWNSTREAM_TAG: job_name}), limit=_RUNS_SEARCHED
    )
    for run in runs:
        if run.tags.get(keys.TRIGGER_TAG, "").rpartition("@")[0] == ref.name:
            failed = run.status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
            return None if failed else run.tags.get(keys.DATA_TAG)
    return None


def has_read_nothing(job_name: str, instance: dg.DagsterInstance) -> bool:
    """Whether a run of the job is still to begin: it waits, or its process is coming up.

    A run whose process never came up, or that was never handed to one, counts for a while only: nobody but
    Dagster's run monitoring, where that is on, would ever end it.
    """
    ours = {keys.DOWNSTREAM_TAG: job_name}
    queued = dg.RunsFilter(job_name=job_name, tags=ours, statuses=[dg.DagsterRunStatus.QUEUED])
    coming = dg.RunsFilter(
        job_name=job_name,
        tags=ours,
        statuses=[dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING],
        updated_after=now_utc() - _STARTS_WITHIN,
    )
    return bool(instance.get_runs(queued, limit=1) or instance.get_runs(coming, limit=1))
