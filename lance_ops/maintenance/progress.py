"""Progress events of operations. Only the command line and Dagster print them."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from lance_ops.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step of an operation.

    Attributes:
        operation: Its name, e.g. "compact".
        done: Finished steps of the current phase; usually tasks, or rows without tasks.
        total: Steps of the phase; None if unknown (a stream).
        message: The phase and the finished step, e.g. "rewritten fragments 3-9".
        bytes_done: Processed bytes of its input; None if not counted.
        bytes_total: Bytes of all of its input.
        seconds_left: Estimated duration of the rest of the phase; None if unknown.
        unit: Of `done` and `total`, in the plural, e.g. "rows"; empty for tasks.
    """

    operation: str
    done: int
    total: int | None
    message: str
    bytes_done: int | None = None
    bytes_total: int | None = None
    seconds_left: float | None = None
    unit: str = ""


Progress = Callable[[ProgressEvent], None]
"""Receives every event, in the thread that called the operation. An exception in it ends the operation."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reporter of progress events for operations, with or without a listener."""

    operation: str
    listener: Progress | None = None

    def __post_init__(self) -> None:
        if self.listener is not None and not callable(self.listener):
            raise InvalidArgumentError("expected a function of events", field="progress")

    def __call__(
        self,
        message: str,
        done: int = 0,
        total: int | None = None,
        *,
        bytes_done: int | None = None,
        bytes_total: int | None = None,
        seconds_left: float | None = None,
        unit: str = "",
    ) -> None:
        """Pass on one event."""
        if self.listener is not None:
            event = ProgressEvent(
                self.operation, done, total, message, bytes_done, bytes_total, seconds_left, unit
            )
            self.listener(event)


@dataclass(slots=True)
class ByteProgress:
    """Progress of tasks of different sizes.

    Attributes:
        report: Receives the events.
        message: Of them.
        total: Number of tasks.
        bytes_total: Of their input.
        clock: Replaces `time.monotonic` in tests.
    """

    report: Reporter
    message: str
    total: int
    bytes_total: int
    clock: Callable[[], float] = time.monotonic
    _done: int = 0
    _bytes: int = 0
    _started: float = 0.0
    _taken: int = 0

    def start(self, done: int = 0, done_bytes: int = 0) -> None:
        """Begin, with what was done earlier and says nothing about the pace."""
        self._done, self._bytes, self._taken = done, done_bytes, done_bytes
        self._started = self.clock()
        self._say()

    def add(self, size: int) -> None:
        """Note a task that is done; `size` is that of its input in bytes."""
        self._done += 1
        self._bytes += size
        self._say()

    def _say(self) -> None:
        new = self._bytes - self._taken
        left = self.bytes_total - self._bytes
        seconds = (self.clock() - self._started) * left / new if new > 0 else None
        self.report(
            self.message,
            self._done,
            self.total,
            bytes_done=self._bytes,
            bytes_total=self.bytes_total,
            seconds_left=seconds,
        )
