"""Calls that end in time, through libraries that set no end to a whole conversation with a server.

Nobody can end such a call from outside, so it gets a thread, and is left behind when its time is over. As
few may hang at once as are told here: a server that never answers costs some threads, and never the tick of a
sensor, which loses its cursor when it takes too long.
"""

import threading
from collections.abc import Callable

from lance_ops.errors import AlertNotDeliveredError
from lance_ops.storage.fork_safe import new_lock

SECONDS = 10.0
"""How long an alert may take by default: three in a row fit in a tick."""

_MOST_HANGING = 3


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

    def call(self, work: Callable[[], object]) -> None:
        """Do something, and give up on it after some seconds.

        Raises:
            AlertNotDeliveredError: It took too long, and may have arrived for all that; or too many calls
                before it hang, and nothing was done.
            Exception: What it raised itself.
        """
        with self._lock:
            self._hanging = [thread for thread in self._hanging if thread.is_alive()]
            if len(self._hanging) >= _MOST_HANGING:
                raise AlertNotDeliveredError(
                    f"{self._what} has not answered {len(self._hanging)} alerts before this one"
                )
        raised: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again by the caller
                raised.append(error)

        thread = threading.Thread(target=run, name=f"lance-ops-alert-{self._what}", daemon=True)
        thread.start()
        thread.join(self._seconds)
        if thread.is_alive():
            with self._lock:
                self._hanging.append(thread)
            raise AlertNotDeliveredError(
                f"{self._what} did not answer within {self._seconds:g} s, so the alert may have arrived"
            )
        if raised:
            raise raised[0]
