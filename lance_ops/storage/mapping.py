"""Whole files in the address space, for reads of a few bytes here and there.

Arrow's own mapping asks the system to read ahead all that it maps, which takes longer than such reads do;
Python's keeps a descriptor open for as long as the mapping lives.
"""

import ctypes
import os
from typing import Any

import pyarrow as pa

# The same on every system that has these calls.
_PROT_READ, _MAP_SHARED = 1, 1
_FAILED = ctypes.c_void_p(-1).value


def _load_calls() -> tuple[Any, Any] | None:
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
    return library.mmap, library.munmap


_CALLS = _load_calls()


class _Mapping:
    """Lives as long as a buffer refers to it."""

    __slots__ = ("_address", "_size", "_unmap")

    def __init__(self, address: int, size: int, unmap: Any) -> None:
        self._address = address
        self._size = size
        # Module globals may be gone when the interpreter ends.
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
    if _CALLS is None:
        with pa.memory_map(path) as file:
            return file.read_buffer(file.size())
    map_pages, unmap_pages = _CALLS
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        address = map_pages(None, size, _PROT_READ, _MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return pa.foreign_buffer(address, size, base=_Mapping(address, size, unmap_pages))
