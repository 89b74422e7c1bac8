"""Atomic file: a local file that appears complete and durable, or not at all.

The bytes are written to a temporary file in the same folder, flushed to disk with all pending flushes, and
only then renamed: by `rename` if it may replace, by `link` if it must not (link fails if the name exists,
which makes put-if-absent commits safe). The folder is flushed last, for the name.

Flushes: files and folders that must be on the disk before the next durable file gets its name.

A small pool of threads flushes each file as soon as it is written, while its writer continues.
Names in folders are flushed just before the durable file appears, one flush a folder, however many names are
new. So no name on the disk refers to bytes or names that a power failure could still lose.
"""

import contextlib
import ctypes
import errno
import functools
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from typing import TypeVar

from lance_ops.errors import LanceOpsError, NotFlushedError, StorageError
from lance_ops.storage.closing import ClosingWriter
from lance_ops.storage.failures import translate_os_error
from lance_ops.storage.fork_safe import new_lock
from lance_ops.storage.paths import temporary_name
from lance_ops.storage.range_copy import COPY_BUFFER, HasLocalFiles, copy_between_files, copy_by_reading
from lance_ops.storage.store import BytesLike, Durability, Store

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


# ruff: noqa: PTH102, PTH105, PTH108, PTH120, PTH123 - pathlib costs several times the system call


_BUFFER = 1 << 20
# Larger pieces are not gathered before they are written.
_DIRECT = 64 << 10
# From this size on, space is allocated in advance: the file system then does not search for it page by page.
_RESERVED = 256 << 10
_KEEP_SIZE = 1
_PARENT_ATTEMPTS = 10

# What `link` answers on file systems without hard links (FAT, some network mounts).
_NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL}
)

_NOTHING = memoryview(b"")


