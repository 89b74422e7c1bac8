"""Page heads: data that every read of a page needs, such as chunk positions, fetched and parsed once."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from lance_ops.storage.fork_safe import new_lock

_DEFAULT_BYTES = 32 << 20


class SharedHeads:
    """Cache of page heads of any number of files, of bounded size.

    Args:
        max_bytes: Of all heads together.
    """

    def __init__(self, max_bytes: int = _DEFAULT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._total = 0
        self._heads: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        # Scans share open files between threads.
        self._lock = new_lock()

    def get(self, key: Hashable) -> Any | None:
        """Return the head of a key, None if it is not cached."""
        with self._lock:
            found = self._heads.get(key)
            if found is None:
                return None
            self._heads.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, head: object, size: int) -> None:
        """Cache a head.

        Args:
            key: Its key.
            head: An immutable value.
            size: Approximate size in bytes.
        """
        if size > self._max_bytes:
            return
        with self._lock:
            before = self._heads.pop(key, None)
            self._total += size - (before[1] if before is not None else 0)
            self._heads[key] = (head, size)
            while self._total > self._max_bytes:
                _, (_, freed) = self._heads.popitem(last=False)
                self._total -= freed


class PageHeads:
    """Page heads of one open file.

    Args:
        shared: Cache shared with other files; a separate one when None.
    """

    def __init__(self, shared: SharedHeads | None = None) -> None:
        self._shared = SharedHeads() if shared is None else shared
        # Pages of two files may have the same name.
        self._file = object()

    def get(self, key: Hashable) -> Any | None:
        """See `SharedHeads.get`."""
        return self._shared.get((self._file, key))

    def put(self, key: Hashable, head: object, size: int) -> None:
        """See `SharedHeads.put`."""
        self._shared.put((self._file, key), head, size)
