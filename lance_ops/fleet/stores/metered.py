"""Metered store: counts the requests to any store, and limits their rate.

During one observation it also caches listings: an assessment lists the versions repeatedly, and each listing
is a request.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_ops.errors import FileMissingError
from lance_ops.storage import (
    BytesLike,
    Durability,
    ObjectInfo,
    Store,
    StoreWriter,
    leads_out,
    lists_names,
    maps_files,
)
from lance_ops.storage.fork_safe import new_lock

_PAGE = 1000
"""Objects listed or deleted by one request."""
_PART = 8 << 20


@dataclass(slots=True)
class Rate:
    """Rate limiter with evenly spaced requests; shared by all datasets of a store.

    Attributes:
        per_second: Requests per second; None for no limit.
    """

    per_second: float | None = None
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=new_lock)

    def wait(self, count: int = 1) -> None:
        """Wait until some requests are allowed."""
        if not self.per_second:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + count / self.per_second
        if turn > now:
            time.sleep(turn - now)


class MeteredStore:
    """A store whose requests are counted.

    A large read or write counts as one request for each 8 MiB, a listing as one for each 1,000 objects, as
    with object stores. Requests of copies in other processes are not counted.

    Args:
        inner: The underlying store.
        rate: Rate limiter.
        once: Cache listings of folders until a file is missing. For short reads that need not see changes.
    """

    def __init__(self, inner: Store, rate: Rate | None = None, *, once: bool = False) -> None:
        self.inner = inner
        self.requests = 0
        self._rate = rate or Rate()
        self._lock = new_lock()
        self._listed: dict[str, list[ObjectInfo]] | None = {} if once else None

    def once(self) -> "MeteredStore":
        """Return the same store, with its own count and cached listings."""
        return type(self)(self.inner, self._rate, once=True)

    def __reduce__(self) -> tuple[object, ...]:
        return (meter, (self.inner,))

    def __repr__(self) -> str:
        return f"MeteredStore({self.inner!r})"

    def _count(self, requests: int = 1) -> None:
        self._rate.wait(requests)
        with self._lock:
            self.requests += requests

    @property
    def uri(self) -> str:
        """See `Store.uri`."""
        return self.inner.uri

    @property
    def supports_put_if_absent(self) -> bool:
        """See `Store.supports_put_if_absent`."""
        return self.inner.supports_put_if_absent

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        self._count(1 + (length or 0) // _PART)
        try:
            return self.inner.read(path, offset, length)
        except FileMissingError:
            self._forget()
            raise

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """See `Store.read_ranges`."""
        self._count(1 + sum(length for _, length in ranges) // _PART)
        return self.inner.read_ranges(path, ranges)

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        self._count()
        try:
            return self.inner.read_tail(path, length)
        except FileMissingError:
            self._forget()
            raise

    def size(self, path: str) -> int:
        """See `Store.size`."""
        self._count()
        return self.inner.size(path)

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        self._count()
        return self.inner.exists(path)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """See `Store.put`."""
        self._count()
        self.inner.put(path, data, if_absent=if_absent, durable=durable)

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        """See `Store.open_writer`."""
        self._count()
        return self.inner.open_writer(path, if_absent=if_absent, durable=durable)

    def list_dirs(self, prefix: str) -> list[str]:
        """See `Store.list_dirs`."""
        self._count()
        return self.inner.list_dirs(prefix)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        if self._listed is None or start_after is not None:
            return self._pages(prefix, start_after)
        if prefix not in self._listed:
            self._listed[prefix] = list(self._pages(prefix, None))
        return iter(self._listed[prefix])

    def _pages(self, prefix: str, start_after: str | None) -> Iterator[ObjectInfo]:
        # A caller that stops early has still requested a page.
        self._count()
        for position, info in enumerate(self.inner.list(prefix, start_after=start_after)):
            if position and not position % _PAGE:
                self._count()
            yield info

    def _forget(self) -> None:
        """Drop cached listings after a change."""
        if self._listed is not None:
            self._listed = {}

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self._count()
        self.inner.delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Store.delete_many`."""
        listed = list(paths)
        self._count(1 + len(listed) // _PAGE)
        self.inner.delete_many(listed)

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """See `Store.copy`."""
        self._count()
        self.inner.copy(src, dst, if_absent=if_absent)

    def child(self, relative: str) -> Store:
        """See `Store.child`; its requests are counted separately, at the same rate."""
        return meter(self.inner.child(relative), self._rate)


class _MappedStore(MeteredStore):
    """The same for a store that maps files and lists names."""

    def map_file(self, path: str) -> pa.Buffer | None:
        """See `MapsFiles.map_file`."""
        assert maps_files(self.inner)
        self._count()
        return self.inner.map_file(path)

    def map_files(self, files: Sequence[tuple[str, int]]) -> tuple[pa.Buffer, Sequence[int]] | None:
        """See `MapsFiles.map_files`."""
        assert maps_files(self.inner)
        self._count(len(files))
        return self.inner.map_files(files)

    def list_names(self, folder: str) -> list[str]:
        """See `ListsNames.list_names`."""
        assert lists_names(self.inner)
        self._count()
        return self.inner.list_names(folder)

    def info(self, path: str) -> ObjectInfo | None:
        """See `ListsNames.info`; not counted: other stores return it with the names."""
        assert lists_names(self.inner)
        return self.inner.info(path)

    def leads_out(self, folder: str) -> bool:
        """See `leads_out`."""
        return leads_out(self.inner, folder)


def meter(store: Store, rate: Rate | None = None) -> MeteredStore:
    """Count the requests to a store."""
    kind = _MappedStore if maps_files(store) and lists_names(store) else MeteredStore
    return kind(store, rate)
