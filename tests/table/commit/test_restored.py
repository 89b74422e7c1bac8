"""A restore beside a cleanup that knows nothing of pins, as that of the official library."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitOutcomeUnknownError, RetryableCommitConflictError
from lance_ops.storage import BytesLike, Store, open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.pins import list_pins
from lance_ops.table.manifest.listing import latest, locate
from lance_ops.table.transaction.operations import Restore
from tests.support.faulty_store import Call, FaultyStore
from tests.support.interop import xs
from tests.support.table_actions import commit


class InterruptedStore(FaultyStore):
    """Lets somebody else act around the first put of a manifest."""

    def __init__(self, inner: Store, before: Callable[[], object], after: Callable[[], object]) -> None:
        super().__init__(inner)
        self._acts = [before, after]

    def put(self, path: str, data: BytesLike, **options) -> None:
        if not path.endswith(".manifest") or not self._acts:
            super().put(path, data, **options)
            return
        before, after = self._acts
        self._acts = []
        before()
        super().put(path, data, **options)
        after()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three versions that have no file in common."""
    uri = tmp_path / "t.lance"
    for number in range(3):
        table = pa.table({"x": pa.array([number], pa.int64())})
        lo.write_dataset(table, uri, mode="overwrite" if number else "create")
    return uri


def remove_first(path: Path, *, files: bool) -> None:
    """What a foreign cleanup does: files first, then the manifest, and no look at what came since."""
    store = open_store(str(path))
    if files:
        for file in Dataset.open(store, 1).fragments[0].files:
            store.delete(f"data/{file.path}")
    store.delete(locate(store, 1).path)


def nothing() -> None:
    """Nobody acts."""


@pytest.mark.peer
def test_the_state_before_comes_back_when_the_files_are_gone(path: Path) -> None:
    store = InterruptedStore(open_store(str(path)), lambda: remove_first(path, files=True), nothing)
    with pytest.raises(RetryableCommitConflictError, match="version 1 was removed while it was restored"):
        commit(store, Restore(1))
    assert lo.dataset(path).version == 5
    assert xs(path) == [2]
    assert lo.fsck(path).ok
    assert list_pins(open_store(str(path))) == []
    lo.append(path, pa.table({"x": pa.array([9], pa.int64())}))
    assert xs(path) == [2, 9]


@pytest.mark.peer
def test_a_restore_stands_while_its_files_are_there(path: Path) -> None:
    store = InterruptedStore(open_store(str(path)), lambda: remove_first(path, files=False), nothing)
    assert commit(store, Restore(1)).version == 4
    assert xs(path) == [0]


def test_what_others_committed_on_top_is_not_undone(path: Path) -> None:
    def append() -> None:
        lo.append(path, pa.table({"x": pa.array([9], pa.int64())}))

    store = InterruptedStore(open_store(str(path)), lambda: remove_first(path, files=True), append)
    with pytest.raises(CommitOutcomeUnknownError, match="others have committed on top of it"):
        commit(store, Restore(1))
    dataset = lo.dataset(path)
    assert dataset.version == 5
    assert dataset.to_table(fragments=[dataset.fragments[-1].id])["x"].to_pylist() == [9]
    (finding,) = lo.fsck(path).of("files_present")
    assert "a data file of fragment" in finding.message
    # As the error says.
    lo.restore(path, 3)
    assert lo.fsck(path).ok


def test_nothing_is_undone_below_the_newest_version(path: Path) -> None:
    """Others built on the restore, and their cleanup made the next number free again: it is none of ours."""
    plain = open_store(str(path))
    restored = locate(plain, 1).path
    looks = 0

    def meddle(call: Call) -> bool:
        nonlocal looks
        looks += call == Call("exists", restored) and max_version(path) == 4
        if looks == 1 and max_version(path) == 4:
            lo.delete(path, "x = 0")
            lo.append(path, pa.table({"x": [8]}))
            remove_first(path, files=True)
            for version in (4, 5):
                plain.delete(locate(plain, version).path)
        return False

    with pytest.raises(CommitOutcomeUnknownError, match="others have committed on top of it"):
        commit(FaultyStore(plain, fail_at=meddle), Restore(1))
    assert looks == 1
    assert [info.version for info in lo.dataset(path).versions()] == [2, 3, 6]
    assert xs(path) == [8]


def max_version(path: Path) -> int:
    return latest(open_store(str(path))).version
