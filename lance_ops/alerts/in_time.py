"""Calls that end in time, through libraries that set no end to a whole conversation with a server.

Nobody can end such a call from outside, so it gets a thread, and is left behind when its time is over. As
few may hang at once as are told here: a server that never answers costs some threads, and never the tick of a
sensor, which loses its cursor when it takes too long.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from lance_ops.errors import AlertNotDeliveredError
from lance_ops.storage.fork_safe import new_lock

SECONDS = 10.0
"""How long an alert may take by default: three in a row fit in a tick."""

_MOST_HANGING = 3

T = TypeVar("T")


class OutOfTimeError(AlertNotDeliveredError):
    """A call took too long; it may have done its work for all that."""


class InTime:
    """Makes calls that end in time.

    Args:
        what: Who is called, for messages.
        seconds: For each call.
    """

    def __init__(self, what: str, seconds: float = SECONDS) -> None:
        self._what = what
        self._seconds = seconds
        self._hanging: list[threading.Thread] = []
        self._lock = new_lock()

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Return what a call returns, and give up on it after some seconds.

        Args:
            work: The call.
            seconds: For this call, in place of those of all.

        Raises:
            OutOfTimeError: It took too long, and may have arrived for all that.
            AlertNotDeliveredError: Too many calls before it hang, and nothing was done.
            Exception: What it raised itself.
        """
        limit = self._seconds if seconds is None else seconds
        with self._lock:
            self._hanging = [thread for thread in self._hanging if thread.is_alive()]
            if len(self._hanging) >= _MOST_HANGING:
                raise AlertNotDeliveredError(
                    f"{self._what} has not answered {len(self._hanging)} alerts before this one"
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
