"""Deadline: the end of a conversation with a server that takes too long as a whole.

The time-out of a socket is for each pause alone: a server that sends a byte now and then is waited for
without end. Here the connection is shut down, below TLS, and whoever waits at it gets an error at once.
"""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from lance_ops.storage.fork_safe import new_lock


class Deadline:
    """Shuts connections down after some seconds; a context manager.

    Args:
        seconds: From the beginning of the context on.

    Attributes:
        passed: It did.
    """

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._connections: list[socket.socket] = []
        self._lock = new_lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def watch(self, connection: socket.socket) -> None:
        """Shut a connection down when the time is over."""
        with self._lock:
            # Another handle of it: TLS takes the first one away.
            self._connections.append(connection.dup())
            if self.passed:
                self._shut()

    def _end(self) -> None:
        with self._lock:
            self.passed = True
            self._shut()

    def _shut(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
