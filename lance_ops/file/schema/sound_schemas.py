"""Cache of validated schemas by storage version, for repeated appends."""

from collections import OrderedDict

from lance_ops.file.schema.model import Schema
from lance_ops.storage.fork_safe import new_lock

_KEPT = 64

_kept: OrderedDict[tuple[int, str], Schema] = OrderedDict()
_lock = new_lock()


def remember(schema: Schema, version: str) -> None:
    """Record that a storage version can hold a schema.

    Args:
        schema: Cached by identity.
        version: Name of the storage version, or of one of its checks.
    """
    with _lock:
        # An id is unique only among live objects, so the entry keeps its schema alive.
        _kept[id(schema), version] = schema
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)


def is_known(schema: Schema, version: str) -> bool:
    """Return whether a schema is recorded for a storage version, unless evicted since."""
    with _lock:
        return (id(schema), version) in _kept
