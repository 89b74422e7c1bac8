"""What travels between the driver and the executors: pickled tasks one way, results or errors the other."""

import io
import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.cloudpickle import CloudPickler
from pyspark.errors import PySparkException

from lance_ops.errors import InvalidArgumentError, TaskFailedError
from lance_ops.storage.memory import MemoryStore

SPARK_ERRORS = (PySparkException, Py4JError)
"""What pyspark raises when a job fails, whichever way it talks to the JVM."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended: with a value, or with an error."""

    value: Any = None
    error: Exception | None = None


def dump_task(task: object) -> bytes:
    """Pickle a task.

    Raises:
        InvalidArgumentError: It cannot be pickled, or it refers to a dataset in the memory of this process.
    """
    buffer = io.BytesIO()
    try:
        _TaskPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(task)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"a task of type {type(task).__name__} cannot travel to Spark's executors: {error}",
            hint="stores, committers and other values in it have to be picklable",
        ) from error
    return buffer.getvalue()


def run_task(function: Callable[[Any], Any], task: bytes) -> bytes:
    """Run a task on an executor, and pickle its outcome.

    An error is an outcome too: Spark would try the task again in vain, and hand over no more than its text.
    """
    return capture(lambda: function(pickle.loads(task)))  # noqa: S301 - pickled by our own driver


def capture(compute: Callable[[], Any]) -> bytes:
    """Run a computation on an executor, and pickle its outcome."""
    try:
        return pickle.dumps(Outcome(value=compute()), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - travels to the driver and is raised there
        error.add_note(f"on the executor:\n{''.join(traceback.format_exception(error))}")
        return _dump_error(error)


def load_outcome(data: bytes) -> Outcome:
    """Unpickle an outcome on the driver."""
    outcome: Outcome = pickle.loads(data)  # noqa: S301 - pickled by our own task
    return outcome


def refuse_memory_store(store: object) -> None:
    """Refuse a dataset in the memory of this process, which executors cannot see.

    Raises:
        InvalidArgumentError: It is one.
    """
    if isinstance(store, MemoryStore):
        raise InvalidArgumentError(
            "a dataset in the memory of this process is out of reach of Spark's executors",
            path=store.uri,
            hint="put it into files or an object store, or work without Spark",
        )


def spark_reason(error: BaseException) -> str:
    """Why Spark says that a job failed, in one line and without its stack traces."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        # The JVM is asked for it, which may be what has died.
        with suppress(Py4JError):
            text = str(error.java_exception.getMessage() or error.java_exception.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # The last line of a Python traceback says more than its head.
    last = next((line for line in reversed(lines) if _looks_like_error(line)), "")
    return f"{lines[0]} ({last})" if lines[0].endswith(":") and last else lines[0]


def _looks_like_error(line: str) -> bool:
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.replace(".", "").isidentifier() and name.endswith(("Error", "Exception"))


def _dump_error(error: Exception) -> bytes:
    try:
        data = pickle.dumps(Outcome(error=error), pickle.HIGHEST_PROTOCOL)
        load_outcome(data)
    except Exception:  # noqa: BLE001 - whatever a foreign exception does when it is pickled
        substitute = TaskFailedError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            substitute.add_note(note)
        data = pickle.dumps(Outcome(error=substitute), pickle.HIGHEST_PROTOCOL)
    return data


class _TaskPickler(CloudPickler):  # type: ignore[misc]
    """Takes functions along that executors cannot import: of notebooks, and those inside of others."""

    def reducer_override(self, value: object) -> Any:
        refuse_memory_store(value)
        return super().reducer_override(value)
