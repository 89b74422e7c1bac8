"""Calls with a total time limit, for libraries that limit only single socket operations.

Such a call cannot be ended from outside, so it runs in a thread that is abandoned after the limit. The number
of abandoned calls is bounded: a server that never answers costs some threads, but never the tick of a sensor,
which would lose its cursor.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from lance_ops.errors import AlertNotDeliveredError
from lance_ops.storage.fork_safe import new_lock

SECONDS = 10.0
"""Default time limit of an alert: three in a row fit in a tick."""

_MOST_HANGING = 3

T = TypeVar("T")


class OutOfTimeError(AlertNotDeliveredError):
    """A call exceeded its time limit; it may still have succeeded."""


class InTime:
    """Runs calls with a time limit.

    Args:
        what: Name of the receiver, for messages.
        seconds: Time limit of each call.
    """

    def __init__(self, what: str, seconds: float = SECONDS) -> None:
        self._what = what
        self._seconds = seconds
        self._hanging: list[threading.Thread] = []
        self._lock = new_lock()

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Return the result of a call, or fail after the time limit.

        Args:
            work: The call.
            seconds: Time limit of this call.

        Raises:
            OutOfTimeError: The call exceeded the limit, and may still have succeeded.
            AlertNotDeliveredError: Too many earlier calls still hang; nothing was done.
            Exception: Any exception of the call.
        """
        limit = self._seconds if seconds is None else seconds
        with self._lock:
            self._hanging = [thread for thread in self._hanging if thread.is_alive()]
            if len(self._hanging) >= _MOST_HANGING:
                raise AlertNotDeliveredError(
                    f"{self._what} has not answered {len(self._hanging)} earlier alerts"
                )
        returned: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                returned.append(work())
            except BaseException as error:  # noqa: BLE001 - raised again by the caller
                raised.append(error)

        thread = threading.Thread(target=run, name=f"lance-ops-alert-{self._what}", daemon=True)
        thread.start()
        thread.join(limit)
        if raised:
            raise raised[0]
        if not returned:
            with self._lock:
                self._hanging.append(thread)
            raise OutOfTimeError(
                f"{self._what} did not answer within {limit:g} s, so the alert may have arrived"
            )
        return returned[0]
