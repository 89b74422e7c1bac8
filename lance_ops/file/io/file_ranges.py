"""Ranges of an open file: its end is in memory, other ranges are mapped or fetched."""

import contextlib
from collections.abc import Callable, Sequence

import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.io.fetch import Request, SideRequest
from lance_ops.file.io.side_files import list_side_files, read_with_side_files
from lance_ops.storage import Store, maps_files

# Reading this many unused bytes is cheaper than another request.
_GAP_BYTES = 64 << 10
_MAPPED_BYTES = 256 << 10
# Of the buffers of files of all versions.
_ALIGNMENT = 64
# Mapping and unmapping a file costs more than this many small reads.
_FEW_READS = 4


def _total(ranges: list[Request]) -> int:
    return sum(length for _, length in ranges)


class FileRanges:
    """Bytes of an open file: its end is in memory, other ranges are mapped or fetched.

    Args:
        store: Store of the file.
        path: Relative to the store.
        size: Of the file in bytes.
        tail: Its last bytes.
        open_base: See `FileReader.open`.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        size: int,
        tail: pa.Buffer,
        open_base: Callable[[int], Store] | None = None,
    ) -> None:
        self.store = store
        self._open_base = open_base
        self.path = path
        self.size = size
        self._tail = tail
        self._mapping: pa.Buffer | None = None
        self._side_bytes: int | None = None
        self._reads = 0
        self._is_doubted = False

    @property
    def whole(self) -> pa.Buffer | None:
        """Return all bytes if the end is the whole file."""
        return self._tail if self._tail.size == self.size else None

    @property
    def mapped(self) -> pa.Buffer | None:
        """Return all bytes if they are mapped, or were read with the end."""
        return self.whole if self._mapping is None else self._mapping

    def read(self, requests: list[Request]) -> list[pa.Buffer]:
        """Fetch non-empty ranges of the file or of its side files."""
        if any(isinstance(request, SideRequest) for request in requests):
            return read_with_side_files(self.store, self.path, requests, self._read_own, self._open_base)
        return self._read_own(requests)

    def _read_own(self, ranges: list[Request]) -> list[pa.Buffer]:
        start = self.size - self._tail.size
        if all(offset >= start and offset + length <= self.size for offset, length in ranges):
            return [self._tail.slice(offset - start, length) for offset, length in ranges]
        self._reads += 1
        if self._mapping is None and self._reads > _FEW_READS and _total(ranges) <= _MAPPED_BYTES:
            # Repeated small reads of a file are mapped, which saves opening it; others are not.
            with contextlib.suppress(LanceOpsError):
                self.prepare_for_single_rows()
                self._is_doubted = True
        mapping = self._mapping
        # Truncated parts of a mapped file read as zeros, or end the process.
        if mapping is not None and self._is_doubted and self.store.size(self.path) != self.size:
            mapping = None
        if mapping is not None and all(offset + length <= self.size for offset, length in ranges):
            return [mapping.slice(offset, length) for offset, length in ranges]
        return self.store.read_ranges(self.path, ranges)

    def side_bytes(self) -> int:
        """Return the size of all side files."""
        if self._side_bytes is None:
            self._side_bytes = sum(size for _, size in list_side_files(self.store, self.path))
        return self._side_bytes

    def prepare_for_single_rows(self) -> int:
        """Map the file if possible, for small random reads.

        Returns:
            Maximum unused bytes that are read rather than sending two requests.
        """
        if self._mapping is None and maps_files(self.store) and self._tail.size < self.size:
            mapping = self.store.map_file(self.path)
            # A file that became shorter is left to the store, which raises the right error.
            if mapping is not None and mapping.size == self.size:
                self._mapping = mapping
        return _GAP_BYTES if self._mapping is None else self.size


def join_ranges(files: Sequence[FileRanges]) -> tuple[pa.Buffer, Sequence[int]] | None:
    """Return all bytes of files in one buffer, and the position of each file in it.

    None where that would read more than what is asked for: files that are neither in memory nor mapped.
    """
    wholes = [whole for whole in (file.whole for file in files) if whole is not None]
    if len(wholes) == len(files):
        return _join_buffers(wholes)
    store = files[0].store
    if not maps_files(store) or any(file.store is not store for file in files):
        return None
    return store.map_files([(file.path, file.size) for file in files])


def _join_buffers(buffers: Sequence[pa.Buffer]) -> tuple[pa.Buffer, Sequence[int]]:
    positions: list[int] = []
    parts: list[pa.Buffer | bytes] = []
    position = 0
    for data in buffers:
        padding = -data.size % _ALIGNMENT
        positions.append(position)
        parts += (data, bytes(padding))
        position += data.size + padding
    return pa.py_buffer(b"".join(parts)), positions
