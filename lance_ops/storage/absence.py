"""Absence: an object counts as removed only if a read does not find it and a new listing does not have it.

A single "not found" proves nothing: gateways and CDNs keep negative answers for a while, a replica lags
behind, NFS and SMB answer ENOENT once. Every decision based on a removed object uses this module, because
such a decision may delete data that the object protects.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from lance_ops.errors import FileMissingError, InconsistentStoreError, VersionNotFoundError
from lance_ops.storage.store import Store

T = TypeVar("T")

PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.5)
"""Seconds before each further read of an object that a listing names: 3 seconds in all."""


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
    """Return what `read` returns, or None when the object was removed.

    An object that `read` does not find is looked up in a new listing. While the listing has it, `read` is
    called again after each of `PAUSES`.

    Args:
        store: The store.
        path: The object that `read` reads.
        read: Raises `FileMissingError` or `VersionNotFoundError` when it does not find the object.

    Raises:
        InconsistentStoreError: The listing still has the object after the last read.
    """
    for pause in (None, *PAUSES):
        if pause is not None:
            time.sleep(pause)
        try:
            return read()
        except (FileMissingError, VersionNotFoundError):
            if not is_named(store, path):
                return None
    raise InconsistentStoreError(
        f"a listing names this object, and {len(PAUSES) + 1} reads in {sum(PAUSES):g} s did not find it",
        path=f"{store.uri}/{path}",
        hint="nothing that depends on it was deleted; try again, and if the object can never be read, check "
        "the store or gateway, or remove the name by hand",
    )
