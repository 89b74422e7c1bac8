"""Ranges of an open file: its end is there, and what else is wanted is mapped or fetched."""

import contextlib
from collections.abc import Callable

import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.io.fetch import Request, SideRequest
from lance_ops.file.io.side_files import list_side_files, read_with_side_files
from lance_ops.storage import Store, maps_files

# Reading this much in vain is cheaper than another request.
_GAP_BYTES = 64 << 10
_MAPPED_BYTES = 256 << 10
# To map a file, and to take that back, costs more than to read a little of it so often.
_FEW_READS = 4


def _total(ranges: list[Request]) -> int:
    return sum(length for _, length in ranges)


class FileRanges:
    """The bytes of an open file: its end is there, and what else is wanted is mapped or fetched."""

    def __init__(
        self,
        store: Store,
        path: str,
        size: int,
        tail: pa.Buffer,
        open_base: Callable[[int], Store] | None = None,
    ) -> None:
        self._store = store
        self._open_base = open_base
        self._path = path
        self._size = size
        self._tail = tail
        self._mapping: pa.Buffer | None = None
        self._side_bytes: int | None = None
        self._reads = 0
        self._is_doubted = False

    @property
    def whole(self) -> pa.Buffer | None:
        """All bytes where the end is the whole file."""
        return self._tail if self._tail.size == self._size else None

    @property
    def mapped(self) -> pa.Buffer | None:
        """All bytes where they are mapped, or were read with the end."""
        return self.whole if self._mapping is None else self._mapping

    def read(self, requests: list[Request]) -> list[pa.Buffer]:
        """Fetch ranges of the file, or of files beside it, none of which is empty."""
        if any(isinstance(request, SideRequest) for request in requests):
            return read_with_side_files(self._store, self._path, requests, self._read_own, self._open_base)
        return self._read_own(requests)

    def _read_own(self, ranges: list[Request]) -> list[pa.Buffer]:
        start = self._size - self._tail.size
        if all(offset >= start and offset + length <= self._size for offset, length in ranges):
            return [self._tail.slice(offset - start, length) for offset, length in ranges]
        self._reads += 1
        if self._mapping is None and self._reads > _FEW_READS and _total(ranges) <= _MAPPED_BYTES:
            # Whoever reads a little of a file again and again saves opening it; else it is read as before.
            with contextlib.suppress(LanceOpsError):
                self.prepare_for_single_rows()
                self._is_doubted = True
        mapping = self._mapping
        # What is cut off a file that is mapped reads as zeros, or ends the process.
        if mapping is not None and self._is_doubted and self._store.size(self._path) != self._size:
            mapping = None
        if mapping is not None and all(offset + length <= self._size for offset, length in ranges):
            return [mapping.slice(offset, length) for offset, length in ranges]
        return self._store.read_ranges(self._path, ranges)

    def side_bytes(self) -> int:
        """Size of all files beside this one."""
        if self._side_bytes is None:
            self._side_bytes = sum(size for _, size in list_side_files(self._store, self._path))
        return self._side_bytes

    def prepare_for_single_rows(self) -> int:
        """Map the file where that can be done, for reads of a few bytes here and there.

        Returns:
            How many bytes are read in vain rather than to ask for what lies on both sides apart.
        """
        if self._mapping is None and maps_files(self._store) and self._tail.size < self._size:
            mapping = self._store.map_file(self._path)
            # A file that is not as long as it was is left to the store, which knows what to say.
            if mapping is not None and mapping.size == self._size:
                self._mapping = mapping
        return _GAP_BYTES if self._mapping is None else self._size
