"""What was written and not yet flushed to the disk: folders with new names, and files that may wait.

Flushing each at once would make the disk write its journal again and again. Whatever is recorded here is
flushed in one go before the next durable file gets its name: no name on the disk speaks of something that a
power cut could still lose. Large files are on their way before that.

Once all bytes are on their way, the kernel flushes all files and folders side by side, where it can.
"""

import _thread
import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Sequence

from lance_ops.errors import LanceOpsError, NotFlushedError, StorageError
from lance_ops.storage.failures import translate_os_error
from lance_ops.storage.local.kernel_flush import Request, flush_by_kernel
from lance_ops.storage.local.writeback import start_writeback

# Some file systems cannot flush folders, and keep names safe by other means.
_NO_FOLDER_FLUSH = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF})

# Descriptors are few.
_MOST_FILES = 16

flush_data = getattr(os, "fdatasync", os.fsync)
"""Bring the bytes of an open file to the disk, given its descriptor."""

flush_names = os.fsync
"""Bring the names in an open folder to the disk, given its descriptor."""


class Flush:
    """A file or a folder on its way to the disk.

    Args:
        path: Absolute.
        descriptor: Of a file, closed at the end; None for a folder.
    """

    __slots__ = ("_by", "_done", "_ended", "_owner", "counts", "descriptor", "error", "path")

    def __init__(self, owner: "Unflushed", path: str, descriptor: int | None, *, counts: bool = True) -> None:
        self._owner = owner
        self.path = path
        self.descriptor = descriptor
        self.counts = counts
        # Until it is known to be there, even if whoever brings it is interrupted.
        self.error: OSError | None = OSError(errno.EINTR, "the flush was interrupted")
        self._by: dict[str, object] = {}
        self._ended = False
        self._done = threading.Lock()
        self._done.acquire()

    def claim(self, by: object) -> bool:
        """Whether it is for this one to do, who then has to `end` it; in one step, whatever interrupts."""
        return self._by.setdefault("by", by) is by

    def end(self, by: object) -> None:
        """Tell that it is over, if this one claimed it; `error` says how it went. May be called again."""
        if self._by.get("by") is not by:
            return
        self._owner.settle(self)
        if not self._ended:
            # Nothing interrupts between these two.
            self._ended = True
            self._done.release()

    def run(self) -> None:
        """Do it, unless somebody does or did."""
        _bring((self,))

    def wait(self) -> None:
        """Return when it has ended; `error` tells how."""
        self.run()
        with self._done:
            pass


