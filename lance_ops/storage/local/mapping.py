"""Files in the address space: whole ones for reads of a few bytes here and there, and parts.

Arrow's own mapping takes several times as long, and asks the system to read ahead all that it maps; Python's
keeps a descriptor open for as long as the mapping lives.
"""

import ctypes
import mmap
import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

# The same on every system that has these calls.
_PROT_NONE, _PROT_READ, _MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _WILL_NEED = 0, 1, 1, 2, 16, 3
_FAILED = ctypes.c_void_p(-1).value


def _load_calls() -> tuple[Any, Any, Any] | None:
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_size_t,
    ]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library.mmap, library.munmap, library.madvise


_CALLS = _load_calls()


class _Mapping:
    """Lives as long as a buffer refers to it."""

    __slots__ = ("_address", "_size", "_unmap")

    def __init__(self, address: int, size: int, unmap: Any) -> None:
        self._address = address
        self._size = size
        # Module globals may be deleted when the interpreter exits.
        self._unmap = unmap

    def __del__(self) -> None:
        self._unmap(self._address, self._size)


def map_whole(path: str) -> pa.Buffer:
    """Map a file, which must not be empty, for reading.

    Args:
        path: Of a regular file.

    Raises:
        OSError: The file cannot be opened or mapped.
    """
    return _map(path, None)


def map_ranges(path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
    """Map a file, of which some ranges are read soon.

    Args:
        path: Of a regular file that is not empty.
        ranges: Offset and length of each; the buffers of those beyond the end are shorter.

    Raises:
        OSError: The file cannot be opened or mapped.
    """
    start = min(offset for offset, _ in ranges)
    whole = _map(path, (start, max(offset + length for offset, length in ranges)))
    size = whole.size
    # Arrow does not check whether a slice is within its buffer.
    return [whole.slice(min(offset, size), min(length, max(0, size - offset))) for offset, length in ranges]


def map_joined(paths: Sequence[str], sizes: Sequence[int]) -> pa.Buffer | None:
    """Map files one after the other, each at the next multiple of the page size, as one buffer.

    Args:
        paths: Of regular files that are not empty.
        sizes: The bytes that each should have.

    Returns:
        The buffer; None if the system cannot do that, or if a file has another size by now.

    Raises:
        OSError: A file cannot be opened or mapped.
    """
    if _CALLS is None or not hasattr(mmap, "MAP_ANONYMOUS"):
        return None
    map_pages, unmap_pages, _ = _CALLS
    places = page_places(sizes)
    total = places[-1] + sizes[-1]
    # Reserved first, so that nothing else comes to lie between the files.
    address = map_pages(None, total, _PROT_NONE, _MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address is None or address == _FAILED:
        return None
    mapping = _Mapping(address, total, unmap_pages)
    for path, size, place in zip(paths, sizes, places, strict=True):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if os.fstat(descriptor).st_size != size:
                return None
            found = map_pages(address + place, size, _PROT_READ, _MAP_SHARED | _MAP_FIXED, descriptor, 0)
        finally:
            os.close(descriptor)
        if found != address + place:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    return pa.foreign_buffer(address, total, base=mapping)


def page_places(sizes: Sequence[int]) -> list[int]:
    """Return where files begin that follow each other, each at a multiple of the page size."""
    places, place = [], 0
    for size in sizes:
        places.append(place)
        place += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    return places


def _map(path: str, soon: tuple[int, int] | None) -> pa.Buffer:
    if _CALLS is None:
        with pa.memory_map(path) as file:
            return file.read_buffer(file.size())
    map_pages, unmap_pages, advise = _CALLS
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        address = map_pages(None, size, _PROT_READ, _MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    mapping = _Mapping(address, size, unmap_pages)
    if soon is not None:
        first = min(soon[0], size) // mmap.PAGESIZE * mmap.PAGESIZE
        # A system that does not take advice reads as the pages are touched.
        advise(address + first, min(soon[1], size) - first, _WILL_NEED)
    return pa.foreign_buffer(address, size, base=mapping)
