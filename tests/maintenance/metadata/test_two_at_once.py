"""Two clones or branches that are made at one place at once: one wins, and the loser harms nothing of it."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    AlreadyExistsError,
    CleanupRefusedError,
    DatasetExistsError,
    LanceOpsError,
    LeaseHeldError,
    RetryableCommitConflictError,
    VersionNotFoundError,
)
from lance_ops.maintenance.metadata import clone, deep_clone
from lance_ops.storage import Store
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from tests.support.interleaving import Snapshot, one_switch, run_schedule

ROWS = {1: [7], 2: [0, 1], 4: [0, 2]}
"""Of a dataset that is written, and of versions that are cloned, which have the same files but for one."""

_here = threading.local()

Actor = Callable[[Store], object]


class _BrokenOffError(LanceOpsError):
    """What the progress function of a clone raises."""


def deep(version: int, *, fails: bool = False) -> Actor:
    def progress(event) -> None:
        # All files are copied by then.
        if event.done == event.total:
            raise _BrokenOffError("broken off")

    def act(store: Store) -> object:
        _here.target = store.child("place")
        source = lo.dataset(store.child("source"), version)
        return lo.deep_clone(source, store.uri + "/place", progress=progress if fails else None)

    return act


def shallow(version: int) -> Actor:
    def act(store: Store) -> object:
        _here.target = store.child("place")
        return lo.shallow_clone(lo.dataset(store.child("source"), version), store.uri + "/place")

    return act


def branch(version: int) -> Actor:
    return lambda store: lo.create_branch(lo.dataset(store.child("source"), version), "a/b")


def write(store: Store) -> object:
    lo.write_dataset(pa.table({"x": [7]}), store.child("place"))
    return lo.dataset(store.child("place"))


PAIRS: dict[str, tuple[Actor, Actor]] = {
    "deep, deep of one version": (deep(2), deep(2)),
    "deep, deep of another version": (deep(2), deep(4)),
    "deep, shallow": (deep(4), shallow(2)),
    "shallow, shallow of one version": (shallow(4), shallow(4)),
    "shallow, shallow of another version": (shallow(2), shallow(4)),
    "branch, branch of one version": (branch(2), branch(2)),
    "branch, branch of another version": (branch(2), branch(4)),
    "deep, write": (deep(2), write),
    "shallow, write": (shallow(4), write),
    "write, shallow": (write, shallow(2)),
    "deep, deep that fails": (deep(2), deep(2, fails=True)),
    "deep, deep of another version that fails": (deep(4), deep(2, fails=True)),
    "shallow, deep that fails": (shallow(4), deep(4, fails=True)),
}


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    store = MemoryStore("memory://two-at-once/base")
    source = store.child("source")
    lo.append(source, pa.table({"x": [0]}))
    lo.append(source, pa.table({"x": [1]}))
    lo.delete(source, "x = 1")
    lo.append(source, pa.table({"x": [2]}))
    return Snapshot(store)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_clone, "prefetch", lambda tasks, _: (task() for task in tasks))
    for module in (clone, deep_clone):
        monkeypatch.setattr(module, "open_store", lambda *_: _here.target)


def changes(name: str, path: str) -> bool:
    """Calls that change the store or look for what others have changed."""
    return name != "read" or "_lance_ops" in path or "_refs" in path


def check(store: Store, name: str, results: list[object], errors: list[BaseException | None]) -> None:
    for error in errors:
        assert error is None or isinstance(
            error, AlreadyExistsError | DatasetExistsError | LeaseHeldError | _BrokenOffError
        ), repr(error)
    winners = [result for result in results if isinstance(result, Dataset | lo.Dataset)]
    # A clone that is broken off may keep the place until the other has given up.
    assert len(winners) == 1 or (
        len(winners) == 0 and any(isinstance(error, _BrokenOffError) for error in errors)
    )
    is_branch = name.startswith("branch")
    for winner in winners:
        if is_branch:
            made = lo.dataset(store.child("source"), ("a/b", None))
        else:
            made = lo.dataset(store.child("place"))
        assert made.version == winner.version
        assert made.to_table()["x"].to_pylist() == ROWS[made.version]
        assert [info.version for info in made.versions()] == [made.version]
        tags = {tag.version for tag in lo.dataset(store.child("source")).tags.values()}
        is_shallow = bool(made.manifest.base_paths) and not is_branch
        assert tags == ({made.version} if is_shallow else set()), "what keeps the files of a clone"
    if not winners:
        assert not list(store.child("place").list("data"))
        assert not lo.dataset(store.child("source")).tags
    left = [info.path for info in store.list("") if "/_lance_ops/" in info.path]
    assert left == []


@pytest.mark.parametrize("name", PAIRS)
def test_one_wins_and_the_other_harms_nothing(name: str, snapshot: Snapshot) -> None:
    actors = PAIRS[name]
    lengths = []
    for actor in actors:
        store = snapshot.restore()
        lengths.append(run_schedule([actor], store, counts=changes)[0].steps)
        snapshot.drop(store)
    assert min(lengths) >= 7
    for schedule in one_switch(*lengths):
        store = snapshot.restore()
        runs = run_schedule(actors, store, schedule, counts=changes)
        try:
            check(store, name, [run.result for run in runs], [run.error for run in runs])
        except AssertionError as error:
            raise AssertionError(schedule, [run.error for run in runs], [run.log for run in runs]) from error
        finally:
            snapshot.drop(store)


def test_one_branch_made_and_deleted_at_once(snapshot: Snapshot) -> None:
    def delete(store: Store) -> object:
        return lo.delete_branch(store.child("source"), "a/b")

    for schedule in one_switch(40, 30):
        store = snapshot.restore()
        made, deleted = run_schedule([branch(2), delete], store, schedule, counts=changes)
        assert made.error is None or isinstance(made.error, LeaseHeldError), repr(made.error)
        assert deleted.error is None or isinstance(deleted.error, LeaseHeldError | VersionNotFoundError)
        exists = "a/b" in lo.dataset(store.child("source")).branches
        assert exists == (made.error is None and deleted.error is not None)
        if exists:
            assert lo.dataset(store.child("source"), ("a/b", None)).to_table()["x"].to_pylist() == ROWS[2]
        else:
            assert not [info for info in store.child("source").list("tree") if "_lance_ops" not in info.path]
        snapshot.drop(store)


@pytest.mark.parametrize("versions", [(1, 1), (1, 2)])
def test_two_restores_follow_one_another(versions: tuple[int, int], snapshot: Snapshot) -> None:
    actors = [
        lambda store, version=version: lo.restore(store.child("source"), version) for version in versions
    ]
    rows = {1: [0], 2: [0, 1]}
    for schedule in list(one_switch(40, 40))[::5]:
        store = snapshot.restore()
        runs = run_schedule(actors, store, schedule, counts=changes)
        assert [run.error for run in runs] == [None, None]
        for run, version in zip(runs, versions, strict=True):
            made = lo.dataset(store.child("source"), run.result.version)
            assert made.to_table()["x"].to_pylist() == rows[version]
        assert {run.result.version for run in runs} == {5, 6}
        snapshot.drop(store)


def test_two_cleanups_keep_what_each_keeps(snapshot: Snapshot) -> None:
    def clean(keep: int) -> Actor:
        return lambda store: lo.cleanup(
            store.child("source"), retain_versions=keep, older_than=timedelta(0), delete_unverified=True
        )

    for schedule in list(one_switch(60, 60))[::8]:
        store = snapshot.restore()
        runs = run_schedule([clean(1), clean(2)], store, schedule, counts=changes)
        for run in runs:
            assert run.error is None or isinstance(
                run.error, RetryableCommitConflictError | CleanupRefusedError
            )
        assert any(run.error is None for run in runs)
        for info in lo.dataset(store.child("source")).versions():
            assert lo.dataset(store.child("source"), info.version).count_rows() == len(
                lo.dataset(store.child("source"), info.version).to_table()
            )
        assert lo.dataset(store.child("source")).to_table()["x"].to_pylist() == [0, 2]
        snapshot.drop(store)
