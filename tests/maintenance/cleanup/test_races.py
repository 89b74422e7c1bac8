"""Cleanup beside restores, tags, commits and other cleanups: every order of their calls leaves all sound."""

import contextlib
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CleanupRefusedError, LanceOpsError
from lance_ops.maintenance.metadata.clone import CLONE_TAG, pin_clone
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import Store
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.pins import list_pins, list_removals
from lance_ops.table.history.refs import create_tag, list_tags, update_tag
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import latest, list_versions, locate
from lance_ops.table.transaction.operations import Restore
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.interleaving import ALL, Snapshot, every_order, one_switch, run_schedule, two_switches
from tests.support.table_actions import commit

VERSIONS = 3


def cleanup(store: Store) -> object:
    return lo.cleanup(store, retain_versions=1)


def restore_first(store: Store) -> object:
    return commit(store, Restore(1))


def tag_first(store: Store) -> object:
    return create_tag(store, "first", 1)


def move_tag_to_first(store: Store) -> object:
    return update_tag(store, "moving", 1)


def fork_first(store: Store) -> object:
    return lo.create_branch(Dataset.open(store, 1), "fork")


def cleanup_unless_refused(store: Store) -> object:
    """Versions of a branch that is being made hold a cleanup."""
    with contextlib.suppress(CleanupRefusedError):
        return cleanup(store)
    return None


def pin_first_for_a_clone(store: Store) -> object:
    return pin_clone(Dataset.open(store, 1), "memory://clone")


def append(store: Store) -> object:
    return lo.append(store, pa.table({"x": [100]}), runner=LocalRunner(1))


def delete(store: Store) -> object:
    return lo.delete(store, "x = 20", runner=LocalRunner(1))


def compact(store: Store) -> object:
    return lo.compact(store, runner=LocalRunner(1))


def delete_and_compact(store: Store) -> object:
    return delete(store), compact(store)


def overwrite_twice(store: Store) -> object:
    return [lo.write_dataset(pa.table({"x": [number]}), store, mode="overwrite") for number in (200, 201)]


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """Versions that have no file in common, so that each is lost with its own; a tag at the newest."""
    store = MemoryStore("memory://races/source")
    for number in range(VERSIONS):
        table = pa.table({"x": [10 * number, 10 * number + 1]})
        lo.write_dataset(table, store, mode="overwrite" if number else "create")
    create_tag(store, "moving", VERSIONS)
    return Snapshot(store)


@pytest.fixture(scope="module")
def fragments() -> Snapshot:
    """A history of appends, whose files are shared by many versions."""
    store = MemoryStore("memory://races/fragments")
    for number in range(VERSIONS):
        lo.append(store, pa.table({"x": [10 * number, 10 * number + 1]}))
    return Snapshot(store)


def rows(store: Store, version: int | str | None = None) -> list[int]:
    return Dataset.open(store, version).to_table()["x"].to_pylist()


def check(store: Store) -> None:
    """All that can be named has its files, and no trace of the protocol is left behind."""
    assert used_files(store) <= data_files(store)
    for tag in list_tags(store).values():
        assert locate(store, tag.version)
    assert list_pins(store) == []
    assert list_removals(store) == []


def data_files(store: Store) -> set[str]:
    return {info.path for folder in ("data", "_deletions") for info in store.list(folder)}


def used_files(store: Store) -> set[str]:
    used = set()
    for location in list_versions(store):
        for fragment in read_manifest(store, location).fragments:
            used |= {f"data/{file.path}" for file in fragment.files}
            if fragment.deletion_file is not None:
                used.add(fragment.deletion_file.path(fragment.id))
    return used


def explore(
    snapshot: Snapshot,
    actor: Callable[[Store], object],
    orders: Callable[[int, int], Iterator[list[tuple[int, int]]]],
    acknowledged: Callable[[Store], None],
    counts: Callable[[str, str], bool] = lambda name, path: True,
    other: Callable[[Store], object] = cleanup,
) -> set[str]:
    """Run both in all orders, and return how the actor ended in these."""
    calls = []
    for alone in (other, actor):
        store = snapshot.restore()
        calls.append(run_schedule([alone], store, counts=counts)[0].steps)
        snapshot.drop(store)
    endings = set()
    for order in orders(*calls):
        store = snapshot.restore()
        cleaning, acting = run_schedule([other, actor], store, order, counts)
        assert cleaning.error is None, (order, cleaning.error)
        check(store)
        if acting.error is None:
            acknowledged(store)
            endings.add("done")
        else:
            assert isinstance(acting.error, LanceOpsError), (order, acting.error)
            endings.add(type(acting.error).__name__)
        snapshot.drop(store)
    return endings


def _calls_alone(snapshot: Snapshot, actor: Callable[[Store], object]) -> int:
    store = snapshot.restore()
    try:
        return run_schedule([actor], store)[0].steps
    finally:
        snapshot.drop(store)


