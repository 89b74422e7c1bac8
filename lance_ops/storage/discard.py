"""Discard: delete an object that is of no further use, without waiting long for a store that fails."""

import threading

from lance_ops.errors import LanceOpsError
from lance_ops.storage.store import Store

PATIENCE = 3.0
"""Seconds after which a server that has not answered is left to itself; its client tries for a minute."""

_ATTEMPTS = 3


def discard(store: Store, path: str) -> None:
    """Delete an object that nothing depends on; if that fails, it is ignored and removed by a cleanup.

    Args:
        store: The store.
        path: The object.
    """
    if not hasattr(store, "server"):
        # Local stores answer immediately.
        _delete(store, path)
        return
    thread = threading.Thread(target=_delete, args=(store, path), name="lance-discard", daemon=True)
    thread.start()
    thread.join(PATIENCE)


def _delete(store: Store, path: str) -> None:
    for _ in range(_ATTEMPTS):
        try:
            store.delete(path)
        except LanceOpsError:
            continue
        return
