import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    IncompatibleCommitConflictError,
    InvalidArgumentError,
    NotFoundError,
    RetryableCommitConflictError,
)
from lance_ops.maintenance.engine import Replans, Run, with_replanning
from lance_ops.storage import retry


def rows(start, stop):
    return pa.table({"id": pa.array(range(start, stop), pa.int64())})


@pytest.fixture
def uri(tmp_path):
    """Three fragments, one deleted row, and an index that covers two of them."""
    uri = str(tmp_path / "t.lance")
    lo.append(uri, rows(0, 10))
    lo.append(uri, rows(10, 20))
    lo.create_index(uri, "id", name="old")
    lo.append(uri, rows(20, 30))
    lo.delete(uri, "id = 5")
    return uri


OPERATIONS = {
    "append": lambda uri, **run: lo.append(uri, rows(30, 40), **run),
    "overwrite": lambda uri, **run: lo.write_dataset(rows(0, 3), uri, mode="overwrite", **run),
    "replace_where": lambda uri, **run: lo.replace_where(uri, rows(3, 6), "id >= 3 AND id < 6", **run),
    "delete": lambda uri, **run: lo.delete(uri, "id = 7", **run),
    "compact": lo.compact,
    "create_index": lambda uri, **run: lo.create_index(uri, "id", name="new", **run),
    "optimize_indices": lo.optimize_indices,
    "drop_index": lambda uri, **run: lo.drop_index(uri, "old", **run),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_second_run_under_a_job_key_reports_the_first_one_and_no_attempt(uri, operation):
    before = lo.dataset(uri).version
    first = operation(uri, job_key="once", properties={"run": "7"})
    assert (first.already_committed, first.changed, first.read_version) == (False, True, before)
    assert first.attempts >= 1
    assert lo.dataset(uri).read_transaction(first.version).properties["run"] == "7"
    lo.update_config(uri, {"a": "b"})
    again = operation(uri, job_key="once")
    assert (again.already_committed, again.attempts, again.conflicts) == (True, 0, ())
    assert (again.version, again.read_version, again.uri) == (first.version, first.version + 1, first.uri)
    assert lo.dataset(uri).version == first.version + 1


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_option_that_there_is_not_is_refused_before_anything_is_written(uri, operation):
    before = lo.dataset(uri).version
    with pytest.raises(TypeError, match="jobkey"):
        operation(uri, jobkey="once")
    assert lo.dataset(uri).version == before


class Losing:
    """Puts a commit of another writer before every one of ours, the first time."""

    def __init__(self, uri, *, times):
        self.uri, self.times = uri, times

    def __call__(self, event):
        if event.message == "committing" and self.times:
            self.times -= 1
            lo.drop_index(self.uri, "old")


def test_an_index_that_another_writer_drops_meanwhile_is_missing_when_it_is_planned_again(uri):
    with pytest.raises(InvalidArgumentError, match="no index 'old'"):
        lo.drop_index(uri, "old", progress=Losing(uri, times=1))


def test_without_replanning_the_conflict_is_the_callers(uri):
    with pytest.raises(RetryableCommitConflictError):
        lo.drop_index(uri, "old", progress=Losing(uri, times=1), max_replans=0)


def test_files_of_an_attempt_that_is_not_committed_are_removed(uri):
    dataset = lo.dataset(uri)
    run = Run.on("test", dataset.store, dataset, {})
    for path in ("data/a.lance", "_indices/x/a", "_indices/x/b"):
        dataset.store.put(path, b"...")

    def fail(attempt):
        attempt.written += ["data/a.lance", "_indices/x/"]
        raise NotFoundError("what it looked for is gone")

    with pytest.raises(NotFoundError):
        run.replanned(fail)
    assert not dataset.store.exists("data/a.lance")
    assert list(dataset.store.list("_indices/x")) == []


def test_files_of_an_attempt_stay_while_nobody_knows_whether_it_is_committed(uri):
    dataset = lo.dataset(uri)
    run = Run.on("test", dataset.store, dataset, {})
    dataset.store.put("data/a.lance", b"...")

    def interrupt(attempt):
        attempt.written.append("data/a.lance")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.replanned(interrupt)
    assert dataset.store.exists("data/a.lance")


def conflict(theirs: str = "Delete of fragment 1 (version 7)") -> RetryableCommitConflictError:
    return RetryableCommitConflictError("collides", ours="Rewrite", theirs=theirs, version=7)


class Operation:
    def __init__(self, failures):
        self.failures = list(failures)
        self.replans: list[Replans] = []

    def __call__(self, replans: Replans) -> str:
        self.replans.append(replans)
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_a_retryable_conflict_plans_afresh_and_is_remembered(monkeypatch):
    operation, told, slept = Operation([conflict("A"), conflict("B")]), [], []
    monkeypatch.setattr(retry.time, "sleep", slept.append)
    result = with_replanning(
        operation,
        max_replans=2,
        on_conflict=lambda error: told.append(error.theirs),
    )
    assert result == "done"
    assert told == ["A", "B"]
    assert len(slept) == 2
    assert operation.replans[-1].conflicts == ("planned again after: A", "planned again after: B")


def test_the_last_conflict_is_raised_when_the_replans_are_used_up():
    operation = Operation([conflict("A"), conflict("B"), conflict("C")])
    with pytest.raises(RetryableCommitConflictError, match="B"):
        with_replanning(operation, max_replans=1, on_conflict=print)
    assert len(operation.replans) == 2


def test_an_incompatible_conflict_is_not_retried():
    operation = Operation([IncompatibleCommitConflictError("no", ours="Append", theirs="Overwrite")])
    with pytest.raises(IncompatibleCommitConflictError):
        with_replanning(operation, max_replans=9, on_conflict=print)
    assert len(operation.replans) == 1


def test_a_negative_number_of_replans_is_refused():
    with pytest.raises(InvalidArgumentError, match="max_replans"):
        with_replanning(Operation([]), max_replans=-1, on_conflict=print)
