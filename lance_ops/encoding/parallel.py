"""Parallel computation: the parts of one, on all processors."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def available_threads() -> int:
    """How many threads this process may use at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_side_by_side(tasks: Sequence[Callable[[], _T]]) -> list[_T]:
    """Run tasks at the same time, the first one in this thread.

    Args:
        tasks: Loops that give the interpreter's lock away, at least one. They must not call this themselves:
            the threads are shared, and would wait for each other.

    Returns:
        The result of each.
    """
    if len(tasks) == 1:
        return [tasks[0]()]
    others = [_shared_pool().submit(task) for task in tasks[1:]]
    first = tasks[0]()
    return [first, *(other.result() for other in others)]


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(available_threads(), thread_name_prefix="lance-encode")
        return _pool


def _forget_pool() -> None:
    """The child of a fork has none of the threads, and perhaps a lock that nobody will release."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
