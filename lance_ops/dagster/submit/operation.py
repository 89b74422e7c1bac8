"""Operations of steps in a submitted program, with progress and result as if run locally."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lance_ops.dagster.submit.client import Context, SparkSubmitClient
from lance_ops.errors import LanceOpsError, ProgramLostError
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import OperationResult
from lance_ops.spark.submitted import answer
from lance_ops.spark.submitted.request import (
    REQUEST,
    STORAGE_OPTIONS,
    Options,
    Request,
    pack_options,
    program_file,
)


def submit_operation(
    client: SparkSubmitClient, context: Context, request: Request, options: Options, progress: Progress
) -> OperationResult | str | dict[str, Any]:
    """Run an operation in a program on a cluster.

    Args:
        client: Submits it.
        context: Context of the step.
        request: The operation with its arguments.
        options: Options of the dataset's store.
        progress: Receives progress events.

    Returns:
        Its result, its values by name, or its plan as text.

    Raises:
        LanceOpsError: Error of the program.
        SparkStartError: It did not start.
        ProgramLostError: It ended without a result.
    """
    outcomes: list[Mapping[str, Any]] = []

    def hear(message: Any) -> None:
        if answer.is_outcome(message):
            outcomes.append(message)
        elif isinstance(message, dict) and message.get(answer.KIND) == answer.PROGRESS:
            # A message of another release may be unknown: then it is dropped.
            event = None
            with suppress(KeyError, TypeError):
                event = answer.unpack_progress(message)
            if event is not None:
                progress(event)

    client.run(
        context=context,
        application=str(program_file()),
        extras={REQUEST: request.to_dict(), STORAGE_OPTIONS: pack_options(options)},
        on_message=hear,
    )
    if not outcomes:
        raise ProgramLostError("the program ended without a result")
    try:
        return answer.unpack_outcome(outcomes[-1])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, LanceOpsError):
            raise
        raise ProgramLostError(
            f"this release cannot read the program's result: {type(error).__name__}: {error}",
            hint="install the same release of lance-ops with the scheduler and on the cluster",
        ) from error
