"""Objects in the memory of this process, for tests and short-lived tables (`memory://`)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from lance_ops.errors import StorageError
from lance_ops.storage.closing import ClosingWriter
from lance_ops.storage.failures import already_exists, missing
from lance_ops.storage.fork_safe import new_lock
from lance_ops.storage.paths import join_uri, validate_folder, validate_relative_path
from lance_ops.storage.range_copy import copy_by_reading
from lance_ops.storage.ranges import check_not_negative, resolve_range
from lance_ops.storage.store import BytesLike, Durability, ObjectInfo, Store

# Shared by all stores of the process, so that the same URI means the same bytes wherever it is opened.
_OBJECTS: dict[str, tuple[pa.Buffer, datetime]] = {}
_LOCK = new_lock()


class MemoryStore:
    """A folder in the memory of this process; an unpickled copy in another process starts empty.

    Args:
        uri: `memory://name/...`; equal URIs share their objects.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __repr__(self) -> str:
        return f"MemoryStore({self._uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (MemoryStore, (self._uri,))

    @property
    def uri(self) -> str:
        """The URI of the root."""
        return self._uri

    @property
    def supports_put_if_absent(self) -> bool:
        """True: a lock decides."""
        return True

    def child(self, relative: str) -> Store:
        """See `Store.child`."""
        return MemoryStore(self._full(relative))

    def _full(self, path: str) -> str:
        return join_uri(self._uri, validate_relative_path(path))

    def _lead(self, prefix: str) -> str:
        return join_uri(self._uri, validate_folder(prefix)).rstrip("/") + "/"

    def _get(self, path: str) -> tuple[str, pa.Buffer]:
        full = self._full(path)
        found = _OBJECTS.get(full)
        if found is None:
            raise missing(full)
        return full, found[0]

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        full, data = self._get(path)
        return data.slice(offset, resolve_range(full, offset, length, data.size))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """See `Store.read_ranges`."""
        full, data = self._get(path)
        return [
            data.slice(offset, resolve_range(full, offset, length, data.size)) for offset, length in ranges
        ]

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        full, data = self._get(path)
        check_not_negative(full, 0, length)
        return data.slice(max(0, data.size - length)), data.size

    def size(self, path: str) -> int:
        """See `Store.size`."""
        return int(self._get(path)[1].size)

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        return self._full(path) in _OBJECTS

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """See `Store.put`."""
        del durable  # nothing in memory is
        # Copied, because the caller may change its buffer; only `bytes` objects are immutable.
        self._store(path, data if isinstance(data, bytes) else bytes(memoryview(data)), if_absent=if_absent)

    def _store(self, path: str, data: bytes, *, if_absent: bool) -> None:
        full = self._full(path)
        entry = (pa.py_buffer(data), datetime.now(UTC))
        with _LOCK:
            if if_absent and full in _OBJECTS:
                raise already_exists(full)
            _OBJECTS[full] = entry

    def open_writer(
        self, path: str, *, if_absent: bool = False, durable: Durability = "now"
    ) -> "MemoryWriter":
        """See `Store.open_writer`."""
        del durable  # nothing in memory is
        validate_relative_path(path)
        return MemoryWriter(self, path, if_absent=if_absent)

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """See `Store.copy`."""
        validate_relative_path(dst)
        self._store(dst, self._get(src)[1].to_pybytes(), if_absent=if_absent)

    def list_dirs(self, prefix: str) -> list[str]:
        """See `Store.list_dirs`."""
        lead = self._lead(prefix)
        with _LOCK:
            rests = [key[len(lead) :] for key in _OBJECTS if key.startswith(lead)]
        return sorted({rest.partition("/")[0] for rest in rests if "/" in rest})

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        lead = self._lead(prefix)
        cut = len(self._lead(""))
        with _LOCK:
            found = [(key[cut:], *value) for key, value in _OBJECTS.items() if key.startswith(lead)]
        found.sort(key=lambda item: item[0])
        return iter(
            [
                ObjectInfo(path, data.size, modified, f"{data.size}.{modified}")
                for path, data, modified in found
                if start_after is None or path > start_after
            ]
        )

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Store.delete_many`."""
        for path in paths:
            full = self._full(path)
            # No listing runs while an object is removed.
            with _LOCK:
                _OBJECTS.pop(full, None)


class MemoryWriter(ClosingWriter):
    """See `StoreWriter`."""

    def __init__(self, store: MemoryStore, path: str, *, if_absent: bool) -> None:
        self._store = store
        self._path = path
        self._if_absent = if_absent
        self._data = bytearray()
        self._written = 0
        self._open = True

    def write(self, data: BytesLike) -> None:
        """See `StoreWriter.write`."""
        if not self._open:
            raise StorageError("the writer is closed", path=join_uri(self._store.uri, self._path))
        self._data += memoryview(data).cast("B")
        self._written = len(self._data)

    def copy_from(self, source: Store, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        """See `StoreWriter.copy_from`."""
        copy_by_reading(self, source, path, ranges)

    def tell(self) -> int:
        """See `StoreWriter.tell`."""
        return self._written

    def close(self) -> None:
        """See `StoreWriter.close`."""
        if self._open:
            self._open = False
            self._store.put(self._path, self._data, if_absent=self._if_absent)
            self._data = bytearray()

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        self._open = False
        self._data = bytearray()