class Unflushed:
    """Of one store; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[str, None] = {}
        self._files: dict[str, int] = {}
        self._running: dict[Flush, None] = {}
        self._lost: dict[str, OSError] = {}
        _every.add(self)

    def add_folder(self, folder: str) -> None:
        """Record a folder in which a name is new.

        Args:
            folder: Absolute path.
        """
        with self._lock:
            self._folders[folder] = None

    def add_file(self, path: str, descriptor: int, *, at_once: bool = False) -> None:
        """Record a new file.

        Args:
            path: Absolute path that it has by now.
            descriptor: It is open; the descriptor stays the caller's.
            at_once: Let the disk begin, because there is much to write.
        """
        own = os.dup(descriptor)
        # What had the name before is gone.
        self.forget(path)
        with self._lock:
            full = len(self._files) + len(self._running) >= _MOST_FILES
            started = [Flush(self, path, own)] if at_once else []
            if not started:
                self._files[path] = own
            self._running.update(dict.fromkeys(started))
        _launch(started)
        if full:
            self.flush()

    def forget(self, path: str) -> None:
        """Note that a file is gone: nobody needs it on the disk."""
        with self._lock:
            self._lost.pop(path, None)
            descriptor = self._files.pop(path, None)
            for flush in self._running:
                if flush.path == path:
                    flush.counts = False
        if descriptor is not None:
            os.close(descriptor)

    def flush(self, descriptor: int | None = None) -> None:
        """Bring everything recorded to the disk.

        Args:
            descriptor: Of an open file that is flushed with it.

        Raises:
            OSError: That file could not be flushed, or a folder.
            NotFlushedError: A recorded file could not be. It stays so while the file is there: the system
                tells once that it lost bytes, and a second flush would succeed without them.
            StorageError: So, of a more telling type.
        """
        started = self._start()
        failure = _bring(started, descriptor)
        for flush in started:
            flush.wait()
        if failure is not None:
            raise failure
        with self._lock:
            lost = next(iter(self._lost.items()), None)
        if lost is not None:
            raise _not_flushed(*lost)
        for flush in started:
            if flush.error is not None and flush.descriptor is None:
                raise flush.error

    def _start(self) -> Sequence[Flush]:
        """Take everything recorded, and what others are about to flush."""
        with self._lock:
            files = [Flush(self, path, descriptor) for path, descriptor in self._files.items()]
            folders = [Flush(self, folder, None) for folder in self._folders]
            # From here on whoever comes next waits for these, too. First of all: nothing gets lost between,
            # for a fork or an interrupt may come at any place.
            self._running.update(dict.fromkeys((*files, *folders)))
            self._files, self._folders = {}, {}
            return tuple(self._running)

    def settle(self, flush: Flush) -> None:
        """Take note of how a flush ended."""
        with self._lock:
            if flush not in self._running:
                return
            if flush.error is not None and flush.descriptor is None:
                self._folders[flush.path] = None
            elif flush.error is not None and flush.counts:
                self._lost[flush.path] = flush.error
            del self._running[flush]
        if flush.descriptor is not None:
            os.close(flush.descriptor)

    def take_over(self) -> None:
        """Make this copy, of a process that was forked, independent of the threads of its parent."""
        # One of them may hold it.
        self._lock = threading.Lock()
        # Nobody is at these here, and what this process writes may rest on them.
        running = {
            Flush(self, flush.path, flush.descriptor, counts=flush.counts): None for flush in self._running
        }
        taken = {flush.descriptor for flush in running}
        self._running = running
        self._files = {path: number for path, number in self._files.items() if number not in taken}

    def __del__(self) -> None:
        for descriptor in self._files.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)


_every: "weakref.WeakSet[Unflushed]" = weakref.WeakSet()


def _after_fork() -> None:
    for unflushed in list(_every):
        unflushed.take_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _launch(flushes: Sequence[Flush]) -> None:
    # Whoever waits does what no thread could be had for.
    with contextlib.suppress(RuntimeError):
        for flush in flushes:
            _thread.start_new_thread(flush.run, ())


def _bring(flushes: Sequence[Flush], descriptor: int | None = None) -> OSError | None:
    """Do those flushes that nobody does or did, and that of an open file.

    Whoever comes next waits for what is claimed. So all is ended, even if a signal interrupts that, too.

    Returns:
        What happened to the open file.
    """
    by, left = object(), list(flushes)
    interrupt: BaseException | None = None
    try:
        return _bring_claimed([flush for flush in flushes if flush.claim(by)], descriptor)
    finally:
        while left:
            try:
                left[-1].end(by)
                left.pop()
            except BaseException as error:  # noqa: BLE001 - raised at the end
                interrupt = error
        if interrupt is not None:
            raise interrupt


def _bring_claimed(flushes: Sequence[Flush], descriptor: int | None) -> OSError | None:
    """Do flushes, and that of an open file, side by side where the kernel can; see `_bring`."""
    own = [] if descriptor is None else [Request(descriptor, is_folder=False)]
    opened: list[int] = []
    known: list[tuple[Flush, Request]] = []
    try:
        for flush in flushes:
            if flush.descriptor is not None:
                known.append((flush, Request(flush.descriptor, is_folder=False)))
            elif (folder := _open_folder(flush)) is not None:
                opened.append(folder)
                known.append((flush, Request(folder, is_folder=True)))
        requests = [*own, *(request for _, request in known)]
        errors = _flush_together(requests)
        for (flush, _), error in zip(known, errors[len(own) :], strict=True):
            flush.error = error
        return errors[0] if own else None
    finally:
        for folder in opened:
            os.close(folder)


def _flush_together(requests: Sequence[Request]) -> list[OSError | None]:
    answers: Sequence[int | None] = [None] * len(requests)
    if len(requests) > 1:
        # All blocks are found and on their way before anything waits: one write of the journal tells of all.
        for request in requests:
            if not request.is_folder:
                start_writeback(request.descriptor)
        answers = flush_by_kernel(requests)
    return [_ended(request, answer) for request, answer in zip(requests, answers, strict=True)]


def _ended(request: Request, answer: int | None) -> OSError | None:
    """How a flush ended, which is done here if it is not yet."""
    try:
        if answer is None:
            (flush_names if request.is_folder else flush_data)(request.descriptor)
            return None
    except OSError as error:
        answer = error.errno or errno.EIO
    if not answer or (request.is_folder and answer in _NO_FOLDER_FLUSH):
        return None
    return OSError(answer, os.strerror(answer))


def _open_folder(flush: Flush) -> int | None:
    """Open the folder of a flush, which tells how that ended; one that is gone has no names to flush."""
    try:
        return os.open(flush.path, os.O_RDONLY)
    except FileNotFoundError:
        flush.error = None
    except OSError as error:
        flush.error = error
    return None


def _not_flushed(path: str, error: OSError) -> LanceOpsError:
    translated = translate_os_error(error, path, reading=False)
    if type(translated) is not StorageError:
        return translated
    return NotFlushedError(
        f"a file that was written before could not be brought to the disk: {error.strerror or error}",
        path=path,
        hint="see to the disk, then write again",
    )


def flush_folder(folder: str) -> None:
    """Bring the names in a folder to the disk, where the file system can; one that is gone has none."""
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
