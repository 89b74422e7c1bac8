"""Flushes: files and folders that must be on the disk before the next durable file gets its name.

A small pool of threads flushes each file as soon as it is written, while its writer continues.
Names in folders are flushed just before the durable file appears, one flush a folder, however many names are
new. So no name on the disk refers to bytes or names that a power failure could still lose.
"""

import errno
import functools
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from typing import TypeVar

from lance_ops.errors import LanceOpsError, NotFlushedError, StorageError
from lance_ops.storage.failures import translate_os_error
from lance_ops.storage.fork_safe import new_lock

T = TypeVar("T")

# Some file systems cannot flush folders, and keep names safe by other means.
_NO_FOLDER_FLUSH = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF})

_THREADS = 8
# Each unfinished flush holds a descriptor, and descriptors are few.
_MOST_UNFINISHED = 16

flush_data = getattr(os, "fdatasync", os.fsync)
"""Flush the bytes of an open file, given its descriptor."""

flush_names = os.fsync
"""Flush the names in an open folder, given its descriptor."""


class PendingFlushes:
    """Files and folders of one store that are not known to be on the disk yet; thread-safe."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._process = os.getpid()
        # Each with what went wrong, which a child process can read without the lock of the flush.
        self._files: dict[str, tuple[Future[None], list[OSError]]] = {}
        # Each new name in a folder sets another mark: a flush that began before does not count for it.
        self._folders: dict[str, object] = {}

    def add_folder(self, folder: str) -> None:
        """Record a folder with a new name in it.

        Args:
            folder: Absolute path.
        """
        with self._lock:
            self._folders[folder] = object()

    def add_file(self, path: str, descriptor: int) -> None:
        """Start to flush a file, and record it.

        Args:
            path: Absolute path of the file, under its final name.
            descriptor: Of the open file; the caller closes it.
        """
        self._restart_after_fork()
        failed: list[OSError] = []
        flush = _submit(functools.partial(_flush_file, failed), FileIO(os.dup(descriptor)))
        with self._lock:
            kept = {
                other: known
                for other, known in self._files.items()
                if not known[0].done() or known[0].exception() is not None
            }
            self._files = {**kept, path: (flush, failed)}
            unfinished = [known for known, _ in kept.values() if not known.done()]
        if len(unfinished) >= _MOST_UNFINISHED:
            unfinished[0].exception()

    def forget(self, path: str) -> None:
        """Drop a file that was deleted or replaced: nothing refers to it any more."""
        with self._lock:
            self._files.pop(path, None)

    def finish(self, descriptor: int) -> None:
        """Flush an open file and everything recorded, and wait for it.

        Raises:
            OSError: That file could not be flushed, or a folder, which stays recorded.
            NotFlushedError: A recorded file could not be flushed. It stays recorded until it is deleted: the
                system reports lost bytes once, and a second flush would succeed without them.
            StorageError: The same, of a more specific type.
        """
        self._restart_after_fork()
        with self._lock:
            files, folders = dict(self._files), dict(self._folders)
        folder_flushes = [_submit(flush_folder, folder) for folder in folders]
        flush_data(descriptor)
        for path, (flush, _) in files.items():
            error = flush.exception()
            if isinstance(error, OSError):
                raise _not_flushed(path, error) from error
            flush.result()
        for flush in folder_flushes:
            flush.result()
        with self._lock:
            for path, known in files.items():
                if self._files.get(path) is known:
                    del self._files[path]
            for folder, mark in folders.items():
                if self._folders.get(folder) is mark:
                    del self._folders[folder]

    def _restart_after_fork(self) -> None:
        """Flush in the child process after a fork what its parent had started: threads are not inherited."""
        if self._process == os.getpid():
            return
        with self._lock:
            if self._process != os.getpid():
                self._files = {
                    path: (_submit(functools.partial(_flush_path, failed), path), failed)
                    for path, (_, failed) in self._files.items()
                }
                self._process = os.getpid()


def flush_folder(folder: str) -> None:
    """Flush the names in a folder, where the file system can; a folder that was removed has none."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        flush_names(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_FLUSH:
            raise
    finally:
        os.close(descriptor)


def _flush_file(failed: list[OSError], file: FileIO) -> None:
    with file:
        try:
            flush_data(file.fileno())
        except OSError as error:
            failed.append(error)
            raise


def _flush_path(failed: list[OSError], path: str) -> None:
    if failed:
        raise failed[0]
    try:
        file = FileIO(path)
    except FileNotFoundError:
        return
    _flush_file(failed, file)


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="lance-ops-flush")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _submit(function: Callable[[T], None], argument: T) -> "Future[None]":
    try:
        return _pool().submit(function, argument)
    except RuntimeError:
        # No thread can be started, or the interpreter is shutting down.
        flush: Future[None] = Future()
        try:
            function(argument)
        except OSError as error:
            flush.set_exception(error)
        else:
            flush.set_result(None)
        return flush


def _not_flushed(path: str, error: OSError) -> LanceOpsError:
    translated = translate_os_error(error, path, reading=False)
    if type(translated) is not StorageError:
        return translated
    return NotFlushedError(
        f"a file that was written before could not be flushed to the disk: {error.strerror or error}",
        path=path,
        hint="check the disk, then write again",
    )
