"""Tags for queued runs that do not name the dataset that they write, see `jobs.turn`."""

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.run_map import RunMap

_MOST_WAITING = 500
_WAITING = [dg.DagsterRunStatus.QUEUED]


def tag_waiting_runs(instance: dg.DagsterInstance, run_map: RunMap) -> int:
    """Tag the queued runs of one dataset that do not name it.

    Args:
        instance: Has the runs.
        run_map: Maps runs to datasets.

    Returns:
        Number of tagged runs.
    """
    tagged = 0
    for run in instance.get_runs(dg.RunsFilter(statuses=_WAITING), limit=_MOST_WAITING):
        names = [] if keys.DATASET_TAG in run.tags else run_map.datasets_written_by(run)
        if len(names) == 1:
            instance.add_run_tags(run.run_id, {keys.DATASET_TAG: names[0]})
            tagged += 1
    return tagged
