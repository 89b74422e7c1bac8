"""Fleet run of a step by a submitted program, with a retry after the driver was lost."""

from typing import Any

import dagster as dg

from lance_ops.dagster.jobs.failures import TRANSIENT_RETRIES
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.submit.operation import submit_operation
from lance_ops.errors import ProgramLostError, SparkStartError
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.run.operation import RunOptions
from lance_ops.fleet.run.submitted import OPERATION, run_arguments
from lance_ops.maintenance.progress import Progress
from lance_ops.spark.submitted.request import Request
from lance_ops.storage.lease import LEASE

AFTER_A_LOSS = LEASE.total_seconds() + 5.0
"""Seconds after which the leases of a lost driver have expired."""


def submitted_run(
    context: dg.OpExecutionContext,
    store: LanceStoreResource,
    policy: FleetPolicy,
    options: RunOptions,
    progress: Progress,
) -> dict[str, Any]:
    """Maintain some datasets of a fleet by a submitted program.

    Args:
        context: Context of the step.
        store: Submits programs.
        policy: Of the fleet.
        options: Of the run.
        progress: Receives progress events.

    Returns:
        The answer of the run, see `answer_of`. A retried run reports its own work only; earlier work is in
        the ledger.

    Raises:
        LanceOpsError: Error of the program.
        RetryRequested: It was lost, or did not start.
    """
    place = policy.source or policy.stores[0].root
    request = Request(OPERATION, place, run_arguments(policy, options), None)
    try:
        told = submit_operation(store.submit_client(), context, request, {}, progress)
    except (ProgramLostError, SparkStartError) as error:
        _try_again(context, error)
        raise
    if not isinstance(told, dict):
        raise ProgramLostError(
            f"the program returned a {type(told).__name__} instead of a mapping", path=place
        )
    return told


def _try_again(context: dg.OpExecutionContext, error: Exception) -> None:
    number = context.retry_number
    if number < TRANSIENT_RETRIES.max_retries:
        lost = isinstance(error, ProgramLostError)
        pause = AFTER_A_LOSS if lost else TRANSIENT_RETRIES.calculate_delay(number + 1)
        raise dg.RetryRequested(TRANSIENT_RETRIES.max_retries, pause) from error
