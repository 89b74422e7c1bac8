"""Transport between driver and executors: pickled tasks, and results or errors."""

import io
import os
import pickle
import re
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from lance_ops import _extra_spark as _extra_spark

# isort: split
from pyspark import TaskContext
from pyspark.cloudpickle import CloudPickler
from pyspark.errors import PySparkException

from lance_ops.errors import InvalidArgumentError, StorageError, StorageFullError, TaskFailedError
from lance_ops.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS_VARIABLE = "LANCE_OPS_SPARK_ATTEMPTS"
"""Environment variable of Python workers: attempts of a task before its job fails."""

SPARK_ERRORS = (PySparkException, Py4JError)
"""Exceptions of pyspark when a job fails, for both kinds of sessions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a task: a value, or an error."""

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
            f"cannot pickle a task of type {type(task).__name__} for Spark's executors: {error}",
            hint="stores, committers and other values in it must be picklable",
        ) from error
    return buffer.getvalue()


def run_task(function: Callable[[Any], Any], task: bytes, attempts: int | None = None) -> bytes:
    """Run a task on an executor, and pickle its outcome; see `capture`."""
    return capture(lambda: function(pickle.loads(task)), attempts)  # noqa: S301 - pickled by our own driver


def capture(compute: Callable[[], Any], attempts: int | None = None) -> bytes:
    """Run a computation on an executor, and pickle its outcome.

    An error is an outcome, too: Spark would retry the task without success, and return only its text.
    Transient errors of the store are raised instead while Spark has attempts left.

    Args:
        compute: The computation.
        attempts: Spark's attempts of a task, from `task_attempts`; None to read it from the environment of
            the worker, without which transient errors are raised in every attempt.
    """
    try:
        return pickle.dumps(Outcome(value=compute()), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        if _is_transient(error) and not _is_last_attempt(attempts):
            raise
        error.add_note(f"on the executor:\n{''.join(traceback.format_exception(error))}")
        return _dump_error(error)


def task_attempts(conf: Mapping[str, str]) -> int:
    """Return Spark's attempts of a task before its job fails.

    Args:
        conf: Settings of the session, with `spark.master`.
    """
    master = conf.get("spark.master", "")
    if master.startswith("local") and not master.startswith("local-cluster"):
        given = re.fullmatch(r"local\[[^,\]]*,\s*(\d+)\]", master)
        return int(given[1]) if given else 1
    return int(conf.get("spark.task.maxFailures", "4"))


def session_attempts(spark: "SparkSession") -> int:
    """Return the attempts of a task of a session before its job fails."""
    names = ("spark.master", "spark.task.maxFailures")
    found = {name: spark.conf.get(name, None) for name in names}
    return task_attempts({name: value for name, value in found.items() if value is not None})


def _is_transient(error: Exception) -> bool:
    """Return whether another attempt may succeed, perhaps on another executor."""
    if isinstance(error, OSError):
        return not isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError)
    return type(error) is StorageError or isinstance(error, StorageFullError)


def _is_last_attempt(attempts: int | None) -> bool:
    context = TaskContext.get()
    if context is None:
        return True
    if attempts is None:
        text = os.environ.get(ATTEMPTS_VARIABLE, "")
        attempts = int(text) if text.isdigit() else None
    return attempts is not None and context.attemptNumber() + 1 >= attempts


def load_outcome(data: bytes) -> Outcome:
    """Unpickle an outcome on the driver."""
    outcome: Outcome = pickle.loads(data)  # noqa: S301 - pickled by our own task
    return outcome


def refuse_memory_store(store: object) -> None:
    """Check that a dataset is not in the memory of this process, where executors cannot read it.

    Raises:
        InvalidArgumentError: It is.
    """
    if isinstance(store, MemoryStore):
        raise InvalidArgumentError(
            "Spark's executors cannot read a dataset in the memory of this process",
            path=store.uri,
            hint="copy it to files or an object store, or run without Spark",
        )


def spark_reason(error: BaseException) -> str:
    """Return Spark's reason for a failed job, in one line and without its stack traces."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        # The JVM provides it, and may itself have ended.
        with suppress(Py4JError):
            text = str(error.java_exception.getMessage() or error.java_exception.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # The last line of a Python traceback is more specific than its head.
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
    """Pickles functions by value that executors cannot import: those in notebooks, and nested ones."""

    def reducer_override(self, value: object) -> Any:
        refuse_memory_store(value)
        return super().reducer_override(value)
