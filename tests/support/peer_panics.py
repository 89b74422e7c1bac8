"""The peer's panics as errors that a test can expect."""

from collections.abc import Iterator
from contextlib import contextmanager


class PeerPanicError(Exception):
    """The peer panicked, with this message."""


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn panics, which are none of Exception's, into errors."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise PeerPanicError(str(error)) from error
