"""What was written and not yet flushed to the disk: folders with new names, and files that may wait.

Flushing each at once would make the disk write its journal again and again. Whatever is recorded here is
flushed in one go, before the next durable file gets its name: no name on the disk speaks of something that a
power cut could still lose.
"""

import contextlib
import errno
import os
import threading

# Some file systems cannot flush folders, and keep names safe by other means.
_NO_FOLDER_FLUSH = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF})

# Descriptors are few.
_MOST_FILES = 16

flush_data = getattr(os, "fdatasync", os.fsync)
"""Bring the bytes of an open file to the disk, given its descriptor."""


class Unflushed:
    """Of one store; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[str, None] = {}
        self._files: list[int] = []
        self._lost: OSError | None = None

    def add_folder(self, folder: str) -> None:
        """Record a folder in which a name is new.

        Args:
            folder: Absolute path.
        """
        with self._lock:
            self._folders[folder] = None

    def add_file(self, descriptor: int) -> None:
        """Record an open file; the descriptor stays the caller's."""
        own = os.dup(descriptor)
        with self._lock:
            self._files.append(own)
            full = len(self._files) >= _MOST_FILES
        if full:
            self.flush()

    def flush(self) -> None:
        """Bring everything recorded to the disk.

        Raises:
            OSError: It could not be. When that was a file, it stays so: the system tells once that it lost
                bytes, and a second flush would succeed without them. A store opened anew writes anew.
        """
        with self._lock:
            if self._lost is not None:
                raise OSError(self._lost.errno, self._lost.strerror)
            # The lock is held while flushing: whoever comes next relies on what was taken out here.
            while self._files:
                try:
                    flush_data(self._files[-1])
                except OSError as error:
                    self._lost = error
                    raise
                os.close(self._files.pop())
            for folder in list(self._folders):
                flush_folder(folder)
                del self._folders[folder]

    def __del__(self) -> None:
        for descriptor in self._files:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def flush_folder(folder: str) -> None:
    """Bring the names in a folder to the disk, where the file system can; one that is gone has none."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_FLUSH:
            raise
    finally:
        os.close(descriptor)
