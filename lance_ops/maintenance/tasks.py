"""Tasks of an operation, run so that a failure leaves no files behind."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from lance_ops.errors import CommitOutcomeUnknownError, LanceOpsError, TaskFailedError, UnsupportedError
from lance_ops.file.io.side_files import list_side_files
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.runner import Runner
from lance_ops.storage import Store

T = TypeVar("T")
R = TypeVar("R")


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


def remove_files(store: Store, paths: Iterable[str]) -> None:
    """Delete files that no version refers to, as far as the store lets us.

    The caller proves that none does: the operation failed before its commit, or the commit is known not to
    be there. A store that fails here must not hide the error that led here; cleanup removes the rest.

    Args:
        store: Of the dataset.
        paths: Files; of what ends in a slash, all that lies in the folder.
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
    """Whether a commit that ended with this error is known not to be there, so that its files may be deleted.

    `table.commit` reads the version back after every failure of the store, and says so when it cannot tell.
    Anything that is no error of ours (an interrupt, a bug) may have come at any point.
    """
    return isinstance(error, LanceOpsError) and not isinstance(error, CommitOutcomeUnknownError)
