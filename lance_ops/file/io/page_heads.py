"""Page heads: what pages need for every read, such as where their chunks are, fetched and parsed once."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from lance_ops.storage.fork_safe import new_lock

_DEFAULT_BYTES = 32 << 20


class SharedHeads:
    """Heads of the pages of any number of files, those used last; of bounded size.

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
        """What was put under a key, None when it is not there any more."""
        with self._lock:
            found = self._heads.get(key)
            if found is None:
                return None
            self._heads.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, head: object, size: int) -> None:
        """Keep a head.

        Args:
            key: What to find it by.
            head: Anything that nobody changes.
            size: About the bytes that it takes.
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
    """Heads of the pages of one open file.

    Args:
        shared: Where they are kept, with those of other files; a place of its own when None.
    """

    def __init__(self, shared: SharedHeads | None = None) -> None:
        self._shared = SharedHeads() if shared is None else shared
        # Two files may have pages of one name.
        self._file = object()

    def get(self, key: Hashable) -> Any | None:
        """See `SharedHeads.get`."""
        return self._shared.get((self._file, key))

    def put(self, key: Hashable, head: object, size: int) -> None:
        """See `SharedHeads.put`."""
        self._shared.put((self._file, key), head, size)
