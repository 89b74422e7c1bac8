"""Runner: executes the tasks of an operation, in threads here, on executors in `lance_ops.spark`."""

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from functools import cache
from numbers import Integral
from threading import Condition
from typing import Generic, Protocol, TypeVar

from lance_ops.errors import (
    InvalidArgumentError,
    LanceOpsError,
    PermissionDeniedError,
    StorageFullError,
    TaskFailedError,
    check_type,
)

T = TypeVar("T")
R = TypeVar("R")

_SAID_BY_TYPE = (StorageFullError, PermissionDeniedError)

OnDone = Callable[[int, R], None]
"""Receives (index of the task, its result)."""


class Runner(Protocol):
    """Maps tasks of one operation; runners never commit.

    `function` is a module-level function, tasks and results are picklable values. A function may run more
    than once for one task (a lost executor), so it writes files under fresh names only.
    """

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], *, on_done: OnDone[R] | None = None
    ) -> list[R]:
        """Run `function` on every task and return the results in the order of the tasks.

        Args:
            function: What to run.
            tasks: Its arguments, one each.
            on_done: Called in the caller's thread for every task that finished, also for those that finish
                after another one failed: the operation needs them to remove their files.

        Raises:
            TaskFailedError: a task failed. It is raised only when no task of this call runs any more.
            StorageFullError: so, because there was no space left.
            PermissionDeniedError: so, because the store refused.
        """
        ...


def slots_of(runner: Runner) -> int:
    """Return how many tasks a runner executes concurrently; 1 if unknown."""
    if isinstance(runner, LocalRunner):
        return runner.threads
    try:
        return max(1, int(getattr(runner, "slots", 1)))
    except (TypeError, ValueError):
        return 1


def in_few_jobs(runner: Runner, jobs: int) -> Runner:
    """Return the runner, or an equivalent one with a maximum number of jobs per call.

    Many short tasks wait less for each other than for the jobs between them.
    """
    limited = getattr(runner, "with_jobs", None)
    return limited(jobs) if callable(limited) else runner


@cache
def _cores() -> int:
    # The system reads a file to answer, and every operation asks.
    return os.cpu_count() or 1


class LocalRunner:
    """Runs tasks on threads of this process; reading and encoding mostly release the interpreter lock.

    Args:
        threads: How many tasks run at once; the number of cores by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            check_type(threads, Integral, "a number of threads", field="threads")
        if threads is not None and threads < 1:
            raise InvalidArgumentError(f"threads must be at least 1, got {threads}", field="threads")
        self.threads = threads or _cores()

    def __repr__(self) -> str:
        return f"LocalRunner(threads={self.threads})"

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], *, on_done: OnDone[R] | None = None
    ) -> list[R]:
        """See `Runner.map`."""
        if self.threads == 1 or len(tasks) < 2:
            return _run_in_turn(function, tasks, on_done)
        return _run_on_threads(function, tasks, on_done, min(self.threads, len(tasks)))


def _run_in_turn(function: Callable[[T], R], tasks: Sequence[T], on_done: OnDone[R] | None) -> list[R]:
    results: list[R] = []
    for index, task in enumerate(tasks):
        try:
            result = function(task)
        except Exception as error:
            raise task_failed(index, len(tasks), error) from error
        results.append(result)
        if on_done is not None:
            on_done(index, result)
    return results


class _Recorded(Generic[T, R]):
    """A function whose results are kept by the thread that made them, and that can be stopped.

    An interrupt may reach the caller's thread anywhere, while the pool starts a thread that it then neither
    knows nor waits for, too. So results and running calls are counted here.
    """

    def __init__(self, function: Callable[[T], R]) -> None:
        self.results: dict[int, R] = {}
        self._function = function
        self._changed = Condition()
        self._running = 0
        self._stopped = False

    def __call__(self, index: int, task: T) -> R:
        with self._changed:
            if self._stopped:
                raise CancelledError
            self._running += 1
        try:
            result = self.results[index] = self._function(task)
        except Exception:
            # The others were for nothing.
            self._stopped = True
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()
        return result

    def stop(self) -> None:
        """Prevent further calls, and wait for running ones."""
        with self._changed:
            self._stopped = True
            self._changed.wait_for(lambda: not self._running)


def _run_on_threads(
    function: Callable[[T], R], tasks: Sequence[T], on_done: OnDone[R] | None, threads: int
) -> list[R]:
    recorded = _Recorded(function)
    told: set[int] = set()
    failure: tuple[int, Exception] | None = None
    with ThreadPoolExecutor(threads, thread_name_prefix="lance-ops") as pool:
        try:
            indices: dict[Future[R], int] = {
                pool.submit(recorded, index, task): index for index, task in enumerate(tasks)
            }
            for future in as_completed(indices):
                if future.cancelled():
                    continue
                index = indices[future]
                try:
                    result = future.result()
                except CancelledError:
                    continue
                except Exception as error:  # noqa: BLE001 - raised below, once nothing runs any more
                    failure = failure or (index, error)
                    _cancel(indices)
                    continue
                told.add(index)
                if on_done is not None:
                    on_done(index, result)
        except BaseException:
            # Interrupted, or the listener failed: what is running ends, and its files have to be known.
            recorded.stop()
            if on_done is not None:
                for index in sorted(recorded.results.keys() - told):
                    with contextlib.suppress(Exception):
                        on_done(index, recorded.results[index])
            raise
    if failure is not None:
        raise task_failed(failure[0], len(tasks), failure[1]) from failure[1]
    return [recorded.results[index] for index in range(len(tasks))]


def _cancel(futures: dict[Future[R], int]) -> None:
    for future in futures:
        future.cancel()


def task_failed(index: int, total: int, error: Exception) -> LanceOpsError:
    """The error of an operation whose task `index` (from 0) of `total` raised `error`.

    A `TaskFailedError`; but of the type of `error` when that says what the caller has to do something about.
    """
    origin: BaseException = error
    while isinstance(origin, TaskFailedError) and origin.__cause__ is not None:
        origin = origin.__cause__
    kind: type[LanceOpsError] = next((k for k in _SAID_BY_TYPE if isinstance(origin, k)), TaskFailedError)
    return kind(
        f"task {index + 1} of {total} failed: {type(error).__name__}: {error}; nothing was committed",
        path=error.path if isinstance(error, LanceOpsError) else None,
    )
