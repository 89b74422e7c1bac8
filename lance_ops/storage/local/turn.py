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

# Descriptors whose locks this process holds: a child shares them until it closes its own.
_held: set[int] = set()
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.002
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

        Returns:
            Whether it is; False at once where the file system has no such locks.
        """
        if self.is_held:
            return True
        try:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        until = time.monotonic() + seconds
        pause = _SHORTEST_PAUSE
        try:
            while not _try_lock(descriptor):
                left = until - time.monotonic()
                if left <= 0:
                    os.close(descriptor)
                    return False
                # The lock has no time limit of its own. Uneven pauses, lest all ask at one moment.
                time.sleep(min(left, pause * random.uniform(0.5, 1.0)))  # noqa: S311 - no secret
                pause = min(2 * pause, _LONGEST_PAUSE)
        except OSError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
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
