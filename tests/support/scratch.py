"""Where tests keep their files: in memory where there is plenty, so that none of them waits for the disk."""

import os
from pathlib import Path

import psutil

_IN_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 8 << 30


def memory_folder(folder: Path = _IN_MEMORY, enough: int = _ENOUGH_BYTES) -> Path | None:
    """Find a file system in memory that holds what the tests write.

    Flushes are made there as on any other, and take no time. What is on it has to be executable, as the
    environments are that some tests make.

    Args:
        folder: Where it is mounted.
        enough: Bytes that have to be free in it and in memory.

    Returns:
        The folder, or None where there is none, a small one as in many containers, or nothing on it runs.
    """
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    is_usable = os.access(folder, os.W_OK) and not found.f_flag & os.ST_NOEXEC
    free = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
    return folder if is_usable and free >= enough else None
