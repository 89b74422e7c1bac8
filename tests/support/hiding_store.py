"""A store that hides objects from some calls, as a gateway, a CDN or NFS does: what is there is not found."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_ops.errors import FileMissingError
from lance_ops.storage import BytesLike, Durability, ObjectInfo, Store, StoreWriter

Hides = Callable[[str, str], bool]
"""Whether to hide an object, by the method that looks for it and its path below the outermost root."""


@dataclass
class HideOnce:
    """Hide one object from one call.

    Attributes:
        number: Of the look at an object, from 1. A listing looks at each object that it names.
        looks: The looks so far: method and path.
    """

    number: int = 0
    looks: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, method: str, path: str) -> bool:
        with self._lock:
            self.looks.append((method, path))
            return len(self.looks) == self.number

    @property
    def fired(self) -> bool:
        """Whether the object was hidden."""
        return 0 < self.number <= len(self.looks)


class HidingStore:
    """Forwards to a store, and does not find what `hides` says.

    Args:
        inner: The store that does the work.
        hides: See `Hides`; asked for objects that are there.
    """

    def __init__(self, inner: Store, hides: Hides, base: str = "") -> None:
        self._inner = inner
        self._hides = hides
        self._base = base

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def supports_put_if_absent(self) -> bool:
        return self._inner.supports_put_if_absent

    def child(self, relative: str) -> Store:
        return HidingStore(self._inner.child(relative), self._hides, f"{self._base}{relative}/")

    def _is_hidden(self, method: str, path: str) -> bool:
        return self._inner.exists(path) and self._hides(method, self._base + path)

    def _find(self, method: str, path: str) -> None:
        if self._is_hidden(method, path):
            raise FileMissingError("the object is hidden", path=f"{self.uri}/{path}")

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        self._find("read", path)
        return self._inner.read(path, offset, length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        self._find("read_ranges", path)
        return self._inner.read_ranges(path, ranges)

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        self._find("read_tail", path)
        return self._inner.read_tail(path, length)

    def size(self, path: str) -> int:
        self._find("size", path)
        return self._inner.size(path)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path) and not self._hides("exists", self._base + path)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        self._inner.put(path, data, if_absent=if_absent, durable=durable)

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        return self._inner.open_writer(path, if_absent=if_absent, durable=durable)

    def list_dirs(self, prefix: str) -> list[str]:
        return self._inner.list_dirs(prefix)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        for info in self._inner.list(prefix, start_after=start_after):
            if not self._hides("list", self._base + info.path):
                yield info

    def delete(self, path: str) -> None:
        self._inner.delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        self._inner.delete_many(paths)

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        self._find("copy", src)
        self._inner.copy(src, dst, if_absent=if_absent)
