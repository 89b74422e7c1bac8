"""Keeps what pages need for every read, such as where their chunks are: fetched and parsed once."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

_DEFAULT_BYTES = 16 << 20


class PageHeads:
    """Heads of pages, those used last; of bounded size.

    Args:
        max_bytes: Of all heads together.
    """

    def __init__(self, max_bytes: int = _DEFAULT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._total = 0
        self._heads: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        # Scans share an open file between threads.
        self._lock = Lock()

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
