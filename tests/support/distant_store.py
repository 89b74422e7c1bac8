"""A store that takes itself for one behind a network, and tells how many requests were under way at once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from lance_ops.storage import ObjectInfo, Store

T = TypeVar("T")


class DistantStore:
    """Wraps any store; every request waits a moment for others to come.

    Args:
        inner: The store that has the bytes.
        wanted: As soon as so many requests are under way, none waits any more.
        patience: Seconds that a request waits for others at most.
    """

    def __init__(self, inner: Store, wanted: int = 0, patience: float = 0.2) -> None:
        self.inner = inner
        self.wanted = wanted
        self.patience = patience
        self.calls: list[tuple[str, str]] = []
        self.most = 0
        self._now = 0
        self._moved = threading.Condition()

    def __getattr__(self, name: str) -> object:
        if name == "map_file":
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def uri(self) -> str:
        return "distant://" + self.inner.uri.partition("://")[2]

    def counts(self) -> Counter[str]:
        """Requests by name."""
        return Counter(name for name, _ in self.calls)

    def paths(self, folder: str) -> list[str]:
        """Paths below a folder that were read, in order, as often as they were."""
        return [path for name, path in self.calls if name.startswith("read") and path.startswith(folder)]

    def reset(self) -> None:
        """Forget what was asked for."""
        self.calls.clear()
        self.most = 0

    def _ask(self, name: str, path: str, perform: Callable[[], T]) -> T:
        with self._moved:
            self.calls.append((name, path))
            self._now += 1
            self.most = max(self.most, self._now)
            self._moved.notify_all()
            if self.wanted:
                self._moved.wait_for(lambda: self.most >= self.wanted, self.patience)
        try:
            return perform()
        finally:
            with self._moved:
                self._now -= 1

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self._ask("read", path, lambda: self.inner.read(path, offset, length))

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        return self._ask("read_tail", path, lambda: self.inner.read_tail(path, length))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        return self._ask("read_ranges", path, lambda: self.inner.read_ranges(path, ranges))

    def size(self, path: str) -> int:
        return self._ask("size", path, lambda: self.inner.size(path))

    def exists(self, path: str) -> bool:
        return self._ask("exists", path, lambda: self.inner.exists(path))

    def put(self, path: str, data: object, **options: object) -> None:
        self._ask("put", path, lambda: self.inner.put(path, data, **options))  # type: ignore[arg-type]

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        return self._ask("list", prefix, lambda: self.inner.list(prefix, start_after=start_after))
