"""Retries: call again what may work a moment later, after pauses that grow.

Only calls that may run twice are retried: reads, deletions, and writes of the same bytes under the same name.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from lance_ops.errors import (
    AlreadyExistsError,
    InconsistentStoreError,
    PermissionDeniedError,
    StorageError,
    StorageFullError,
)

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

_MOST_STEPS = 16
"""Steps after which a pause grows no more, so that no power overflows."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses before retries: `first * factor ** (n - 1)` seconds before retry `n`, from 1.

    Attributes:
        first: Seconds before the first retry.
        longest: Upper bound of a pause, in seconds.
        factor: Growth from one pause to the next.
        jitter: Share of each pause that is random, from 0 to 1. With 1, the pauses of writers that collided
            are independent of each other.
    """

    first: float = 0.0
    longest: float = 5.0
    factor: float = 2.0
    jitter: float = 0.0

    def pause(self, retry: int) -> float:
        """Return the seconds before a retry.

        Args:
            retry: Its number, from 1.
        """
        limit = min(self.longest, self.first * self.factor ** min(retry - 1, _MOST_STEPS))
        return limit * (1 - self.jitter * random.random())  # noqa: S311 - not a secret

    def wait(self, retry: int) -> None:
        """Sleep before a retry; see `pause`."""
        if self.first:
            time.sleep(self.pause(retry))


AT_ONCE = Backoff()
"""No pause: the next attempt looks at a newer state, or the call waits by itself."""

STORE_ATTEMPTS = 3
STORE_BACKOFF = Backoff(0.1, factor=3)
# An inconsistent store was asked several times already.
_DEFINITE = (AlreadyExistsError, InconsistentStoreError, PermissionDeniedError, StorageFullError)


def retry(
    call: Callable[[], T],
    attempts: int,
    *,
    on: type[E] | tuple[type[E], ...],
    when: Callable[[E], bool] | None = None,
    before: Callable[[E, int], None] | None = None,
    backoff: Backoff = AT_ONCE,
) -> T:
    """Return the result of a call that may run more than once.

    Args:
        call: The call.
        attempts: Upper bound of the number of calls.
        on: Errors after which to call again. Others, interrupts among them, are raised unchanged.
        when: Whether to call again after such an error; by default always.
        before: Receives the error and the number of the retry, from 1, before the pause.
        backoff: Pauses between the calls.

    Raises:
        Exception: The error of the last call.
    """
    for number in count(1):
        try:
            return call()
        except on as error:
            if number >= attempts or (when is not None and not when(error)):
                raise
            if before is not None:
                before(error, number)
        backoff.wait(number)
    raise AssertionError("the last attempt returns or raises")


def persistently(call: Callable[[], T]) -> T:
    """Return the result of a call to a store, retried while the store fails.

    Args:
        call: The call; it may run more than once.

    Raises:
        StorageError: The last one; the first one where a retry cannot help.
    """
    return retry(
        call,
        STORE_ATTEMPTS,
        on=StorageError,
        when=lambda error: not isinstance(error, _DEFINITE),
        backoff=STORE_BACKOFF,
    )
