"""Sound schemas: those a storage version was found to hold, as tables are appended to again and again."""

from collections import OrderedDict

from lance_ops.file.schema.model import Schema
from lance_ops.storage.fork_safe import new_lock

_KEPT = 64

_kept: OrderedDict[tuple[int, str], Schema] = OrderedDict()
_lock = new_lock()


def remember(schema: Schema, version: str) -> None:
    """Keep that a storage version can hold a schema.

    Args:
        schema: This very object.
        version: Name of the storage version, or of a check of its.
    """
    with _lock:
        # An id is unique only among objects that live: what is kept keeps its schema alive.
        _kept[id(schema), version] = schema
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)


def is_known(schema: Schema, version: str) -> bool:
    """Whether `remember` was told of a schema and a storage version, and not of too many others since."""
    with _lock:
        return (id(schema), version) in _kept
