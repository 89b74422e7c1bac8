"""Operations of steps, done by a program that is submitted: its progress and its outcome as if done here."""

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
    """Have an operation done by a program on a cluster.

    Args:
        client: Submits it.
        context: Of the step.
        request: What is asked for.
        options: Of the dataset's store.
        progress: Is told how far the program is.

    Returns:
        Its result, its values by name, or its plan in words.

    Raises:
        LanceOpsError: What the program met.
        SparkStartError: It did not begin.
        ProgramLostError: It ended without an answer.
    """
    outcomes: list[Mapping[str, Any]] = []

    def hear(message: Any) -> None:
        if answer.is_outcome(message):
            outcomes.append(message)
        elif isinstance(message, dict) and message.get(answer.KIND) == answer.PROGRESS:
            # That of another release may have other words: then it is not told.
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
        raise ProgramLostError("the program ended without an answer")
    try:
        return answer.unpack_outcome(outcomes[-1])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, LanceOpsError):
            raise
        raise ProgramLostError(
            f"this release does not understand the program's answer: {type(error).__name__}: {error}",
            hint="install the same release of lance-ops with the scheduler and on the cluster",
        ) from error
