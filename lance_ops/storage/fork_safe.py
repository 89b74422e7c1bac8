"""Fork-safe locks: a forked process finds them open, whichever thread of its parent held them."""

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

_every: "weakref.WeakSet[Any]" = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """Return a lock for a few steps in memory, each of which leaves what it guards in a usable state.

    The threads of a process that forks do not exist in its child, so a lock that one of them held would never
    be released there.
    """
    lock = threading.Lock()
    _every.add(lock)
    return lock


class cached_property(functools.cached_property[_T]):  # noqa: N801 - stands for the one of the library
    """`functools.cached_property` without its danger in forks.

    Up to Python 3.11 all instances share one lock, which is held while any of them computes its value.
    """

    if sys.version_info < (3, 12):

        def __init__(self, compute: Callable[[Any], _T]) -> None:
            super().__init__(compute)
            _every.add(self.lock)  # type: ignore[attr-defined]


def _after_fork() -> None:
    # `release` is not enough: a thread that had just acquired the lock, and was still waiting for the
    # interpreter, leaves it locked and yet marked as released.
    for lock in list(_every):
        lock._at_fork_reinit()  # noqa: SLF001 - as the standard library does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
