"""What was written and not yet flushed to the disk: folders with new names, and files that may wait.

Flushing each at once would make the disk write its journal again and again. Whatever is recorded here is
flushed in one go before the next durable file gets its name: no name on the disk speaks of something that a
power cut could still lose. Large files are on their way before that.

Once all bytes are on their way, the first flush of a file system with a journal brings it to the disk, and
leaves the next ones little to wait for; without a journal each waits for blocks of its own. So threads help
where the last file took the disk long, from the beginning: on a disk that answers at once, they cost more
than they save.
"""

import _thread
import contextlib
import errno
import os
import threading
import time
import weakref
from collections.abc import Sequence

from lance_ops.errors import LanceOpsError, NotFlushedError, StorageError
from lance_ops.storage.failures import translate_os_error
from lance_ops.storage.local.writeback import start_writeback

# Some file systems cannot flush folders, and keep names safe by other means.
_NO_FOLDER_FLUSH = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF})

# Descriptors are few.
_MOST_FILES = 16
# Threads beside the one that waits, each for two flushes or more.
_MOST_HELPERS = 8
# Seconds of a flush above which the next ones are worth threads, of which starting one takes 0.05 ms.
_SLOW = 0.0002

flush_data = getattr(os, "fdatasync", os.fsync)
"""Bring the bytes of an open file to the disk, given its descriptor."""


class _Pace:
    """Whether the disk is one that makes wait, as the last file told."""

    is_slow = True


class Flush:
    """A file or a folder on its way to the disk.

    Args:
        path: Absolute.
        descriptor: Of a file, closed at the end; None for a folder.
    """

    __slots__ = ("_claim", "_done", "_owner", "counts", "descriptor", "error", "path")

    def __init__(self, owner: "Unflushed", path: str, descriptor: int | None, *, counts: bool = True) -> None:
        self._owner = owner
        self.path = path
        self.descriptor = descriptor
        self.counts = counts
        # Until it is known to be there, even if whoever brings it is interrupted.
        self.error: OSError | None = OSError(errno.EINTR, "the flush was interrupted")
        self._claim = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        """Do it, unless somebody does or did."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            if self.descriptor is None:
                flush_folder(self.path)
            else:
                begun = time.monotonic()
                flush_data(self.descriptor)
                _Pace.is_slow = time.monotonic() - begun > _SLOW
            self.error = None
        except OSError as error:
            self.error = error
        finally:
            self._owner.settle(self)
            self._done.release()

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

    def start(self) -> Sequence[Flush]:
        """Have the system begin to bring everything recorded to the disk.

        Returns:
            What there is, for `finish`.
        """
        with self._lock:
            files = [Flush(self, path, descriptor) for path, descriptor in self._files.items()]
            folders = [Flush(self, folder, None) for folder in self._folders]
            # From here on whoever comes next waits for these, too. First of all: nothing gets lost between,
            # for a fork or an interrupt may come at any place.
            self._running.update(dict.fromkeys((*files, *folders)))
            self._files, self._folders = {}, {}
            everything = tuple(self._running)
        for flush in files:
            assert flush.descriptor is not None
            start_writeback(flush.descriptor)
        if _Pace.is_slow:
            _help(everything)
        return everything

    def finish(self, started: Sequence[Flush]) -> None:
        """Bring what was started to the disk.

        Raises:
            OSError: A folder could not be flushed.
            NotFlushedError: A file could not be. It stays so while the file is there: the system tells once
                that it lost bytes, and a second flush would succeed without them.
            StorageError: So, of a more telling type.
        """
        helped = _Pace.is_slow
        for number, flush in enumerate(started, start=1):
            flush.run()
            if _Pace.is_slow and not helped:
                helped = True
                _help(started[number:])
        for flush in started:
            flush.wait()
        with self._lock:
            lost = next(iter(self._lost.items()), None)
        if lost is not None:
            raise _not_flushed(*lost)
        for flush in started:
            if flush.error is not None and flush.descriptor is None:
                raise flush.error

    def flush(self) -> None:
        """Bring everything recorded to the disk; raises as `finish` does."""
        self.finish(self.start())

    def settle(self, flush: Flush) -> None:
        """Take note of how a flush ended."""
        with self._lock:
            del self._running[flush]
            if flush.error is not None and flush.descriptor is None:
                self._folders[flush.path] = None
            elif flush.error is not None and flush.counts:
                self._lost[flush.path] = flush.error
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


def _help(flushes: Sequence[Flush]) -> None:
    """Have threads go through flushes, each taking the next one that nobody does."""

    def run() -> None:
        for flush in flushes:
            flush.run()

    with contextlib.suppress(RuntimeError):
        for _ in range(min(_MOST_HELPERS, (len(flushes) + 1) // 2)):
            _thread.start_new_thread(run, ())


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
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_FLUSH:
            raise
    finally:
        os.close(descriptor)
