"""Process group that never outlives the step that started it.

A terminated run asks the group to end, so that a driver removes uncommitted files, and kills the rest after a
while. A step that dies itself takes its driver along, which waits for a lock held by the step.
"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lance_ops.errors import SparkStartError

_POLL_SECONDS = 0.5


class ProcessGroup:
    """A program with all its child processes; none of them outlives this context.

    Args:
        command: Its command line.
        environment: Its complete environment.
        tail: Receives the last lines of its standard error, which goes to that of this process as well.
        patience: Seconds that it has to end after it is asked to.

    Raises:
        SparkStartError: The program does not exist (on entry).
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], tail: deque[str], patience: float
    ) -> None:
        self._command, self._environment, self._tail, self._patience = command, environment, tail, patience

    def __enter__(self) -> Self:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command that the config names
                self._command,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise SparkStartError(f"cannot run {self._command[0]}: {error}") from error
        self._reader = threading.Thread(target=self._read, name="lance-ops-submit", daemon=True)
        self._reader.start()
        return self

    def wait(self, seconds: float) -> int | None:
        """Return its exit code; None if it still runs."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                sys.stderr.write(line)
                self._tail.append(line)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is not None or self.wait(0) is None:
                # Terminated: the driver gets the signal as well, and removes uncommitted files.
                self._signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(self._patience)
            self._wait_for_driver(self._patience if kind is not None else 0.0)
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._reader.join(self._patience)

    def _wait_for_driver(self, seconds: float) -> None:
        """Wait until no process of the group is left: the driver may still clean up after Java has ended."""
        ended = threading.Event()
        for _ in range(int(seconds / _POLL_SECONDS)):
            if not self._is_there():
                return
            ended.wait(_POLL_SECONDS)

    def _is_there(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock on which a driver on this machine waits for the end of this process."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # A process forked meanwhile has the file open, too, and would keep the lock.
            fcntl.flock(file, fcntl.LOCK_UN)
