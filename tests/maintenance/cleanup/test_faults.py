"""Cleanup on a store that fails: it goes on, counts, and the next one finishes at once."""

import itertools
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import StorageError
from lance_ops.maintenance.cleanup import execute
from lance_ops.maintenance.cleanup import execute as cleanup_execute
from lance_ops.maintenance.cleanup.operation import CleanupResult
from lance_ops.storage import Store, retry
from lance_ops.storage.local.store import LocalStore
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import list_versions
from tests.support.commands import lance_ops, lance_ops_json
from tests.support.faulty_store import (
    MUTATING,
    Call,
    FaultyStore,
    InjectedCrash,
    crash_moments,
)
from tests.support.interleaving import Snapshot


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (retry, execute):
        monkeypatch.setattr(module, "STORE_PAUSES", (0.0, 0.0))


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """Appends, deletes, an index and a compaction: files of every kind that expire at different versions."""
    store = MemoryStore("memory://faults/source")
    for number in range(3):
        lo.append(store, pa.table({"x": [10 * number + i for i in range(5)]}))
    lo.create_index(store, "x")
    lo.delete(store, "x % 10 = 3")
    lo.compact(store)
    lo.delete(store, "x = 20")
    return Snapshot(store)


ROWS = [0, 1, 2, 4, 10, 11, 12, 14, 21, 22, 24]


def cleanup(store: Store) -> CleanupResult:
    return lo.cleanup(store, retain_versions=1)


def names(store: Store) -> set[str]:
    """Everything but the manifest, its transaction and the hint, whose names differ from run to run."""
    return {info.path for info in store.list("")}


def all_clean(store: Store) -> set[str]:
    """What is left when nothing fails."""
    cleanup(store)
    return names(store)


def readable(store: Store) -> None:
    for location in list_versions(store):
        dataset = Dataset.open(store, location.version)
        assert dataset.to_table().num_rows == dataset.count_rows()
    assert sorted(Dataset.open(store).to_table()["x"].to_pylist()) == ROWS


@pytest.fixture(scope="module")
def clean(snapshot: Snapshot) -> set[str]:
    return all_clean(snapshot.restore())


def calls_of(snapshot: Snapshot) -> list[Call]:
    store = FaultyStore(snapshot.restore())
    cleanup(store)
    return store.calls


def test_any_call_may_fail_once(snapshot: Snapshot, clean: set[str]) -> None:
    calls = calls_of(snapshot)
    assert len(calls) > 40
    for number, when in itertools.product(range(1, len(calls) + 1), ("before", "after")):
        inner = snapshot.restore()
        result = cleanup(FaultyStore(inner, number, when=when, mode="error", count="any"))
        assert result.complete, (number, result.errors)
        assert names(inner) == clean, (number, calls[number - 1])
        snapshot.drop(inner)


def test_a_cleanup_that_was_killed_at_any_call_is_finished_by_the_next(snapshot, clean) -> None:
    changes = sum(call.name in MUTATING for call in calls_of(snapshot))
    for number, when in crash_moments(range(1, changes + 1)):
        inner = snapshot.restore()
        with pytest.raises(InjectedCrash):
            cleanup(FaultyStore(inner, number, when=when))
        readable(inner)
        assert cleanup(inner).complete
        left = {path for path in names(inner) - clean if not path.startswith("_versions/.tmp")}
        assert left == set(), (number, when)
        readable(inner)
        snapshot.drop(inner)


def lasting(name: str, path: str) -> Callable[[Call], bool]:
    return lambda call: call.name == name and call.path == path


def test_whatever_cannot_be_removed_stays_and_the_rest_goes(snapshot: Snapshot, clean: set[str]) -> None:
    victims = [call.path for call in calls_of(snapshot) if call.name == "delete"]
    victims = [path for path in victims if not path.startswith(("_lance_ops", "_versions/.tmp"))]
    assert len(victims) > 15
    for path in victims:
        inner = snapshot.restore()
        result = cleanup(FaultyStore(inner, lasting("delete", path), mode="error", times=100))
        assert not result.complete
        assert result.files_failed >= 1
        assert path in result.errors[0]
        assert inner.exists(path)
        readable(inner)
        again = cleanup(inner)
        assert again.complete
        assert names(inner) == clean, path
        readable(inner)
        snapshot.drop(inner)


@pytest.mark.parametrize("prefix", ["_refs/tags", "_lance_ops/pins", "_versions"])
@pytest.mark.parametrize("skipped", [0, 1, 2, 3, 4, 5])
def test_where_a_look_fails_nothing_goes_that_it_would_have_shown(snapshot, clean, prefix, skipped) -> None:
    """The list of a folder fails from its n-th time on."""
    seen = 0

    def fails(call: Call) -> bool:
        nonlocal seen
        seen += call.name == "list" and call.path == prefix
        return call.name == "list" and call.path == prefix and seen > skipped

    inner = snapshot.restore()
    try:
        result = cleanup(FaultyStore(inner, fails, mode="error", count="any", times=1000))
    except StorageError:
        # Before anything was planned: nothing was removed.
        assert names(inner) >= names(snapshot.restore())
    else:
        assert result.complete == (seen <= skipped)
    readable(inner)
    assert cleanup(inner).complete
    assert names(inner) == clean
    snapshot.drop(inner)


def test_several_steps_fail_and_finish_alike(snapshot, clean, monkeypatch) -> None:
    monkeypatch.setattr(cleanup_execute, "CHUNK", 2)
    for number in range(1, len(calls_of(snapshot)) + 1):
        inner = snapshot.restore()
        with pytest.raises(InjectedCrash):
            cleanup(FaultyStore(inner, number, count="any"))
        readable(inner)
        assert cleanup(inner).complete
        assert {path for path in names(inner) - clean if ".tmp" not in path} == set()
        snapshot.drop(inner)


def test_a_store_that_is_down_is_not_asked_for_every_file(snapshot: Snapshot) -> None:
    inner = snapshot.restore()
    store = FaultyStore(inner, lambda call: call.name == "delete", mode="error", count="any", times=10**6)
    with mock.patch.object(cleanup_execute, "_GIVE_UP_AFTER", 2):
        result = cleanup(store)
    assert result.versions_removed == 0
    # Their files are in use as long as the versions are there.
    assert result.files_failed == 7
    assert not result.changed
    assert "nothing was removed" in str(result)
    deletes = [call for call in store.calls if call.name == "delete"]
    assert len(deletes) < 20
    readable(inner)


def test_the_command_tells_failures_and_leaves_with_an_error(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "t.lance"
    for number in range(3):
        lo.write_dataset(pa.table({"x": [number]}), path, mode="overwrite" if number else "create")
    lost = next(iter({f.path for f in lo.dataset(path, 1).fragments[0].files}))
    delete_many = LocalStore.delete_many

    def failing(self, paths) -> None:
        paths = list(paths)
        if any(path.endswith(lost) for path in paths):
            raise StorageError("injected", path=lost)
        delete_many(self, paths)

    monkeypatch.setattr(LocalStore, "delete_many", failing)
    values = lance_ops_json("cleanup", path, "--retain", "1", code=1)
    assert values["files_failed"] == 1
    assert lost in values["errors"][0]
    assert values["versions_removed"] == 2
    monkeypatch.undo()
    lance_ops("cleanup", path, "--retain", "1")
    assert len(list((path / "data").iterdir())) == 1
