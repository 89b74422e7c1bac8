"""Bytes at a URI: ranged reads, put, put-if-absent, list, copy and delete, the same for every kind of store.

`open_store` selects the store; packages above use the `Store` protocol only.
"""

from lance_ops.storage.conditional_put import require_put_if_absent
from lance_ops.storage.paths import is_temporary, validate_relative_path
from lance_ops.storage.resolve import open_store
from lance_ops.storage.store import (
    BytesLike,
    Durability,
    ObjectInfo,
    Store,
    StoreWriter,
    is_store,
    leads_out,
    lists_names,
    maps_files,
)

__all__ = [
    "BytesLike",
    "Durability",
    "ObjectInfo",
    "Store",
    "StoreWriter",
    "is_store",
    "is_temporary",
    "leads_out",
    "lists_names",
    "maps_files",
    "open_store",
    "require_put_if_absent",
    "validate_relative_path",
]
