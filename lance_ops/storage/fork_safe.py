"""Fork-safe locks: those that a forked process finds open, whoever of its parent's threads held them."""

import contextlib
import os
import threading
import weakref

_every: "weakref.WeakSet[threading.Lock]" = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A lock for a few steps in memory, each of which leaves what it guards in a state to go on from.

    The threads of a process that forks do not live on in its child: a lock that one of them held at that
    moment would never be released there.
    """
    lock = threading.Lock()
    _every.add(lock)
    return lock


def _after_fork() -> None:
    for lock in list(_every):
        with contextlib.suppress(RuntimeError):
            lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