def _find_fallocate() -> Callable[[int, int, int, int], int] | None:
    # `os.posix_fallocate` fills the file with zeros where the file system cannot reserve.
    found = getattr(ctypes.CDLL(None), "fallocate", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
    return found


_fallocate = _find_fallocate() if ctypes.sizeof(ctypes.c_long) == 8 else None


class AtomicFile(ClosingWriter):
    """A file being written; missing parent folders are created. Also a `StoreWriter`.

    Args:
        full: Absolute path that the file will get.
        pending: Flushes of the store; None to flush nothing: a power failure may lose or tear the file.
        if_absent: Fail on `close` if the path is taken, rather than replace.
        durable: When to flush.
    """

    def __init__(
        self,
        full: str,
        pending: PendingFlushes | None,
        *,
        if_absent: bool = False,
        durable: Durability = "now",
    ) -> None:
        self._full = full
        self._folder = os.path.dirname(full)
        self._pending = pending
        self._if_absent = if_absent
        self._durable: Durability = "never" if pending is None else durable
        self._written = 0
        # Small pieces that wait to be written together.
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        self._reserves = True
        self._copying: memoryview | None = None
        self._temporary = f"{self._folder}/{temporary_name(full)}"
        try:
            self._file = self._create()
        except OSError as error:
            raise translate_os_error(error, full, reading=False) from error
        self._open = True
        self._is_named = False

    def write(self, data: BytesLike) -> None:
        """See `StoreWriter.write`."""
        if not self._open:
            raise StorageError("the writer is closed", path=self._full)
        view = memoryview(data).cast("B")
        self._written += view.nbytes
        if view.nbytes < _DIRECT:
            # Copied, because the caller may reuse the memory.
            self._gathered.append(bytes(view))
            self._gathered_size += view.nbytes
            if self._gathered_size < _BUFFER:
                return
            view = view[:0]
        try:
            self._write_out(view)
        except OSError as error:
            raise translate_os_error(error, self._full, reading=False) from error

    def copy_from(self, source: Store, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        """See `StoreWriter.copy_from`."""
        if not isinstance(source, HasLocalFiles):
            copy_by_reading(self, source, path, ranges)
            return
        if not self._open:
            raise StorageError("the writer is closed", path=self._full)
        try:
            self._write_out()
        except OSError as error:
            raise translate_os_error(error, self._full, reading=False) from error
        if self._copying is None:
            self._copying = memoryview(bytearray(COPY_BUFFER))
        self._written += copy_between_files(
            source.local_path(path),
            self._file.fileno(),
            self._full,
            ranges,
            make_room=self._make_room,
            buffer=self._copying,
        )

    def tell(self) -> int:
        """Return the bytes written; see `StoreWriter.tell`."""
        return self._written

    def close(self) -> None:
        """See `StoreWriter.close`.

        Raises:
            AlreadyExistsError: With `if_absent`, if the path is taken.
        """
        if not self._open:
            return
        try:
            self._publish()
        except OSError as error:
            raise translate_os_error(error, self._full, reading=False) from error
        finally:
            self.abort()

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        if not self._open:
            return
        self._open = False
        # A second failure here must neither hide the first nor keep the descriptor or the file.
        with contextlib.suppress(OSError):
            self._file.close()
        if not self._is_named:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)

    def _create(self) -> FileIO:
        for _ in range(_PARENT_ATTEMPTS):
            try:
                return open(self._temporary, "xb", buffering=0)
            except FileNotFoundError:
                # Another process may prune this folder or one above it while it is empty: hence the attempts.
                with contextlib.suppress(FileNotFoundError):
                    _create_folder(self._folder, self._pending)
        return open(self._temporary, "xb", buffering=0)

    def _write_out(self, data: memoryview = _NOTHING) -> None:
        """Write what was gathered, and then `data`, which is at the end of what counts as written."""
        size = self._gathered_size + data.nbytes
        position = self._written - size
        self._make_room(size, position)
        rest = memoryview(b"".join(self._gathered)), data
        self._gathered, self._gathered_size = [], 0
        while position < self._written:
            count = os.writev(self._file.fileno(), rest)
            position += count
            first = min(count, rest[0].nbytes)
            rest = rest[0][first:], rest[1][count - first :]

    def _make_room(self, size: int, position: int | None = None) -> None:
        if size >= _RESERVED and self._reserves:
            start = self._written if position is None else position
            self._reserves = _reserve(self._file.fileno(), start, size)

    def _publish(self) -> None:
        self._write_out()
        if os.fstat(self._file.fileno()).st_size != self._written:
            # Closing a file after a failed write.
            raise OSError(errno.EIO, "not everything was written")
        pending = self._pending
        if pending is not None and self._durable == "now":
            pending.finish(self._file.fileno())
        if self._if_absent:
            self._link()
            os.unlink(self._temporary)
        else:
            os.replace(self._temporary, self._full)
        self._is_named = True
        if pending is not None and self._durable == "now":
            flush_folder(self._folder)
        elif pending is not None and self._durable == "later":
            pending.add_folder(self._folder)
            if self._written:
                pending.add_file(self._full, self._file.fileno())
            else:
                # An empty file is only its name, and may replace one that was lost.
                pending.forget(self._full)

    def _link(self) -> None:
        try:
            os.link(self._temporary, self._full)
        except FileExistsError:
            # Over NFS the answer to a link that worked may get lost, and the retry then meets our own name.
            if os.fstat(self._file.fileno()).st_nlink != 2:
                raise
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            self._create_exclusively()

    def _create_exclusively(self) -> None:
        """Put if absent without hard links: one writer wins, but a crash in between leaves a torn file."""
        with open(self._temporary, "rb") as source, open(self._full, "xb") as target:
            try:
                shutil.copyfileobj(source, target, _BUFFER)
                target.flush()
                if self._durable != "never":
                    flush_data(target.fileno())
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(self._full)
                raise


def _reserve(descriptor: int, position: int, size: int) -> bool:
    """Allocate space; after a refusal this is not tried again, and writes report the error."""
    return _fallocate is not None and _fallocate(descriptor, _KEEP_SIZE, position, size) == 0


def _create_folder(folder: str, pending: PendingFlushes | None) -> None:
    parent = os.path.dirname(folder)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
    except FileNotFoundError:
        _create_folder(parent, pending)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
    if pending is not None:
        pending.add_folder(parent)
