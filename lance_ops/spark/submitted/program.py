"""Program run by `spark-submit`: reads a request by Dagster Pipes, runs it, and answers by Pipes.

It plans and commits in the driver, and its tasks run on the executors. It needs `dagster-pipes`, which has no
dependencies, and not Dagster.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lance_ops import _extra_spark as _extra_spark
from lance_ops.extras import load_extra
from lance_ops.maintenance.progress import ProgressEvent
from lance_ops.spark.submitted.answer import pack_error, pack_outcome, pack_progress
from lance_ops.spark.submitted.ingest import INGEST, ingest
from lance_ops.spark.submitted.operations import operate
from lance_ops.spark.submitted.request import (
    CONTEXT_FILE,
    PROPERTIES,
    REQUEST,
    STORAGE_OPTIONS,
    WATCH,
    Request,
    unpack_options,
)

if TYPE_CHECKING:
    from dagster_pipes import PipesContext
    from pyspark.sql import SparkSession


def main() -> None:
    """Run the request of the scheduler; exit code 1 on failure, with the error in the answer."""
    with open_pipes() as pipes:
        failed = _work(pipes)
    sys.exit(1 if failed else 0)


@contextmanager
def open_pipes() -> "Iterator[PipesContext]":
    """Connect to the scheduler that submitted this program; a request to end is an interrupt."""
    library = load_extra("dagster_pipes")
    by_arguments = library.DAGSTER_PIPES_CONTEXT_CLI_ARGUMENT in sys.argv
    kind = library.PipesCliArgsParamsLoader if by_arguments else library.PipesEnvVarParamsLoader
    signal.signal(signal.SIGTERM, _interrupt)
    with library.open_dagster_pipes(params_loader=kind()) as pipes:
        watched = pipes.extras.get(WATCH)
        if watched is not None:
            end_with(watched)
        yield pipes


def driver_session() -> "SparkSession":
    """Return the session of a submitted program, with the settings of its submission."""
    from pyspark.sql import SparkSession

    from lance_ops.spark.datasource import register
    from lance_ops.spark.session import REQUIRED_SQL_SETTINGS

    session = SparkSession.builder.getOrCreate()
    for key, value in REQUIRED_SQL_SETTINGS.items():
        session.conf.set(key, value)
    register(session)
    return session


def _work(pipes: "PipesContext") -> bool:
    """Run and answer; returns whether it failed."""
    from lance_ops.spark.runner import SparkRunner

    def tell(event: ProgressEvent) -> None:
        pipes.report_custom_message(pack_progress(event))

    try:
        request = Request.from_dict(pipes.get_extra(REQUEST))
        options = unpack_options(pipes.get_extra(STORAGE_OPTIONS))
        session = driver_session()
        common: dict[str, Any] = {
            "runner": SparkRunner(session),
            "progress": tell,
            "storage_options": options,
        }
        if request.operation == INGEST:
            outcome: object = ingest(request, session, **common)
        else:
            outcome = operate(request, **common)
    except Exception as error:  # noqa: BLE001 - the scheduler says what comes of it
        pipes.report_custom_message(pack_error(error))
        return True
    pipes.report_custom_message(pack_outcome(outcome))
    return False


def _interrupt(*_: object) -> None:
    # Only once: the removal of uncommitted files is not interrupted.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def end_with(path: str) -> None:
    """End this program when the holder of a file lock ends: no process waits for its answer any more.

    This also removes the files with secrets beside it, which would otherwise remain.
    """
    import fcntl

    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        # The parent process ignored the signal, and the program inherits this.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def watch() -> None:
        with open(path, "rb") as file:  # noqa: PTH123 - its descriptor is wanted
            fcntl.flock(file, fcntl.LOCK_SH)
        for name in (CONTEXT_FILE, PROPERTIES):
            Path(path).with_name(name).unlink(missing_ok=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="lance-ops-watch", daemon=True).start()


if __name__ == "__main__":
    main()
