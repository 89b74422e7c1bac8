"""The end of a job fails at any call of the store, also beside another driver: the next run finishes it."""

import contextlib
from collections.abc import Iterable
from itertools import count

import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.maintenance.jobs.folder import find_open_job
from lance_ops.storage.memory import MemoryStore
from tests.maintenance.jobs.test_resume import compact, crash_after, fragments, records, unused, values
from tests.support.faulty_store import FaultyStore, InjectedCrash, When, crash_moments
from tests.support.interleaving import Snapshot

_names = count()
FAULTS = [("error", "before"), ("error", "after"), ("crash", None)]


def moments(mode: str, when: When | None, changes: int) -> Iterable[tuple[int, When]]:
    """Calls that fail, of so many that change the store, and when."""
    numbers = range(1, changes + 1)
    return crash_moments(numbers) if when is None else ((number, when) for number in numbers)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(f"memory://ending/{next(_names)}")
    fragments(made, 4)
    return made


def beside_another(faulty, other, begins: str) -> None:
    """Run the job; another driver of it begins in the middle of that, and ends before it."""
    begun = []

    def begin(event) -> None:
        now = "committing" if event.message == "committing" else "a task is done" if event.bytes_done else ""
        if not begun and now == begins:
            begun.append(None)
            with contextlib.suppress(InjectedCrash, LanceOpsError):
                compact(other, commit_every=1)

    with contextlib.suppress(InjectedCrash, LanceOpsError):
        compact(faulty, commit_every=1, progress=begin)


@pytest.mark.parametrize("begins", ["a task is done", "committing"])
@pytest.mark.parametrize("first_fails", [True, False])
@pytest.mark.parametrize(("mode", "when"), FAULTS)
def test_one_of_two_drivers_fails_and_the_next_run_leaves_nothing(store, begins, first_fails, mode, when):
    expected = values(store)
    snapshot = Snapshot(store)

    def run(**fault):
        fresh = snapshot.restore()
        faulty = FaultyStore(fresh, **fault)
        beside_another(*((faulty, fresh) if first_fails else (fresh, faulty)), begins)
        return fresh, faulty

    _, whole = run()
    for call, at in moments(mode, when, whole.counted):
        fresh, faulty = run(fail_at=call, mode=mode, when=at)
        assert faulty.fired
        assert values(fresh) == expected, call
        compact(fresh, commit_every=1)
        if mode == "crash":
            # A dead process leaves files of its last moment that no record names.
            lo.cleanup(fresh, retain_versions=100)
        assert (values(fresh), unused(fresh), records(fresh)) == (expected, set(), []), call
        assert len(lo.Dataset.open(fresh).fragments) == 2, call
        snapshot.drop(fresh)
    assert whole.counted >= 20


@pytest.mark.parametrize(("mode", "when"), FAULTS)
def test_a_cancellation_that_fails_anywhere_is_finished_by_the_next_one_or_the_next_run(store, mode, when):
    expected = values(store)
    before = {info.path for info in store.list("data")}
    crash_after(store, 1)
    snapshot = Snapshot(store)
    whole = FaultyStore(snapshot.restore())
    lo.cancel_job(whole, "job", force=True)
    for call, at in moments(mode, when, whole.counted):
        again, anew = snapshot.restore(), snapshot.restore()
        for fresh in (again, anew):
            faulty = FaultyStore(fresh, fail_at=call, mode=mode, when=at)
            with contextlib.suppress(InjectedCrash, LanceOpsError):
                lo.cancel_job(faulty, "job", force=True)
            assert faulty.fired
        # Where the last call got through nothing is left to be cancelled.
        with contextlib.suppress(InvalidArgumentError):
            assert lo.cancel_job(again, "job", force=True)
        assert ({info.path for info in again.list("data")}, records(again)) == (before, []), call
        compact(anew)
        assert (values(anew), unused(anew), records(anew)) == (expected, set(), []), call
        snapshot.drop(again)
        snapshot.drop(anew)
    assert whole.counted >= 3


def test_records_that_cannot_be_removed_do_not_undo_success(store):
    faulty = FaultyStore(store, lambda call: call.name == "delete" and "/done-" in call.path, mode="error")
    result = compact(faulty)
    assert result.groups == 2
    assert any("are left to its next run, or to a cleanup" in line for line in result.notes)
    assert records(store) != []
    lo.cleanup(store, retain_versions=100)
    assert records(store) == []


def test_a_job_that_was_begun_anew_is_not_ended_with_what_is_left_of_the_one_before(store):
    crash_after(store, 1)
    old, _ = find_open_job(store, "job")
    store.delete(old.header_path)
    crash_after(store, 1)
    new, _ = find_open_job(store, "job")
    lo.cleanup(store, retain_versions=100)
    assert find_open_job(store, "job")[0] == new
    assert old.list() == {}
    assert compact(store).groups_resumed == 1
    assert (unused(store), records(store)) == (set(), [])
