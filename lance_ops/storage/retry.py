"""Retries: a store that fails is called again, one that does not find an object is asked again.

Only calls that may run twice are retried: reads, deletions, and writes of the same bytes under the same name.

A single "not found" proves nothing: gateways and CDNs keep negative answers for a while, a replica lags
behind, NFS and SMB answer ENOENT once. An object is gone only when a read does not find it and a fresh
listing does not name it. Every decision that takes a missing object for a removed one asks here, because such
a decision ends in deleting what the object protects.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from lance_ops.errors import (
    AlreadyExistsError,
    FileMissingError,
    InconsistentStoreError,
    LanceOpsError,
    PermissionDeniedError,
    StorageError,
    StorageFullError,
    VersionNotFoundError,
)
from lance_ops.storage.store import Store

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

STORE_PAUSES = (0.1, 0.3)
"""Seconds before each further call of a store that fails."""

PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.5)
"""Seconds before each further read of an object that a listing names: 3 seconds in all."""

PATIENCE = 3.0
"""Seconds after which a server that has not answered is left to itself; its client tries for a minute."""

# An inconsistent store was asked several times already.
_DEFINITE = (AlreadyExistsError, InconsistentStoreError, PermissionDeniedError, StorageFullError)
_MISSING = (FileMissingError, VersionNotFoundError)
_DELETIONS = (0.0, 0.0)
_MOST_STEPS = 16


@dataclass(frozen=True, slots=True)
class Backoff:
    """Random pauses that double: up to `first * 2 ** (n - 1)` seconds before retry `n`, from 1.

    The pauses of writers that collided are independent of each other, so that they spread out.

    Attributes:
        first: Upper bound of the first pause, in seconds.
        longest: Upper bound of all pauses, in seconds.
        least: Lower bound, as a share of the upper one.
    """

    first: float
    longest: float
    least: float = 0.0

    def pause(self, retry: int) -> float:
        """Return the seconds before a retry.

        Args:
            retry: Its number, from 1.
        """
        limit = min(self.longest, self.first * 2 ** min(retry - 1, _MOST_STEPS))
        return random.uniform(self.least * limit, limit)  # noqa: S311 - not a secret


def retry(
    call: Callable[[], T],
    pauses: Iterable[float],
    *,
    on: type[E] | tuple[type[E], ...],
    when: Callable[[E], bool] | None = None,
    before: Callable[[E, int], None] | None = None,
) -> T:
    """Return the result of a call that may run more than once.

    Args:
        call: The call.
        pauses: Seconds before each further call; as many as there are, so often it is called again.
        on: Errors after which to call again. Others, interrupts among them, are raised unchanged.
        when: Whether to call again after such an error; by default always.
        before: Receives the error and the number of the retry, from 1, before the pause.

    Raises:
        Exception: The error of the last call.
    """
    for number, pause in enumerate(pauses, 1):
        try:
            return call()
        except on as error:
            if when is not None and not when(error):
                raise
            if before is not None:
                before(error, number)
        if pause:
            time.sleep(pause)
    return call()


def persistently(call: Callable[[], T]) -> T:
    """Return the result of a call to a store, retried while the store fails.

    Args:
        call: The call; it may run more than once.

    Raises:
        StorageError: The last one; the first one where a retry cannot help.
    """
    return retry(call, STORE_PAUSES, on=StorageError, when=lambda error: not isinstance(error, _DEFINITE))


def is_named(store: Store, path: str) -> bool:
    """Return whether a fresh listing names an object.

    Args:
        store: The store.
        path: The object.
    """
    folder = path.rpartition("/")[0]
    # The name without its last character sorts before it, with few names in between.
    for info in store.list(folder, start_after=path[:-1]):
        if info.path >= path:
            return info.path == path
    return False


def is_there(store: Store, path: str) -> bool:
    """Return whether an object is found, or a fresh listing names it."""
    return store.exists(path) or is_named(store, path)


def unless_gone(store: Store, path: str, read: Callable[[], T]) -> T | None:
    """Return what `read` returns, or None when the object is gone.

    An object that `read` does not find is looked up in a fresh listing. While the listing names it, `read` is
    called again after each of `PAUSES`.

    Args:
        store: The store.
        path: The object that `read` reads.
        read: Raises `FileMissingError` or `VersionNotFoundError` when it does not find the object.

    Raises:
        InconsistentStoreError: The listing still names the object after the last read.
    """

    def look() -> T | None:
        try:
            return read()
        except _MISSING:
            if is_named(store, path):
                raise
            return None

    try:
        return retry(look, PAUSES, on=_MISSING)
    except _MISSING:
        raise InconsistentStoreError(
            f"a listing names this object, and {len(PAUSES) + 1} reads in {sum(PAUSES):g} s did not find it",
            path=f"{store.uri}/{path}",
            hint="nothing that depends on it was deleted; try again, and if the object can never be read, "
            "check the store or gateway, or remove the name by hand",
        ) from None


def discard(store: Store, path: str) -> None:
    """Delete an object whose removal nothing depends on, without waiting long for a store that fails.

    What stays is ignored, and a cleanup removes it.

    Args:
        store: The store.
        path: The object.
    """

    def delete() -> None:
        with contextlib.suppress(LanceOpsError):
            retry(lambda: store.delete(path), _DELETIONS, on=LanceOpsError)

    if not hasattr(store, "server"):
        # A store of this machine answers at once.
        delete()
        return
    thread = threading.Thread(target=delete, name="lance-discard", daemon=True)
    thread.start()
    thread.join(PATIENCE)
