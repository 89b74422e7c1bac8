"""Fetched objects: a store some of whose objects are available, so that reading them takes no request.

For who reads many small objects whole, in sequence: they are fetched concurrently before.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.storage.prefetch import prefetch, requests_at_once
from lance_ops.storage.ranges import resolve_range
from lance_ops.storage.store import Store


def fetch_objects(store: Store, objects: Iterable[tuple[str, int]], max_bytes: int) -> Store:
    """Fetch objects side by side, as far as they fit.

    Args:
        store: Where they are.
        objects: Path and size of each, as far as that is known.
        max_bytes: Of all that are fetched; those that are beyond it are left out.

    Returns:
        The store, which has them available. What could not be fetched is asked for as before, and fails then.
    """
    wanted, total = [], 0
    for path, size in objects:
        if total + size <= max_bytes:
            wanted.append(path)
            total += size
    found = prefetch((partial(_fetch, store, path) for path in wanted), requests_at_once(store))
    at_hand = {path: data for path, data in zip(wanted, found, strict=True) if data is not None}
    return cast("Store", FetchedStore(store, at_hand))


def _fetch(store: Store, path: str) -> pa.Buffer | None:
    try:
        return store.read(path)
    except LanceOpsError:
        return None


class FetchedStore:
    """A store with objects available; other operations use the store.

    Args:
        inner: The store.
        objects: Complete immutable objects, by path.
    """

    def __init__(self, inner: Store, objects: Mapping[str, pa.Buffer]) -> None:
        self._inner = inner
        self._objects = objects

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # A new object need not be looked up.
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __reduce__(self) -> tuple[object, ...]:
        # Other processes look it up in the store.
        return (FetchedStore, (self._inner, {}))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        data = self._objects.get(path)
        if data is None:
            return self._inner.read(path, offset, length)
        return self._slice(path, data, offset, length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """See `Store.read_ranges`."""
        data = self._objects.get(path)
        if data is None:
            return self._inner.read_ranges(path, ranges)
        return [self._slice(path, data, offset, length) for offset, length in ranges]

    def _slice(self, path: str, data: pa.Buffer, offset: int, length: int | None) -> pa.Buffer:
        found = resolve_range(f"{self._inner.uri}/{path}", offset, length, data.size)
        return data.slice(offset, found)

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        data = self._objects.get(path)
        if data is None or length < 0:
            return self._inner.read_tail(path, length)
        return data.slice(max(0, data.size - length)), data.size

    def size(self, path: str) -> int:
        """See `Store.size`."""
        data = self._objects.get(path)
        return self._inner.size(path) if data is None else data.size

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        return path in self._objects or self._inner.exists(path)
