"""Tasks of the test suite for runners: module-level functions that workers import."""

from dataclasses import dataclass
from pathlib import Path

from lance_ops.errors import FileMissingError, PermissionDeniedError, StorageFullError


@dataclass(frozen=True)
class Task:
    """A value, and the result of its task.

    Attributes:
        value: The result is its square.
        fate: How the task ends; empty for success.
        trace: A file created when the task starts.
    """

    value: int
    fate: str = ""
    trace: str = ""


def square(task: Task) -> int:
    """Return the square of the task's value, or end as the task says."""
    if task.trace:
        Path(task.trace).touch()
    if task.fate == "missing":
        raise FileMissingError("the file is gone", path="data/x.lance")
    if task.fate == "full":
        raise StorageFullError("no space left", path="data/y.lance")
    if task.fate == "denied":
        raise PermissionDeniedError("the store refuses", path="data/z.lance")
    return task.value**2
