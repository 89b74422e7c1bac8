"""Parallel computation: the parts of one, on all processors."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_this_thread = threading.local()


def available_threads() -> int:
    """Return how many threads this process may use at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def keep_to_this_thread() -> None:
    """Have this thread share nothing from now on: it is one of those among which work is shared already."""
    _this_thread.is_one_of_many = True


def count_shares(size: int, least: int) -> int:
    """Into how many shares to cut some work here.

    Args:
        size: Of all of it.
        least: Below which a share takes less time than to hand it to another thread.
    """
    if size < 2 * least or getattr(_this_thread, "is_one_of_many", False):
        return 1
    return min(available_threads(), size // least)


def run_side_by_side(tasks: Sequence[Callable[[], _T]]) -> list[_T]:
    """Run tasks at the same time, the first one in this thread.

    Args:
        tasks: Loops that give the interpreter's lock away, at least one. Where one of another thread calls
            this, too, its tasks run in sequence, for the threads would wait for each other.

    Returns:
        The result of each.
    """
    if len(tasks) == 1 or getattr(_this_thread, "is_one_of_many", False):
        return [task() for task in tasks]
    others = _submit(tasks[1:])
    results: dict[int, _T] = {}
    try:
        results[0] = tasks[0]()
        for number in range(len(tasks) - 1, 0, -1):
            # On a busy machine a thread may take longer to get to its task than the task takes.
            if number > len(others) or others[number - 1].cancel():
                results[number] = tasks[number]()
    finally:
        # What they fill in must not go away under them.
        for other in others:
            if not other.cancel():
                other.exception()
    return [
        results[number] if number in results else others[number - 1].result() for number in range(len(tasks))
    ]


def drain_side_by_side(jobs: Iterable[Callable[[], object]]) -> None:
    """Run jobs at the same time, each in the next thread that has nothing to do.

    Args:
        jobs: The longest first; see `run_side_by_side`.
    """
    waiting = deque(jobs)

    def work() -> None:
        while waiting:
            try:
                job = waiting.popleft()
            except IndexError:
                return
            job()

    run_side_by_side([work] * min(available_threads(), max(1, len(waiting))))


def _submit(tasks: Sequence[Callable[[], _T]]) -> "list[Future[_T]]":
    """Have the pool run tasks: all of them, or none where the interpreter is about to end."""
    pool = _shared_pool()
    submitted: list[Future[_T]] = []
    for task in tasks:
        try:
            submitted.append(pool.submit(task))
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
            break
    return submitted


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(
                available_threads(), thread_name_prefix="lance-encode", initializer=keep_to_this_thread
            )
        return _pool


def _forget_pool() -> None:
    """The child of a fork has none of the threads, and perhaps a lock that is never released."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
