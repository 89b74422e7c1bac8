"""Compaction of tables behind a network: few requests one after the other, and safe all the same."""

import uuid
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import RetryableCommitConflictError
from lance_ops.storage import open_store
from tests.support.distant_store import DistantStore

ROWS = 20


class OvertakenStore(DistantStore):
    """Before a version is put for the first time, others commit it and one more, and clean it away."""

    def __init__(self, uri: str) -> None:
        super().__init__(open_store(uri), patience=0.0)
        self.other = uri
        self.armed = False

    def put(self, path: str, data: object, **options: object) -> None:
        if self.armed and path.startswith("_versions/"):
            self.armed = False
            lo.delete(self.other, "i = 3")
            lo.append(self.other, rows(1000))
            lo.cleanup(self.other, older_than=timedelta(0), retain_versions=1)
        super().put(path, data, **options)


def rows(start: int) -> pa.Table:
    return pa.table({"i": np.arange(start, start + ROWS)})


@pytest.fixture
def uri() -> str:
    uri = f"memory://{uuid.uuid4()}"
    for number in range(4):
        lo.append(uri, rows(number * ROWS))
    return uri


def found(uri: str) -> list[int]:
    return sorted(lo.dataset(uri).to_table()["i"].to_pylist())


def test_versions_are_listed_three_times_and_nothing_is_looked_for_that_a_put_tells(uri: str) -> None:
    store = DistantStore(open_store(uri), patience=0.0)
    lo.dataset(store)
    store.reset()
    result = lo.compact(store)
    assert (result.groups, result.commits) == (1, 1)
    counts = store.counts()
    # The last exists is of the transaction of the version that was read: the dataset is still the same one.
    assert (counts["list"], counts["exists"]) == (3, 1)
    assert found(uri) == list(range(4 * ROWS))


def test_ids_whose_reservation_was_passed_by_are_not_used(uri: str) -> None:
    store = OvertakenStore(uri)
    dataset = lo.dataset(store)
    store.armed = True
    with pytest.raises(RetryableCommitConflictError) as caught:
        lo.compact(store, max_replans=0)
    assert "Rewrite of fragments" in str(caught.value)
    assert not store.inner.exists(f"_versions/{2**64 - 1 - (dataset.version + 1):020}.manifest")
    left = [n for n in range(4 * ROWS) if n != 3] + list(range(1000, 1000 + ROWS))
    assert found(uri) == left
    used = {fragment.id for fragment in lo.dataset(uri).fragments}
    result = lo.compact(store)
    assert result.groups == 1
    assert not used & {fragment.id for fragment in lo.dataset(uri).fragments}
    assert found(uri) == left
    assert lo.fsck(uri, deep=True).ok


def test_a_compaction_goes_on_after_its_reservation_was_passed_by(uri: str) -> None:
    store = OvertakenStore(uri)
    store.armed = True
    assert lo.compact(store).groups == 1
    assert found(uri) == [n for n in range(4 * ROWS) if n != 3] + list(range(1000, 1000 + ROWS))
    assert lo.fsck(uri, deep=True).ok
