"""Turns: one run at a time works on a dataset, even if it was launched from a page, without our tag.

`dagster.yaml` limits runs by the tag `lance_ops/dataset`. Dagster gives no tag to the runs of an asset
backfill, so the manifest sensor tags those in the queue, and a step tags its own run.
"""

import time
from collections.abc import Callable
from datetime import timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.jobs.run_report import Context

_LONGEST = timedelta(minutes=15)
"""A run that is still running then may be dead; two concurrent runs are slower, but harmless."""
_PAUSE = 5.0


def take_turn(
    context: Context,
    dataset: str,
    *,
    longest: timedelta = _LONGEST,
    pause: float = _PAUSE,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Tag the run of a step with its dataset, and wait for earlier runs on the same dataset.

    A run that had the tag when it was launched has waited in the queue.

    Args:
        context: Context of the step.
        dataset: Name of the dataset.
        longest: After this time the step continues anyway.
        pause: Seconds between polls.
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
    context.log.warning("run %s still works on %s: continuing concurrently", told, dataset)


def _run_ahead(instance: dg.DagsterInstance, run_id: str, dataset: str) -> str | None:
    """Return the run that began first of those on a dataset; None if it is our own."""
    working = dg.RunsFilter(tags={keys.DATASET_TAG: dataset}, statuses=[dg.DagsterRunStatus.STARTED])
    began = {
        record.dagster_run.run_id: (record.start_time or record.create_timestamp.timestamp())
        for record in instance.get_run_records(working)
    }
    if run_id not in began:
        return None
    first = min(began, key=lambda run: (began[run], run))
    return None if first == run_id else first
