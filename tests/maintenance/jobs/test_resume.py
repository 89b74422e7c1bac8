"""A compaction under a job key goes on where it was broken off, and leaves nothing behind."""

import contextlib
import threading
from collections import Counter
from itertools import count

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import JobCancelledError, LanceOpsError, TaskFailedError
from lance_ops.maintenance.compact import recorded
from lance_ops.maintenance.jobs.folder import JOBS_DIRECTORY
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import present_files
from tests.support.faulty_store import FaultyStore, InjectedCrash, crash_moments
from tests.support.interleaving import Snapshot

_names = count()
ONE = LocalRunner(1)
GROUPS = 100


def table(start: int, stop: int) -> pa.Table:
    return pa.table({"x": pa.array(range(start, stop), pa.int64())})


def fragments(store, number: int, rows: int = 4) -> None:
    lo.append(store, table(0, number * rows), max_rows_per_file=rows)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(f"memory://resume/{next(_names)}")


def values(store) -> list[int]:
    return sorted(Dataset.open(store).to_table()["x"].to_pylist())


def unused(store) -> set[str]:
    used: set[str] = set()
    for item in Dataset.open(store).versions():
        used |= present_files(Dataset.open(store, item.version).manifest)
    found = {info.path for folder in ("data", "_indices", "_deletions") for info in store.list(folder)}
    return {path for path in found if path not in used and f"{path.rpartition('/')[0]}/" not in used}


def records(store) -> list[str]:
    return [info.path for info in store.list(JOBS_DIRECTORY)]


def compact(store, **options):
    return lo.compact(store, **{"target_rows_per_fragment": 8, "job_key": "job", "runner": ONE} | options)


class Counting:
    """Rewrites that were done, and the bytes that they read."""

    def __init__(self, monkeypatch) -> None:
        self.tasks = 0
        self.bytes = 0
        self.fail_after: int | None = None
        real = recorded.rewrite_group

        def rewrite(task):
            if self.fail_after is not None and self.tasks >= self.fail_after:
                raise KeyboardInterrupt if self.fail_after < 0 else SystemError("the machine is gone")
            self.tasks += 1
            self.bytes += task.group.data_bytes
            return real(task)

        monkeypatch.setattr(recorded, "rewrite_group", rewrite)


def crash_after(store, tasks: int, **options) -> FaultyStore:
    """Run until so many tasks have written their results, then the process dies."""
    seen = Counter()

    def is_next(call) -> bool:
        if call.name == "put" and "/done-" in call.path:
            seen[call.path] += 1
        return call.name == "open_writer" and len(seen) >= tasks

    faulty = FaultyStore(store, fail_at=is_next)
    with pytest.raises((InjectedCrash, TaskFailedError)):
        compact(faulty, **options)
    return faulty


