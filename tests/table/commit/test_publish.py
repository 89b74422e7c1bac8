"""How a put of a manifest ended: every way a store can fail, and what may be deleted afterwards."""

import contextlib
from collections.abc import Callable

import pytest

from lance_ops.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    PermissionDeniedError,
    StorageError,
    StorageFullError,
    UnsupportedError,
)
from lance_ops.storage import Store, open_store
from lance_ops.table.commit import committer as module
from lance_ops.table.commit.committer import (
    LockCommitter,
    PutIfAbsentCommitter,
    committer_for,
)
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import ManifestLocation
from tests.support.faulty_store import Call, FaultyStore
from tests.support.table_actions import commit
from tests.support.tables import append, append_operation, create, rows, values


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0))


@pytest.fixture
def inner(tmp_path) -> Store:
    """A dataset of the rows 0 to 9."""
    store = open_store(str(tmp_path / "table"))
    create(store, rows(0, 10))
    return store


def manifest_put(call: Call) -> bool:
    return call.name == "put" and call.path.endswith(".manifest")


def files(store: Store) -> set[str]:
    return {info.path for info in store.list("") if not info.path.endswith(".json")}


def test_a_lost_response_is_recognised_as_our_own_commit(inner):
    store = FaultyStore(inner, manifest_put, when="after", mode="error")
    result = append(Dataset.open(store), rows(10, 15))
    assert store.fired
    assert (result.version, result.attempts) == (2, 1)
    assert values(Dataset.open(inner)) == list(range(15))
    assert [call.name for call in store.calls if manifest_put(call)] == ["put"]


def test_a_put_that_did_nothing_is_repeated(inner):
    store = FaultyStore(inner, manifest_put, when="before", mode="error", times=2)
    result = append(Dataset.open(store), rows(10, 15))
    assert (result.version, result.attempts) == (2, 1)
    assert values(Dataset.open(inner)) == list(range(15))


def test_a_store_that_keeps_failing_leaves_the_outcome_open_and_deletes_nothing(inner):
    store = FaultyStore(inner, manifest_put, when="before", mode="error", times=100)
    with pytest.raises(CommitOutcomeUnknownError, match="version 2 could not be written"):
        append(Dataset.open(store), rows(10, 15))
    assert not [call for call in store.calls if call.name == "delete"]
    assert len([path for path in files(inner) if path.startswith("_transactions/")]) == 2
    # It was not written, and the dataset goes on.
    assert append(Dataset.open(inner), rows(20, 21)).version == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_version_that_cannot_be_read_back_leaves_the_outcome_open(inner, when):
    dead = []

    def fails(call: Call) -> bool:
        if manifest_put(call):
            dead.append(call)
        return bool(dead)

    store = FaultyStore(inner, fails, when=when, mode="error", times=1000)
    before = files(inner)
    with pytest.raises(CommitOutcomeUnknownError, match="cannot be read back"):
        append(Dataset.open(store), rows(10, 15))
    assert not [call for call in store.calls if call.name == "delete"]
    assert before < files(inner)
    assert Dataset.open(inner).version == (2 if when == "after" else 1)


class Raising:
    """A committer that fails in a given way, after it wrote the manifest or without."""

    def __init__(
        self, error: Exception, *, write: bool = False, first: Callable[[], object] | None = None
    ) -> None:
        self.error, self.write, self.first = error, write, first
        self.calls = 0

    def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
        self.calls += 1
        if self.calls > 1:
            PutIfAbsentCommitter().commit(store, location, manifest)
            return
        if self.first is not None:
            self.first()
        if self.write:
            store.put(location.path, manifest)
        raise self.error


def test_already_exists_after_a_hidden_success_is_our_own_commit(inner):
    committer = Raising(AlreadyExistsError("there"), write=True)
    result = append(Dataset.open(inner), rows(10, 15), committer=committer)
    assert (result.version, committer.calls) == (2, 1)
    assert values(Dataset.open(inner)) == list(range(15))


def test_already_exists_and_nothing_there_looks_for_the_head_anew(inner):
    committer = Raising(AlreadyExistsError("there"))
    result = append(Dataset.open(inner), rows(10, 15), committer=committer)
    assert (result.version, result.attempts, committer.calls) == (2, 2, 2)


def test_any_failure_over_a_version_of_another_writer_is_a_lost_race(inner):
    dataset = Dataset.open(inner)
    committer = Raising(ConnectionError("reset"), first=lambda: append(dataset, rows(20, 22)))
    result = append(dataset, rows(10, 15), committer=committer)
    assert (result.version, result.attempts) == (3, 2)
    assert values(Dataset.open(inner)) == [*range(15), 20, 21]


def test_a_refusal_of_the_store_is_certain_and_cleaned_up(inner):
    before = files(inner)
    with pytest.raises(PermissionDeniedError):
        append(Dataset.open(inner), rows(10, 15), committer=Raising(PermissionDeniedError("no")))
    # The data files are the caller's; the transaction file is gone.
    assert {path.partition("/")[0] for path in files(inner) - before} == {"data"}


def test_a_full_disk_is_certain(inner):
    operation = append_operation(Dataset.open(inner), rows(10, 15))
    store = FaultyStore(inner, full_disk_after_bytes=400)
    with pytest.raises(StorageFullError):
        commit(Dataset.open(store), operation)
    assert Dataset.open(inner).version == 1
    assert len([path for path in files(inner) if path.startswith("_transactions/")]) == 1


def test_a_damaged_manifest_in_our_place_leaves_the_outcome_open(inner):
    class Torn:
        def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
            store.put(location.path, manifest[:-20])
            raise StorageError("torn")

    with pytest.raises(CommitOutcomeUnknownError, match="cannot be read back"):
        append(Dataset.open(inner), rows(10, 15), committer=Torn())


def test_a_store_that_cannot_decide_a_race_needs_a_lock(inner):
    store = FaultyStore(inner, conditional_put=False)
    with pytest.raises(UnsupportedError, match="LockCommitter"):
        append(Dataset.open(store), rows(10, 15))
    unlocked = LockCommitter(lambda _version: contextlib.nullcontext())
    result = append(Dataset.open(store), rows(10, 15), committer=unlocked)
    assert result.version == 2
    assert isinstance(committer_for(inner), PutIfAbsentCommitter)
