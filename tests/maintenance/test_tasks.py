import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CommitOutcomeUnknownError,
    PermissionDeniedError,
    RetryableCommitConflictError,
    StorageError,
    StorageFullError,
    TaskFailedError,
    UnsupportedVersionError,
)
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.runner import LocalRunner, task_failed
from lance_ops.maintenance.tasks import is_not_committed, remove_files, run_tasks
from lance_ops.spark.transport import capture, load_outcome
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


@pytest.mark.parametrize("kind", [StorageFullError, PermissionDeniedError])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_full_disk_and_a_refusal_are_said_by_their_type(kind, threads):
    def work(number):
        if number == 2:
            raise kind("no", path="data/x.lance")
        return number

    discarded = []
    with pytest.raises(kind, match="nothing was committed") as caught:
        run_tasks(
            LocalRunner(threads),
            work,
            [1, 2, 3],
            report=Reporter("test"),
            message="working",
            discard=discarded.extend,
        )
    assert caught.value.path == "data/x.lance"
    assert isinstance(caught.value.__cause__, kind)
    assert 1 in discarded


@pytest.mark.parametrize("kind", [StorageFullError, PermissionDeniedError])
def test_they_keep_their_type_when_they_come_from_an_executor(kind):
    def work():
        raise kind("no", path="data/x.lance")

    error = load_outcome(capture(work)).error
    inner = TaskFailedError("a task of a task")
    inner.__cause__ = error
    for raised in (error, inner):
        failed = task_failed(0, 2, raised)
        assert type(failed) is kind
        assert is_not_committed(failed)


@pytest.mark.parametrize("operation", ["append", "compact", "delete", "index"])
def test_a_full_disk_inside_a_task_of_an_operation_is_said_as_such(tmp_path, operation):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"x": range(1000)}), uri, max_rows_per_file=100)
    for part in range(3):
        pq.write_table(pa.table({"x": range(1000)}), tmp_path / f"{part}.parquet")
    dataset = lo.Dataset.open(FaultyStore(open_store(uri), full_disk_after_bytes=64))
    operations = {
        "append": lambda: lo.append(dataset, [str(tmp_path / f"{part}.parquet") for part in range(3)]),
        "compact": lambda: lo.compact(dataset),
        "delete": lambda: lo.delete(dataset, "x % 7 = 0"),
        "index": lambda: lo.create_index(dataset, "x", "BTREE"),
    }
    with pytest.raises(StorageFullError):
        operations[operation]()
    assert lo.dataset(uri).version == 1
