"""Turn: one writer after the other, by a lock on a folder's own descriptor, which leaves nothing behind.

The kernel frees it when the holder dies, however it dies. It is advice among those who ask for it and proves
nothing: whoever waits in vain, or on a file system without such locks, goes on without.
"""

import contextlib
import errno
import fcntl
import os
import random
import time
from pathlib import Path

# Descriptors whose locks this process holds: a child shares them until it closes its own.
_held: set[int] = set()
# Folders whose turn did not end in the longest wait: the process that had it all the while, and until when it
# is not waited for again.
_hanging: dict[tuple[int, int], tuple[int, float]] = {}
_LONG = 0.5
_NOT_AGAIN_FOR = 60.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.002
_LOCKS = "/proc/locks"
_TAKEN = frozenset({errno.EWOULDBLOCK, errno.EACCES, errno.EINTR})


class FolderTurn:
    """The turn of one writer in a folder; not to be shared by threads.

    Args:
        folder: Absolute path; where there is none, or it cannot be read, there are no turns either.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._process = 0

    @property
    def is_held(self) -> bool:
        """Whether it is this writer's turn."""
        return self._descriptor is not None

    def wait(self, seconds: float) -> bool:
        """Wait until it is this writer's turn, at most so long.

        Whoever waited long and in vain for a process, one that is stopped as a rule, does not wait for the
        same one again until it got a turn, or a minute has passed. Who that is, only Linux tells.

        Returns:
            Whether it is; False at once where the file system has no such locks.
        """
        if self.is_held:
            return True
        try:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            found = os.fstat(descriptor)
            got = _wait_for(descriptor, (found.st_dev, found.st_ino), seconds)
        except OSError:
            got = False
        except BaseException:
            os.close(descriptor)
            raise
        if not got:
            os.close(descriptor)
            return False
        self._descriptor, self._process = descriptor, os.getpid()
        _held.add(descriptor)
        return True

    def end(self) -> None:
        """Let the next writer go on; does nothing when it is not this writer's turn."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None or self._process != os.getpid():
            # In a child that was forked meanwhile: the turn is its parent's.
            return
        _held.discard(descriptor)
        with contextlib.suppress(OSError):
            # Not by closing alone: a child that was forked this moment may have the descriptor, too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _wait_for(descriptor: int, folder: tuple[int, int], seconds: float) -> bool:
    """Take the lock, and remember of a holder that keeps it for long."""
    until = time.monotonic() + seconds
    pause, seen, looked = _SHORTEST_PAUSE, 0, False
    while not _try_lock(descriptor):
        now = time.monotonic()
        left = until - now
        hanging, again = _hanging.get(folder, (0, now))
        if now < again:
            if hanging == _holder(folder):
                return False
            # It went on: that it has the turn another time is no reason not to wait.
            _hanging.pop(folder, None)
        if left <= 0:
            if looked and seen and seen == _holder(folder):
                _hanging[folder] = (seen, now + _NOT_AGAIN_FOR)
            return False
        if not looked and seconds >= _LONG and left <= seconds / 2:
            # Half of a long wait: among writers that come and go, another one will have it at the end.
            seen, looked = _holder(folder), True
        # The lock has no time limit of its own. Uneven pauses, lest all ask at one moment.
        time.sleep(min(left, pause * random.uniform(0.5, 1.0)))  # noqa: S311 - no secret
        pause = min(2 * pause, _LONGEST_PAUSE)
    _hanging.pop(folder, None)
    return True


def _holder(folder: tuple[int, int]) -> int:
    """The process that has the lock on a folder, by its device and inode; 0 where that is not told."""
    device, inode = folder
    place = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    try:
        told = [line.split() for line in Path(_LOCKS).read_text("ascii").splitlines()]
    except (OSError, ValueError):
        return 0
    # Such as "1: FLOCK  ADVISORY  WRITE 4711 fe:00:123 0 EOF"; a process of another container is 0 or less.
    found = (fields[4] for fields in told if fields[1:2] == ["FLOCK"] and fields[5:6] == [place])
    holder = next(found, "0")
    return int(holder) if holder.isdecimal() else 0


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _after_fork() -> None:
    """The child gives up what it shares: else the turn would last as long as it lives, if the parent dies."""
    for descriptor in list(_held):
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
