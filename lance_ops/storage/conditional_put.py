"""Check whether a server supports put-if-absent, before anything depends on it.

Some servers and gateways accept the condition (`If-None-Match: *`) and overwrite anyway. Two writers that
commit the same version then both succeed, and the rows of one are lost.
"""

import contextlib
import os
import threading
import uuid
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeGuard, cast

from lance_ops.errors import AlreadyExistsError, UnsupportedError
from lance_ops.storage.paths import TEMPORARY_PREFIX
from lance_ops.storage.retry import discard
from lance_ops.storage.store import Store

_PROVEN: set[Hashable] = set()
_LOCKS: dict[Hashable, threading.Lock] = {}
_GUARD = threading.Lock()


class TrustsServer(Store, Protocol):
    """Store whose put-if-absent is decided by a server, which may not support it."""

    @property
    def server(self) -> Hashable:
        """Key of the server check: equal for stores of one bucket at one endpoint."""


def trusts_server(store: Store) -> TypeGuard[TrustsServer]:
    """Return whether a store is a `TrustsServer`; `isinstance` takes too long for every commit."""
    return hasattr(store, "server")


class DecidedElsewhere(Store, Protocol):
    """Store of a dataset whose manifests an external manifest store decides about."""

    def require_create_only(self) -> None:
        """Make sure that racing writers cannot replace each other's versions; asked once in a process.

        Raises:
            UnsupportedError: The external manifest store replaces what another writer has put.
            StorageError: It could not be asked.
        """


def decided_elsewhere(store: Store) -> DecidedElsewhere | None:
    """Return the `DecidedElsewhere` that a store is, or is around; None without one."""
    found: Any = store
    while found is not None and not hasattr(found, "require_create_only"):
        found = getattr(found, "inner", None) or getattr(found, "_inner", None)
    return cast("DecidedElsewhere | None", found)


def require_put_if_absent(store: Store, folder: str) -> None:
    """Make sure that racing writers cannot replace each other's objects.

    Asks the server once in the life of the process, with three small requests: an object is put twice if it
    is absent, which has to fail the second time, and deleted. Stores that decide by themselves, such as local
    files, are not asked.

    Args:
        store: Root of a dataset that is about to be written.
        folder: Where the writer may write, and where a cleanup removes what a process that died has left.

    Raises:
        UnsupportedError: The server ignores or does not know the condition.
        StorageError: The server could not be asked.
    """
    if trusts_server(store):
        path = f"{folder}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        prove_once(store.server, lambda: _ask(store, path))


def prove_once(server: Hashable, ask: Callable[[], None]) -> None:
    """Ask a server once in the life of the process.

    Args:
        server: Key of the server.
        ask: Raises unless it passes.
    """
    with _GUARD:
        lock = _LOCKS.setdefault(server, threading.Lock())
    # Concurrent threads wait for one answer.
    with lock:
        if server not in _PROVEN:
            ask()
            _PROVEN.add(server)


def _ask(store: Store, path: str) -> None:
    try:
        with contextlib.suppress(AlreadyExistsError):
            # The name is new. If it is taken, the answer to the first attempt was lost and a second met it.
            store.put(path, b"1", if_absent=True)
        try:
            store.put(path, b"2", if_absent=True)
        except AlreadyExistsError:
            return
        raise UnsupportedError(
            "the server ignores put-if-absent (the header If-None-Match): writers could replace each other's "
            "versions without any error",
            path=store.uri,
            hint="use a server, or a gateway before it, that honours conditional writes; or let every writer "
            'commit with a LockCommitter, and set aws_conditional_put to "disabled"',
        )
    finally:
        # A writer without permission to delete leaves a few bytes, which readers ignore and a cleanup
        # removes.
        discard(store, path)


def _unlock() -> None:
    # Threads that held a lock do not exist in the child.
    global _GUARD
    _GUARD = threading.Lock()
    _LOCKS.clear()


os.register_at_fork(after_in_child=_unlock)
