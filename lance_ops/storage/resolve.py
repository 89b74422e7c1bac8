"""Picks the store for a URI."""

import os
from collections.abc import Mapping

from lance_ops.storage.local import LocalStore
from lance_ops.storage.memory import MemoryStore
from lance_ops.storage.paths import parse_location
from lance_ops.storage.store import Store


def open_store(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """Bind a store to a root URI; nothing is read, written or created yet.

    Args:
        uri: A path, `file://`, `memory://`.
        storage_options: As for the peer; for local files see `LocalStore`.

    Raises:
        InvalidArgumentError: The URI or an option makes no sense.
    """
    location = parse_location(uri)
    if location.scheme == "memory":
        return MemoryStore(location.uri)
    return LocalStore(location.uri, storage_options)
