"""SIGTERM on the command line: a command removes what it has not committed, then ends with exit code 143."""

import contextlib
import signal
import threading
from collections.abc import Iterator

EXIT_CODE = 128 + signal.SIGTERM


@contextlib.contextmanager
def ends_in_order() -> Iterator[None]:
    """Let SIGTERM end a command as SIGINT does; schedulers send it.

    A SIGTERM that is ignored, or handled by the program that calls the command, is left alone.
    """
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(*_: object) -> None:
    # Once: the removal of what is not committed is not interrupted.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(EXIT_CODE)
