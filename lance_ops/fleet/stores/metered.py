"""Metered store: counts the requests to any store, and makes them wait for their turn under a rate.

For as long as one look lasts, it also remembers listings: a judgement asks for that of the versions again and
again, and each time is a request.
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
"""Objects that a store lists, or deletes, with one request."""
_PART = 8 << 20


@dataclass(slots=True)
class Rate:
    """Turns for requests, evenly spaced; shared by all datasets of a store.

    Attributes:
        per_second: How many; None for no bound.
    """

    per_second: float | None = None
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=new_lock)

    def wait(self, count: int = 1) -> None:
        """Wait for the turn of some requests."""
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
    object stores are asked. What another process does with a copy is not counted here.

    Args:
        inner: The store that has the bytes.
        rate: Turns of the requests.
        once: A folder is listed once, until a file turns out to be missing. For readers who are done in a
            moment, and of whom nobody waits for a change.
    """

    def __init__(self, inner: Store, rate: Rate | None = None, *, once: bool = False) -> None:
        self.inner = inner
        self.requests = 0
        self._rate = rate or Rate()
        self._lock = new_lock()
        self._listed: dict[str, list[ObjectInfo]] | None = {} if once else None

    def once(self) -> "MeteredStore":
        """The same store, with a count of its own, and each folder listed once."""
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

    def open_writer(self, path: str, *, durable: Durability = "now") -> StoreWriter:
        """See `Store.open_writer`."""
        self._count()
        return self.inner.open_writer(path, durable=durable)

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
        # Whoever stops before the end has asked for a page all the same.
        self._count()
        for position, info in enumerate(self.inner.list(prefix, start_after=start_after)):
            if position and not position % _PAGE:
                self._count()
            yield info

    def _forget(self) -> None:
        """A listing is older than what is there: the next one asks again."""
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
        """See `Store.child`; its requests are counted apart, at the same rate."""
        return meter(self.inner.child(relative), self._rate)


class _MappedStore(MeteredStore):
    """So, of a store that maps files and names what is in a folder."""

    def map_file(self, path: str) -> pa.Buffer | None:
        """See `MapsFiles.map_file`."""
        assert maps_files(self.inner)
        self._count()
        return self.inner.map_file(path)

    def list_names(self, folder: str) -> list[str]:
        """See `ListsNames.list_names`."""
        assert lists_names(self.inner)
        self._count()
        return self.inner.list_names(folder)

    def info(self, path: str) -> ObjectInfo | None:
        """See `ListsNames.info`; not counted: other stores tell it with the names."""
        assert lists_names(self.inner)
        return self.inner.info(path)

    def leads_out(self, folder: str) -> bool:
        """See `leads_out`."""
        return leads_out(self.inner, folder)


def meter(store: Store, rate: Rate | None = None) -> MeteredStore:
    """Count the requests to a store."""
    kind = _MappedStore if maps_files(store) and lists_names(store) else MeteredStore
    return kind(store, rate)
