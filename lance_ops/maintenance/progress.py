"""Progress: how an operation tells what it does. Printing is for the command line and for Dagster."""

from collections.abc import Callable
from dataclasses import dataclass

from lance_ops.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step of an operation.

    Attributes:
        operation: Its name, e.g. "compact".
        done: Steps done of the current phase; tasks as a rule, rows where there are no tasks.
        total: Steps of the phase; None when nobody can know (a stream of unknown length).
        message: The phase and what was just done, e.g. "rewritten fragments 3-9".
    """

    operation: str
    done: int
    total: int | None
    message: str


Progress = Callable[[ProgressEvent], None]
"""Receives every event, in the thread that called the operation. An exception in it ends the operation."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """What operations call, whether or not somebody listens."""

    operation: str
    listener: Progress | None = None

    def __post_init__(self) -> None:
        if self.listener is not None and not callable(self.listener):
            raise InvalidArgumentError("a function that takes events is expected", field="progress")

    def __call__(self, message: str, done: int = 0, total: int | None = None) -> None:
        """Pass on one event."""
        if self.listener is not None:
            self.listener(ProgressEvent(self.operation, done, total, message))
