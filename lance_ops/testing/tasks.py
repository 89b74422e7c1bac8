"""Tasks of the suite for runners: module-level functions that workers import."""

from dataclasses import dataclass
from pathlib import Path

from lance_ops.errors import FileMissingError, PermissionDeniedError, StorageFullError


@dataclass(frozen=True)
class Task:
    """A value, and what becomes of it.

    Attributes:
        value: The result is its square.
        fate: How the task ends; empty when it ends well.
        trace: A file that is made when the task begins.
    """

    value: int
    fate: str = ""
    trace: str = ""


def square(task: Task) -> int:
    """The square of the task's value, or the end that it names."""
    if task.trace:
        Path(task.trace).touch()
    if task.fate == "missing":
        raise FileMissingError("the file is gone", path="data/x.lance")
    if task.fate == "full":
        raise StorageFullError("no space left", path="data/y.lance")
    if task.fate == "denied":
        raise PermissionDeniedError("the store refuses", path="data/z.lance")
    return task.value**2