def is_protocol(name: str, path: str) -> bool:
    """Calls that the one side makes and the other looks at, but for the reading that comes before."""
    if path.startswith("_lance_ops/"):
        return True
    if path.startswith("_versions"):
        return (name in ("put", "delete") and path.endswith(".manifest")) or name == "list"
    return name == "delete" or (name == "put" and path.startswith("_refs/"))


def is_protocol_of_tags(name: str, path: str) -> bool:
    return is_protocol(name, path) and not (name == "list" and path == "_versions")


def first_is_back(store: Store) -> None:
    assert rows(store) == [0, 1]


def first_is_tagged(store: Store) -> None:
    assert rows(store, "first") == [0, 1]


def first_is_pinned(store: Store) -> None:
    (name,) = (name for name in list_tags(store) if name.startswith(CLONE_TAG))
    assert rows(store, name) == [0, 1]


def tag_moved(store: Store) -> None:
    assert rows(store, "moving") == [0, 1]


def first_is_forked(store: Store) -> None:
    branch = lo.dataset(store).branches["fork"]
    assert (branch.parent_branch, branch.parent_version) == (None, 1)
    manifest = read_manifest(store.child("tree/fork"), latest(store.child("tree/fork")))
    assert {f"data/{file.path}" for item in manifest.fragments for file in item.files} <= data_files(store)


RESTORE = (restore_first, first_is_back)
TAG = (tag_first, first_is_tagged)
MOVE = (move_tag_to_first, tag_moved)
PIN = (pin_first_for_a_clone, first_is_pinned)
NAMING = [RESTORE, TAG, MOVE, PIN]
NAMING_IDS = ["restore", "tag", "move a tag", "pin for a clone"]


BOTH_ENDINGS = {"done", "RetryableCommitConflictError", "VersionNotFoundError"}


@pytest.mark.parametrize(
    ("actor", "acknowledged"), [RESTORE, TAG, MOVE], ids=["restore", "tag", "move a tag"]
)
def test_what_is_acknowledged_can_be_read_wherever_one_is_stopped(snapshot, actor, acknowledged) -> None:
    assert "done" in explore(snapshot, actor, one_switch, acknowledged)


@pytest.mark.parametrize(
    ("actor", "acknowledged"), [RESTORE, TAG, MOVE], ids=["restore", "tag", "move a tag"]
)
def test_what_is_acknowledged_can_be_read_wherever_both_are_stopped(snapshot, actor, acknowledged) -> None:
    assert explore(snapshot, actor, two_switches, acknowledged, is_protocol) == BOTH_ENDINGS


def test_a_tag_in_every_order_of_the_calls_that_matter(snapshot) -> None:
    assert explore(snapshot, tag_first, every_order, first_is_tagged, is_protocol_of_tags) == BOTH_ENDINGS


@pytest.mark.parametrize("orders", [one_switch, two_switches])
def test_a_branch_that_is_made_beside_a_cleanup_keeps_its_files(snapshot, orders) -> None:
    counts = (lambda name, path: True) if orders is one_switch else is_protocol
    endings = explore(snapshot, fork_first, orders, first_is_forked, counts, cleanup_unless_refused)
    assert "done" in endings
    assert endings <= BOTH_ENDINGS


@pytest.mark.parametrize("actor", [append, delete, compact, cleanup])
def test_commits_and_other_cleanups_beside_a_cleanup(fragments, actor) -> None:
    expected = {10 * n + i for n in range(VERSIONS) for i in (0, 1)}

    def all_rows(store: Store) -> None:
        found = rows(store)
        wanted = expected | {100} if actor is append else expected - {20} if actor is delete else expected
        assert sorted(found) == sorted(wanted)

    assert explore(fragments, actor, one_switch, all_rows) == {"done"}


@pytest.mark.parametrize("actor", [delete_and_compact, overwrite_twice])
def test_versions_that_come_and_are_replaced_while_files_are_listed_leave_nothing(fragments, actor) -> None:
    """A cleanup does not remove a manifest whose files it did not list: nobody would ever find them."""

    def no_garbage(store: Store) -> None:
        assert used_files(store) == data_files(store)

    assert explore(fragments, actor, one_switch, no_garbage) == {"done"}


@pytest.mark.parametrize(("actor", "acknowledged"), [RESTORE, TAG], ids=["restore", "tag"])
def test_a_third_one_takes_over_a_cleanup_that_was_killed(snapshot, actor, acknowledged) -> None:
    """A cleanup dies at any of its calls; beside the next one, a restore or tag is as safe as before."""
    calls = _calls_alone(snapshot, cleanup)
    for last in range(calls):
        for order in ([(0, 10), (1, 9)], [(1, 9), (0, 25)], [(0, 22), (1, ALL)]):
            store = snapshot.restore()
            with pytest.raises(InjectedCrash):
                cleanup(FaultyStore(store, fail_at=last + 1, count="any"))
            second, acting = run_schedule([cleanup, actor], store, order)
            assert second.error is None
            if acting.error is None:
                acknowledged(store)
            assert cleanup(store).complete
            assert {location.version for location in list_versions(store)} <= {1, 3, 4}
            check(store)
            assert data_files(store) == used_files(store)
            snapshot.drop(store)
