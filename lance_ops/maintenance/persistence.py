"""Persistence: retries of store calls after transient failures."""

import time
from collections.abc import Callable
from typing import TypeVar

from lance_ops.errors import (
    AlreadyExistsError,
    InconsistentStoreError,
    PermissionDeniedError,
    StorageError,
    StorageFullError,
)

T = TypeVar("T")

ATTEMPTS = 3
_PAUSE = 0.1
# An inconsistent store was asked several times already.
_DEFINITE = (AlreadyExistsError, InconsistentStoreError, PermissionDeniedError, StorageFullError)


def persistently(call: Callable[[], T]) -> T:
    """Return the result of an idempotent call, with up to `ATTEMPTS` attempts while the store fails.

    Raises:
        StorageError: The last one; at once if a retry cannot help.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except StorageError as error:
            if isinstance(error, _DEFINITE) or attempt == ATTEMPTS:
                raise
            pause(attempt)
    raise AssertionError("the last attempt returns or raises")


def pause(attempt: int) -> None:
    """Wait after a failed attempt, numbered from 1."""
    time.sleep(_PAUSE * 3 ** (attempt - 1))
