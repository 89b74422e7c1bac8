"""Store of a simulated process: the objects of its world, every call by the schedule."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from lance_ops.errors import StorageError
from lance_ops.storage import BytesLike, Durability, ObjectInfo, Store
from lance_ops.storage.closing import ClosingWriter
from lance_ops.storage.failures import missing
from lance_ops.storage.paths import validate_folder, validate_relative_path
from lance_ops.storage.range_copy import copy_by_reading
from lance_ops.storage.ranges import resolve_range
from tests.simulator.world import STALE_SECONDS, Process, World


class SimulatedStore:
    """A folder of a simulated store, as one process sees it.

    Args:
        world: Where the objects are.
        process: Whose calls these are; None for the one who examines the result.
        uri: Differs from process to process, as processes share no cache.
        base: The folder.
    """

    supports_put_if_absent = True

    def __init__(self, world: World, process: Process | None, uri: str, base: str = "") -> None:
        self._world = world
        self._process = process
        self._uri = uri
        self._base = base

    def __repr__(self) -> str:
        return f"SimulatedStore({self.uri!r})"

    @property
    def uri(self) -> str:
        return f"{self._uri}/{self._base}".rstrip("/")

    def child(self, relative: str) -> Store:
        return SimulatedStore(self._world, self._process, self._uri, f"{self._full(relative)}/")

    def _full(self, path: str) -> str:
        return self._base + validate_relative_path(path)

    def _get(self, full: str) -> pa.Buffer:
        found = self._world.objects.get(full)
        if found is None:
            raise missing(f"{self._uri}/{full}")
        return pa.py_buffer(found[0])

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        full = self._full(path)

        def perform() -> pa.Buffer:
            data = self._get(full)
            return data.slice(offset, resolve_range(full, offset, length, data.size))

        return self._world.call(self._process, "read", full, perform)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        full = self._full(path)

        def perform() -> list[pa.Buffer]:
            data = self._get(full)
            return [data.slice(at, resolve_range(full, at, length, data.size)) for at, length in ranges]

        return self._world.call(self._process, "read_ranges", full, perform)

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        full = self._full(path)

        def perform() -> tuple[pa.Buffer, int]:
            data = self._get(full)
            return data.slice(max(0, data.size - length)), data.size

        return self._world.call(self._process, "read_tail", full, perform)

    def size(self, path: str) -> int:
        full = self._full(path)
        return self._world.call(self._process, "size", full, lambda: int(self._get(full).size))

    def exists(self, path: str) -> bool:
        full = self._full(path)
        return self._world.call(self._process, "exists", full, lambda: full in self._world.objects)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        del durable
        self._put("put", path, data, if_absent)

    def _put(self, name: str, path: str, data: BytesLike, if_absent: bool) -> None:
        full = self._full(path)
        content = data if isinstance(data, bytes) else bytes(memoryview(data))
        self._world.call(
            self._process,
            name,
            full,
            lambda: self._world.put(full, content, if_absent=if_absent, uri=self._uri),
        )

    def open_writer(
        self, path: str, *, if_absent: bool = False, durable: Durability = "now"
    ) -> "SimulatedWriter":
        del durable
        validate_relative_path(path)
        return SimulatedWriter(self, path, if_absent=if_absent)

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        source, full = self._full(src), self._full(dst)

        def perform() -> None:
            self._world.put(full, bytes(self._get(source)), if_absent=if_absent, uri=self._uri)

        self._world.call(self._process, "copy", full, perform)

    def list_dirs(self, prefix: str) -> list[str]:
        lead = f"{self._base}{validate_folder(prefix)}".rstrip("/")
        lead = f"{lead}/" if lead else ""
        return self._world.call(
            self._process,
            "list_dirs",
            lead,
            lambda: sorted(
                {
                    path[len(lead) :].partition("/")[0]
                    for path in self._world.objects
                    if path.startswith(lead) and "/" in path[len(lead) :]
                }
            ),
        )

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        lead = f"{self._base}{validate_folder(prefix)}".rstrip("/")
        lead = f"{lead}/" if lead else ""
        return self._world.call(self._process, "list", lead, lambda: self._list(lead, start_after))

    def _list(self, lead: str, start_after: str | None) -> Iterator[ObjectInfo]:
        world = self._world
        found = {path: item for path, item in world.objects.items() if path.startswith(lead)}
        if world.is_stale(self._process):
            since = world.now - STALE_SECONDS
            found = {path: item for path, item in found.items() if item[1] < since}
            for path, (data, at, when) in world.gone.items():
                if path.startswith(lead) and when >= since and path not in world.objects:
                    found[path] = (data, at)
        cut = len(self._base)
        infos = [
            ObjectInfo(path[cut:], len(data), datetime.fromtimestamp(at, UTC), f"{len(data)}.{at}")
            for path, (data, at) in sorted(found.items())
        ]
        return iter([info for info in infos if start_after is None or info.path > start_after])

    def delete(self, path: str) -> None:
        full = self._full(path)
        self._world.call(self._process, "delete", full, lambda: self._world.delete(full))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)


class SimulatedWriter(ClosingWriter):
    """A writer whose object appears with one call, on `close`."""

    def __init__(self, store: SimulatedStore, path: str, *, if_absent: bool) -> None:
        self._store = store
        self._path = path
        self._if_absent = if_absent
        self._data = bytearray()
        self._written = 0
        self._open = True

    def write(self, data: BytesLike) -> None:
        if not self._open:
            raise StorageError("the writer is closed", path=self._path)
        self._data += memoryview(data).cast("B")
        self._written = len(self._data)

    def copy_from(self, source: Store, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        copy_by_reading(self, source, path, ranges)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self._open:
            self._open = False
            self._store._put("close", self._path, bytes(self._data), self._if_absent)

    def abort(self) -> None:
        self._open = False
        self._data = bytearray()
