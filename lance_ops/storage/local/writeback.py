"""Writeback: the system begins to bring bytes to the disk, while whoever wrote them does something else."""

import ctypes
from collections.abc import Callable

_SYNC_FILE_RANGE_WRITE = 2


def _find_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_uint)
    return found


_sync_file_range = _find_sync_file_range() if ctypes.sizeof(ctypes.c_long) == 8 else None


def start_writeback(descriptor: int, start: int = 0, size: int = 0) -> None:
    """Begin to write, where the system can; whether it succeeds is for a flush to find out.

    Args:
        descriptor: Of an open file.
        start: First byte.
        size: Of the range in bytes; 0 reaches to the end of the file.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, start, size, _SYNC_FILE_RANGE_WRITE)
