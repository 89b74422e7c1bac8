"""Prefetching: tasks run ahead of the consumer of their results, which keep their order."""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from operator import call
from queue import Empty, SimpleQueue
from typing import TypeVar

from lance_ops.storage import Store
from lance_ops.storage.fork_safe import new_lock

_I = TypeVar("_I")
_T = TypeVar("_T")

# More gain nothing: what each costs in Python is then more than what it waits.
_REMOTE_REQUESTS = 64


def has_latency(store: Store) -> bool:
    """Return whether requests take so long that it pays to overlap even small ones."""
    return "://" in store.uri and not store.uri.startswith("memory://")


def requests_at_once(store: Store) -> int:
    """Return how many small requests a store is sent concurrently: that follows the store, not the cores."""
    return _REMOTE_REQUESTS if has_latency(store) else 1


def prefetch(
    tasks: Iterator[Callable[[], _T]], threads: int, *, prepare: Callable[[], None] | None = None
) -> Iterator[_T]:
    """Run tasks and yield their results in order, `threads` of them ahead of the consumer.

    Args:
        tasks: Consumed on demand, in the consumer's thread.
        threads: With 1, each task runs when its result is requested; so does a single task.
        prepare: Initializer of each thread.
    """
    return _run_ahead(tasks, threads, prepare) if threads > 1 else map(call, tasks)


def _run_ahead(
    tasks: Iterator[Callable[[], _T]], threads: int, prepare: Callable[[], None] | None
) -> Iterator[_T]:
    # Threads are started, and waited for, where there is something to do side by side.
    first = list(islice(tasks, 2))
    tasks = chain(first, tasks)
    if len(first) < 2:
        yield from map(call, tasks)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="lance-scan", initializer=prepare) as pool:
        pending: deque[Future[_T]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(task))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            # The consumer may stop early, or a task fail: what has not started must not.
            for future in pending:
                future.cancel()


def look_at_many(
    items: Sequence[_I],
    look: Callable[[_I], _T],
    threads: int,
    *,
    deadline: float | None = None,
    waits: bool = True,
) -> Generator[tuple[_I, _T], None, None]:
    """Look at many items in threads, and yield each with the result, in the order in which the looks end.

    Close the iterator to end it early: until then, further looks begin.

    Args:
        items: The items; looks begin in their order.
        look: Looks at one item. Its error ends the iteration.
        threads: Number of looks at the same time.
        deadline: `time.monotonic()` from which on no look begins; None for no limit.
        waits: Whether the results of looks that have begun are awaited after the deadline. Otherwise such a
            look is left to itself, as one that hangs in a store that does not answer.
    """
    if not items:
        return
    remaining, taking = iter(items), new_lock()
    ended = threading.Event()
    results: SimpleQueue[tuple[_I, _T] | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            while not ended.is_set() and (deadline is None or time.monotonic() < deadline):
                with taking:
                    taken = list(islice(remaining, 1))
                if not taken:
                    break
                results.put((taken[0], look(taken[0])))
        except BaseException as error:  # noqa: BLE001 - raised again by the consumer
            results.put(error)
        finally:
            results.put(None)

    working = min(threads, len(items))
    pool = ThreadPoolExecutor(working, thread_name_prefix="lance-survey")
    try:
        for _ in range(working):
            pool.submit(work)
        while working:
            left = None if waits or deadline is None else max(0.0, deadline - time.monotonic())
            try:
                found = results.get(timeout=left)
            except Empty:
                return
            if isinstance(found, BaseException):
                raise found
            if found is None:
                working -= 1
            else:
                yield found
    finally:
        ended.set()
        pool.shutdown(wait=waits)


def side_by_side(store: Store, *tasks: Callable[[], _T]) -> Iterator[_T]:
    """Run a few tasks, concurrently if requests are slow; otherwise each when its result is requested."""
    return prefetch(iter(tasks), len(tasks) if has_latency(store) else 1)


def read_small(store: Store, reads: Iterator[Callable[[], _T]]) -> Iterator[_T]:
    """Run reads of a few kilobytes each, concurrently if requests are slow.

    Args:
        store: Store that they read from mostly.
        reads: Consumed on demand.
    """
    return prefetch(reads, requests_at_once(store))
