"""Turns: one run at a time works on a dataset, also when it was launched from a page, without our tag.

`dagster.yaml` limits runs by the tag `lance_ops/dataset`. Dagster gives no tag to runs that a backfill of an
asset launches, so the manifest sensor tags those that wait in the queue, and a step tags its own run.
"""

import time
from collections.abc import Callable
from datetime import timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.jobs.run_report import Context

_LONGEST = timedelta(minutes=15)
"""A run that is still there then may be dead; two at once are slower, and no harm."""
_PAUSE = 5.0


def take_turn(
    context: Context,
    dataset: str,
    *,
    longest: timedelta = _LONGEST,
    pause: float = _PAUSE,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Tag the run of a step with its dataset, and wait for runs that began before on the same dataset.

    A run that had the tag when it was launched has waited in the queue.

    Args:
        context: Of the step.
        dataset: Name of the dataset.
        longest: Then the step goes on all the same.
        pause: Seconds between looks.
        sleep: Replaces `time.sleep` in tests.
    """
    if keys.DATASET_TAG in context.run.tags:
        return
    context.instance.add_run_tags(context.run.run_id, {keys.DATASET_TAG: dataset})
    told: str | None = None
    for _ in range(int(longest.total_seconds() / pause)):
        ahead = _run_ahead(context.instance, context.run.run_id, dataset)
        if ahead is None:
            return
        if ahead != told:
            context.log.info("run %s works on %s: waiting for its end", ahead, dataset)
        told = ahead
        sleep(pause)
    context.log.warning("run %s is still at work on %s: going on beside it", told, dataset)


def _run_ahead(instance: dg.DagsterInstance, run_id: str, dataset: str) -> str | None:
    """Return the run that began first of those on a dataset; None when it is our own."""
    working = dg.RunsFilter(tags={keys.DATASET_TAG: dataset}, statuses=[dg.DagsterRunStatus.STARTED])
    began = {
        record.dagster_run.run_id: (record.start_time or record.create_timestamp.timestamp())
        for record in instance.get_run_records(working)
    }
    if run_id not in began:
        return None
    first = min(began, key=lambda run: (began[run], run))
    return None if first == run_id else first
