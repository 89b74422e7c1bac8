"""Every operation is stopped at every change of the store: the table is as before or as after."""

import shutil
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import CommitOutcomeUnknownError, LanceOpsError, StorageFullError
from lance_ops.maintenance.jobs.folder import JOBS_DIRECTORY
from lance_ops.storage import open_store
from lance_ops.table.transaction.operations import present_files
from tests.support.faulty_store import FaultyStore, InjectedCrash, crash_moments
from tests.support.interop import data_files, our_dataset, rows, xs

JOB = {"job_key": "the job"}
# A crash of the process, not of the machine: nothing has to reach the disk.
FAST = {"fsync": "false"}


def append(target):
    return lo.append(target, rows(30, 36), max_rows_per_file=4, **JOB)


def overwrite(target):
    return lo.write_dataset(rows(100, 103), target, mode="overwrite", **JOB)


def delete(target):
    return lo.delete(target, "x in (3, 4) or x >= 10 and x < 20", runner=lo.LocalRunner(1), **JOB)


def update(target):
    where = "x in (3, 4) or x >= 10 and x < 20"
    return lo.update(target, {"x": "x + 100"}, where, runner=lo.LocalRunner(1), **JOB)


def compact(target):
    return lo.compact(target, target_rows_per_fragment=16, runner=lo.LocalRunner(1), **JOB)


def compact_in_steps(target):
    options = {"target_rows_per_fragment": 16, "commit_every": 1, "runner": lo.LocalRunner(1)}
    return lo.compact(target, **options, **JOB)


def compact_by_copy(target):
    options = {"target_rows_per_fragment": 16, "method": "copy", "runner": lo.LocalRunner(1)}
    return lo.compact(target, **options, **JOB)


AFTER = {
    append: list(range(36)),
    overwrite: [100, 101, 102],
    delete: [*range(3), *range(5, 10), *range(20, 30)],
    update: [*range(3), *range(5, 10), *range(20, 30), 103, 104, *range(110, 120)],
    compact: list(range(30)),
    compact_in_steps: list(range(30)),
    compact_by_copy: list(range(30)),
}

COMPACTIONS = (compact, compact_in_steps, compact_by_copy)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Four fragments, two of them under an index, one with a deletion file."""
    uri = tmp_path_factory.mktemp("template") / "t.lance"
    our_dataset(uri, [10, 10, 11])
    lo.delete(uri, "x = 30")
    lance.dataset(str(uri)).create_scalar_index("x", "BTREE")
    return uri


def interrupted(template, uri, operation, number, **fault):
    """Run an operation on a copy whose store fails at call `number`; the error, or None if there was none."""
    shutil.copytree(template, uri)
    store = FaultyStore(open_store(str(uri), FAST), fail_at=number, **fault)
    try:
        operation(store)
    except (InjectedCrash, LanceOpsError) as error:
        return error, store
    return None, store


def unused_files(uri):
    """Files that no version uses."""
    dataset = lo.dataset(uri)
    used = {
        path
        for item in dataset.versions()
        for path in present_files(dataset.checkout_version(item.version).manifest)
    }
    return {path for path in data_files(uri) if path not in used and f"{Path(path).parent}/" not in used}


def ours(uri):
    return sorted(lo.dataset(uri).to_table(columns=["x"])["x"].to_pylist())


@pytest.mark.peer
@pytest.mark.parametrize("operation", list(AFTER), ids=lambda operation: operation.__name__)
def test_a_crash_leaves_the_table_before_or_after_and_the_job_can_be_run_again(template, tmp_path, operation):
    _, whole = interrupted(template, tmp_path / "whole.lance", operation, 10**9)
    assert not whole.fired
    for number, when in crash_moments(range(1, whole.counted + 1)):
        uri = tmp_path / f"{number}.lance"
        error, store = interrupted(template, uri, operation, number, when=when, mode="crash")
        assert store.fired
        assert error is not None
        now = sorted(xs(uri))
        assert now in (list(range(30)), sorted(AFTER[operation])), f"crash {when} call {number}"
        operation(open_store(str(uri), FAST))
        assert ours(uri) == sorted(AFTER[operation]), f"run again after a crash {when} call {number}"
        shutil.rmtree(uri)
    assert whole.counted >= 2


@pytest.mark.peer
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", list(AFTER), ids=lambda operation: operation.__name__)
def test_a_store_that_fails_once_leaves_no_files_that_nobody_needs(template, tmp_path, operation, when):
    """After one error an operation succeeds, or removes what it wrote unless nobody knows the outcome."""
    for number in range(1, 200):
        uri = tmp_path / f"{number}.lance"
        error, store = interrupted(template, uri, operation, number, when=when, mode="error")
        if not store.fired:
            break
        now = ours(uri)
        if error is None:
            assert now == sorted(AFTER[operation])
        elif not isinstance(error, CommitOutcomeUnknownError):
            assert now == list(range(30))
            if operation not in COMPACTIONS:
                assert data_files(uri) == data_files(template), f"error {when} call {number}: {error}"
        operation(open_store(str(uri), FAST))
        assert ours(uri) == sorted(AFTER[operation])
        if operation in COMPACTIONS:
            # The results of its tasks wait for the next run of the job.
            assert not unused_files(uri), f"run again after error {when} call {number}"
            assert not list(open_store(str(uri)).list(JOBS_DIRECTORY))
        shutil.rmtree(uri)
    assert number > 2


def test_a_full_disk_ends_an_append_with_nothing_left(template, tmp_path):
    uri = tmp_path / "t.lance"
    shutil.copytree(template, uri)
    store = FaultyStore(open_store(str(uri)), fail_at=10**9, full_disk_after_bytes=300)
    with pytest.raises(StorageFullError):
        append(store)
    assert data_files(uri) == data_files(template)
    assert sorted(xs(uri)) == list(range(30))
