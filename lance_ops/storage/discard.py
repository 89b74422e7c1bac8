"""Discard: delete an object that is of no further use, without waiting long for a store that fails."""

import contextlib
import threading

from lance_ops.errors import LanceOpsError
from lance_ops.storage.retry import retry
from lance_ops.storage.store import Store

PATIENCE = 3.0
"""Seconds after which a server that has not answered is left to itself; its client tries for a minute."""

_ATTEMPTS = 3


def discard(store: Store, path: str) -> None:
    """Delete an object whose removal nothing depends on; what stays is ignored, and a cleanup removes it.

    Args:
        store: The store.
        path: The object.
    """
    if not hasattr(store, "server"):
        # A store of this machine answers at once.
        _delete(store, path)
        return
    thread = threading.Thread(target=_delete, args=(store, path), name="lance-discard", daemon=True)
    thread.start()
    thread.join(PATIENCE)


def _delete(store: Store, path: str) -> None:
    with contextlib.suppress(LanceOpsError):
        retry(lambda: store.delete(path), _ATTEMPTS, on=LanceOpsError)
