import pytest

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    RetryableCommitConflictError,
    StorageError,
    TaskFailedError,
    UnsupportedVersionError,
)
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.maintenance.tasks import is_not_committed, remove_files, run_tasks
from lance_ops.storage import open_store
from tests.support.faulty_store import FaultyStore


def run(function, tasks, **options):
    return run_tasks(LocalRunner(1), function, tasks, report=Reporter("test"), message="working", **options)


def test_finished_results_are_handed_over_when_a_later_task_fails():
    def work(number):
        if number == 3:
            raise StorageError("full")
        return number * 10

    discarded = []
    with pytest.raises(TaskFailedError, match="full"):
        run(work, [1, 2, 3, 4], discard=discarded.extend)
    assert discarded == [10, 20]


def test_an_interrupt_discards_too():
    def work(number):
        if number == 2:
            raise KeyboardInterrupt
        return number

    discarded = []
    with pytest.raises(KeyboardInterrupt):
        run(work, [1, 2], discard=discarded.extend)
    assert discarded == [1]


def test_what_is_not_implemented_is_said_as_such():
    def work(number):
        raise UnsupportedVersionError("storage version 9.9 is not supported")

    with pytest.raises(UnsupportedVersionError, match=r"9\.9"):
        run(work, [1])


def test_progress_counts_finished_tasks():
    events = []
    report = Reporter("test", events.append)
    run_tasks(LocalRunner(1), str, [1, 2], report=report, message="working")
    assert [(event.done, event.total, event.message) for event in events] == [
        (0, 2, "working"),
        (1, 2, "working"),
        (2, 2, "working"),
    ]


def test_files_that_cannot_be_removed_do_not_hide_the_error_that_led_here(tmp_path):
    store = open_store(str(tmp_path))
    for name in "abc":
        store.put(f"data/{name}", b"x")
    faulty = FaultyStore(store, fail_at=2, mode="error")
    remove_files(faulty, ["data/a", "data/b", "data/c", "data/never"])
    assert [info.path for info in store.list("data")] == ["data/b"]


def test_only_an_unknown_outcome_or_a_foreign_error_keeps_the_files():
    assert is_not_committed(RetryableCommitConflictError("collides", ours="a", theirs="b"))
    assert is_not_committed(StorageError("refused"))
    assert not is_not_committed(CommitOutcomeUnknownError("who knows"))
    assert not is_not_committed(KeyboardInterrupt())
    assert not is_not_committed(ValueError("a bug"))