def test_a_crash_at_half_of_100_groups_costs_no_finished_group(store, monkeypatch):
    fragments(store, 2 * GROUPS)
    counting = Counting(monkeypatch)
    crash_after(store, GROUPS // 2)
    assert counting.tasks <= GROUPS // 2 + 1
    first, counting.bytes = counting.bytes, 0
    counting.tasks = 0
    result = compact(store)
    assert (result.groups, result.groups_resumed) == (GROUPS, GROUPS // 2)
    assert counting.tasks == GROUPS // 2
    assert counting.bytes <= 0.6 * (first + counting.bytes)
    assert values(store) == list(range(8 * GROUPS))
    assert (unused(store), records(store)) == (set(), [])
    assert compact(store).already_committed


@pytest.mark.parametrize(("when", "commit_every"), [("after", None), ("before", 1)])
def test_a_kill_at_any_call_of_the_store_is_resumed(store, when, commit_every):
    fragments(store, 4)
    lo.delete(store, "x = 5 or x = 12", runner=ONE)
    lo.create_index(store, "x", runner=ONE)
    expected = values(store)
    snapshot = Snapshot(store)
    counting = FaultyStore(snapshot.restore())
    compact(counting, commit_every=commit_every)
    for call in range(1, counting.counted + 1):
        fresh = snapshot.restore()
        faulty = FaultyStore(fresh, fail_at=call, when=when)
        with contextlib.suppress(InjectedCrash, LanceOpsError):
            compact(faulty, commit_every=commit_every)
        # The death of a driver leaves what its tasks did to ours: a cleanup at this moment, too.
        lo.cleanup(fresh, retain_versions=100, delete_unverified=True)
        compact(fresh, commit_every=commit_every)
        assert values(fresh) == expected, call
        assert records(fresh) == [], call
        lo.cleanup(fresh, retain_versions=100)
        assert unused(fresh) == set(), call
        assert lo.fsck(Dataset.open(fresh)).ok, call
        done = [entry for entry in Dataset.open(fresh).history() if entry.job_key == "job"]
        assert len(done) <= 1
        snapshot.drop(fresh)


@pytest.mark.parametrize("commit_every", [None, 1])
@pytest.mark.parametrize("defer", [False, True])
def test_index_segments_of_a_killed_run_go_with_the_job_and_no_others(store, commit_every, defer):
    fragments(store, 4)
    lo.delete(store, "x = 5 or x = 12", runner=ONE)
    lo.create_index(store, "x", runner=ONE)
    options = {"commit_every": commit_every, "defer_index_remap": defer}
    snapshot = Snapshot(store)
    counting = FaultyStore(snapshot.restore())
    compact(counting, **options)
    left_behind = 0
    for call, when in crash_moments(range(1, counting.counted + 1)):
        fresh = snapshot.restore()
        with contextlib.suppress(InjectedCrash, LanceOpsError):
            compact(FaultyStore(fresh, fail_at=call, when=when), **options)
        left_behind += bool(unused_segments(fresh))
        compact(fresh, **options)
        assert (unused_segments(fresh), records(fresh)) == (set(), []), call
        assert lo.fsck(Dataset.open(fresh), deep=True).ok, call
        assert Dataset.open(fresh).to_table(filter="x = 7").num_rows == 1
        snapshot.drop(fresh)
    # A small reuse index lies in the manifest.
    assert left_behind or defer


def unused_segments(store) -> set[str]:
    return {path for path in unused(store) if path.startswith("_indices/")}


def test_segments_that_somebody_may_be_about_to_commit_stay_until_nobody_can(store):
    fragments(store, 4)
    lo.create_index(store, "x", runner=ONE)
    started, go_on = threading.Event(), threading.Event()

    def stops(call) -> bool:
        if call.name == "put" and call.path.startswith("_versions/") and unused_segments(store):
            started.set()
            go_on.wait(60)
        return False

    slow = FaultyStore(store, fail_at=stops)
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(compact(slow))
        except LanceOpsError as error:
            outcome.append(error)

    driver = threading.Thread(target=run)
    driver.start()
    assert started.wait(60)
    try:
        # Its segment is written, and it publishes a version at this moment.
        cancelled = lo.cancel_job(store, "job", force=True)
    finally:
        go_on.set()
        driver.join(60)
    assert values(store) == list(range(16))
    assert lo.fsck(Dataset.open(store), deep=True).ok, (cancelled, outcome)
    assert (unused_segments(store), records(store)) == (set(), [])


def test_segments_of_a_run_that_only_versions_before_a_restore_use_stay(store):
    fragments(store, 4)
    lo.create_index(store, "x", runner=ONE)
    before = Dataset.open(store).version
    compact(store)
    first = Dataset.open(store)
    lo.restore(store, before)
    # The key applies again, and its segments are named alike.
    compact(store)
    for segment in (*first.indices, *Dataset.open(store).indices):
        assert list(store.list(f"_indices/{segment.uuid}"))
    lo.restore(store, first.version)
    assert lo.fsck(Dataset.open(store), deep=True).ok
    assert Dataset.open(store).to_table(filter="x = 7").num_rows == 1


@pytest.mark.parametrize("stable", [False, True])
def test_results_are_carried_over_what_others_deleted_meanwhile(store, monkeypatch, stable):
    """Of a row, of a whole fragment, of a group that is done and of one that is not; under an index."""
    lo.append(store, table(0, 32), max_rows_per_file=4, enable_stable_row_ids=stable)
    lo.create_index(store, "x", runner=ONE)
    counting = Counting(monkeypatch)
    crash_after(store, 3)
    lo.delete(store, "x = 1 or (x >= 12 and x < 16) or x = 30", runner=ONE)
    lo.update(store, {"x": "x + 100"}, where="x = 0", runner=ONE)
    lo.append(store, table(32, 36))
    counting.tasks = 0
    result = compact(store)
    assert result.groups_resumed == 3
    assert counting.tasks == result.groups - 3
    left = {*range(2, 12), *range(16, 30), *range(31, 36), 100}
    assert values(store) == sorted(left)
    found = Dataset.open(store)
    for value in (0, 1, 2, 13, 30, 31, 35, 100):
        assert found.count_rows(f"x = {value}") == (value in left)
    assert lo.fsck(found).ok
    lo.cleanup(store, retain_versions=100)
    assert (unused(store), records(store)) == (set(), [])


def test_results_are_made_again_when_they_cannot_be_carried(store, monkeypatch):
    """One group was rewritten by another compaction; of the others nobody can tell what was deleted since."""
    fragments(store, 8)
    counting = Counting(monkeypatch)
    crash_after(store, 3)
    lo.delete(store, "x = 1 or x = 9", runner=ONE)
    lo.compact(store, target_rows_per_fragment=8, exclude_fragments=range(2, 8), runner=ONE)
    lo.cleanup(store, retain_versions=1)
    counting.tasks = 0
    result = compact(store)
    assert (result.groups_resumed, counting.tasks) == (1, result.groups - 1)
    assert values(store) == [value for value in range(32) if value not in (1, 9)]
    assert (unused(store), records(store)) == (set(), [])


def test_files_that_another_librarys_cleanup_removed_are_made_again(store, monkeypatch):
    fragments(store, 8)
    counting = Counting(monkeypatch)
    crash_after(store, 3)
    for path in unused(store):
        store.delete(path)
    counting.tasks = 0
    result = compact(store)
    assert (counting.tasks, result.groups_resumed) == (4, 0)
    assert values(store) == list(range(32))
    assert (unused(store), records(store)) == (set(), [])


def test_results_of_a_job_outlive_every_cleanup_of_ours(store, monkeypatch):
    fragments(store, 8)
    counting = Counting(monkeypatch)
    crash_after(store, 3)
    lo.cleanup(store, retain_versions=1, delete_unverified=True)
    counting.tasks = 0
    assert compact(store).groups_resumed == 3
    assert counting.tasks == 1


def test_a_torn_record_costs_its_own_task(store, monkeypatch):
    fragments(store, 8)
    counting = Counting(monkeypatch)
    crash_after(store, 3)
    torn = next(path for path in records(store) if "/done-" in path)
    store.put(torn, bytes(store.read(torn))[:-3])
    counting.tasks = 0
    assert compact(store).groups_resumed == 2
    assert counting.tasks == 2
    assert (unused(store), records(store)) == (set(), [])


def test_to_begin_anew_leaves_nothing_of_what_was_there(store):
    fragments(store, 8)
    crash_after(store, 3)
    assert compact(store, resume=False).groups_resumed == 0
    assert (unused(store), records(store)) == (set(), [])


def test_whoever_is_interrupted_leaves_nothing(store):
    fragments(store, 8)
    before = {info.path for info in store.list("data")}
    seen = []

    def interrupt(event) -> None:
        if event.done == 2 and event.bytes_done:
            seen.append(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(store, progress=interrupt)
    assert {info.path for info in store.list("data")} == before
    assert records(store) == []
    assert 0 < seen[0].bytes_done < seen[0].bytes_total
    assert seen[0].seconds_left > 0


def test_two_runs_of_a_job_share_its_work(store, monkeypatch):
    """The second one begins in the middle of the first one, and ends before it."""
    fragments(store, 8)
    counting = Counting(monkeypatch)
    inner = []

    def begin_another(event) -> None:
        if event.done == 2 and not inner:
            inner.append(None)
            inner[0] = compact(store, progress=None)

    outer = compact(store, progress=begin_another)
    assert inner[0].groups == 4
    assert inner[0].groups_resumed == 2
    assert outer.already_committed
    assert outer.version == inner[0].version
    assert counting.tasks == 4
    assert values(store) == list(range(32))
    assert (unused(store), records(store)) == (set(), [])


@pytest.mark.parametrize("commit_every", [None, 1])
def test_runs_of_a_job_at_once_commit_each_group_once(store, commit_every):
    fragments(store, 24)
    outcomes = []

    def run() -> None:
        try:
            outcomes.append(compact(store, runner=LocalRunner(2), commit_every=commit_every))
        except JobCancelledError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3
    assert values(store) == list(range(96))
    lo.cleanup(store, retain_versions=100)
    assert (unused(store), records(store)) == (set(), [])
    assert len(Dataset.open(store).fragments) == 12
