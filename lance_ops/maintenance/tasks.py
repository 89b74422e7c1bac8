"""Tasks of an operation, run so that a failure leaves no files behind.

Missing files: a cleanup may remove them while an operation reads their version.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    JobCancelledError,
    LanceOpsError,
    NotFoundError,
    PermissionDeniedError,
    PredicateError,
    RetryableCommitConflictError,
    SchemaMismatchError,
    StorageFullError,
    TaskFailedError,
    UnreadableIndexError,
    UnsupportedError,
)
from lance_ops.file.io.side_files import list_side_files
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.runner import Runner
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there
from lance_ops.table.dataset import Dataset

T = TypeVar("T")
R = TypeVar("R")

_CONCERNS_ALL = (UnsupportedError, StorageFullError, PermissionDeniedError, JobCancelledError)


def run_tasks(
    runner: Runner,
    function: Callable[[T], R],
    tasks: Sequence[T],
    *,
    report: Reporter,
    message: str,
    discard: Callable[[list[R]], None] | None = None,
) -> list[R]:
    """Map the tasks, report each finished one, and hand the finished results to `discard` when it fails.

    No commit refers to the files of a failed operation, so `discard` may delete them at once. A task that
    failed removes its own files; those of an executor that died wait for the grace period of cleanup.

    Raises:
        TaskFailedError: a task failed.
        StorageFullError: a task found no space left.
        PermissionDeniedError: the store refused a task.
        UnsupportedError: a task found a storage version or feature that is not implemented.
    """
    finished: dict[int, R] = {}

    def on_done(index: int, result: R) -> None:
        finished[index] = result
        report(message, len(finished), len(tasks))

    report(message, 0, len(tasks))
    try:
        return runner.map(function, tasks, on_done=on_done)
    except BaseException as error:
        if discard is not None:
            discard(list(finished.values()))
        if isinstance(error, TaskFailedError) and isinstance(error.__cause__, UnsupportedError):
            # Not the failure of one task: what the dataset is made of is not implemented.
            raise error.__cause__ from None
        raise


@dataclass(frozen=True, slots=True)
class Attempted(Generic[R]):
    """Outcome of a task that may fail without ending the operation: a result or an error."""

    result: R | None = None
    error: Exception | None = None

    def failure(self) -> Exception:
        """The error."""
        return self.error or TaskFailedError("the task returned nothing")


@dataclass(frozen=True, slots=True)
class _Attempting(Generic[T, R]):
    """A function whose errors are results; serializable for executors."""

    function: Callable[[T], R]

    def __call__(self, task: T) -> Attempted[R]:
        try:
            return Attempted(self.function(task))
        except _CONCERNS_ALL:
            raise
        except Exception as error:  # noqa: BLE001 - the operation says which task it cost
            return Attempted(error=error)


def attempt_tasks(
    runner: Runner,
    function: Callable[[T], R],
    tasks: Sequence[T],
    *,
    on_done: Callable[[int, Attempted[R]], None],
) -> None:
    """Map tasks that may fail without stopping the others.

    Args:
        runner: Executes them.
        function: The function; must not return None.
        tasks: Its arguments.
        on_done: Called in this thread for every finished task, with its position and outcome; if the runner
            itself fails, for all others.

    Raises:
        StorageFullError: a task found no space left, which the others would not find either.
        PermissionDeniedError: the store refused a task.
        UnsupportedError: a task found a storage version or feature that is not implemented.
        JobCancelledError: the job was ended meanwhile.
    """
    left = set(range(len(tasks)))
    raised: list[BaseException] = []

    def note(place: int, outcome: Attempted[R]) -> None:
        left.discard(place)
        try:
            on_done(place, outcome)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        runner.map(_Attempting(function), tasks, on_done=note)
    except TaskFailedError as error:
        if raised:
            raise
        if isinstance(error.__cause__, _CONCERNS_ALL):
            raise error.__cause__ from None
        for place in sorted(left):
            on_done(place, Attempted(error=error))


def remove_files(store: Store, paths: Iterable[str]) -> None:
    """Delete files that no version refers to, as far as the store allows.

    The caller proves that none does: the operation failed before its commit, or the commit is known not to be
    there. A failing store must not hide the original error; cleanup removes the rest.

    Args:
        store: Of the dataset.
        paths: Files; a path with a final slash means all files in the folder.
    """
    for path in _with_side_files(store, paths):
        try:
            store.delete(path)
        except LanceOpsError:
            continue


def _with_side_files(store: Store, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if path.endswith("/"):
            with contextlib.suppress(LanceOpsError):
                yield from [info.path for info in store.list(path.removesuffix("/"))]
            continue
        with contextlib.suppress(LanceOpsError):
            yield from [side for side, _ in list_side_files(store, path)]
        yield path


def is_not_committed(error: BaseException) -> bool:
    """Return whether a commit with this error is known to have failed, so that its files may be deleted.

    `table.commit` reads the version back after every failure of the store, and reports an unknown outcome.
    Other exceptions (an interrupt, a bug) may occur at any time.
    """
    return isinstance(error, LanceOpsError) and not isinstance(error, CommitOutcomeUnknownError)


@contextlib.contextmanager
def said_by_rows() -> Iterator[None]:
    """Raise the error about a value itself, not the failure of one of many tasks."""
    try:
        yield
    except TaskFailedError as error:
        cause: BaseException | None = error
        while isinstance(cause, TaskFailedError):
            cause = cause.__cause__
        if isinstance(cause, (SchemaMismatchError, PredicateError)):
            raise cause from None
        raise


# What a missing file ends in: at once, inside a task wherever it ran, or inside an index.
_SIGNS = (NotFoundError, TaskFailedError, UnreadableIndexError)


@contextlib.contextmanager
def reading(dataset: Dataset, ours: str) -> Iterator[None]:
    """Read a version that a cleanup may remove meanwhile: then plan again on the head instead of failing.

    Cleanup removes the manifest of a version before the files that only this version used. So a missing file
    of an existing manifest is reported as damage.

    Args:
        dataset: The version.
        ours: Name of the reader, for the message.

    Raises:
        RetryableCommitConflictError: The version was removed.
    """
    try:
        yield
    except _SIGNS as error:
        store, path = dataset.store, dataset.location.path
        if is_there(store, path):
            raise
        raise RetryableCommitConflictError(
            "the version was removed while it was read",
            ours=f"{ours} of version {dataset.version}",
            theirs=f"a cleanup that removed version {dataset.version}",
            version=dataset.version,
            path=dataset.uri,
            hint="keep versions in cleanup for longer than operations take",
        ) from error
