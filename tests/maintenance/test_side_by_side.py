"""On a store with latency, requests are made side by side; each file is read no oftener than it has to be."""

import uuid
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from tests.support.distant_store import DistantStore

FRAGMENTS, ROWS = 40, 20


@pytest.fixture
def table() -> pa.Table:
    count = FRAGMENTS * ROWS
    return pa.table({"id": np.arange(count), "s": [f"row {n % 7}" for n in range(count)]})


@pytest.fixture
def store(table) -> DistantStore:
    uri = f"memory://{uuid.uuid4()}"
    lo.write_dataset(table, uri, max_rows_per_file=ROWS)
    lo.delete(uri, "id % 10 = 3")
    return DistantStore(open_store(uri), wanted=8)


def ids(table: pa.Table, predicate=lambda number: True) -> list[int]:
    return [number for number in table["id"].to_pylist() if number % 10 != 3 and predicate(number)]


@pytest.mark.parametrize("how", ["table", "batches", "filter", "count", "row ids"])
def test_a_scan(store, table, how):
    dataset = Dataset.open(store)
    store.reset()
    if how == "table":
        assert dataset.to_table()["id"].to_pylist() == ids(table)
    elif how == "batches":
        assert pa.Table.from_batches(dataset.to_batches())["id"].to_pylist() == ids(table)
    elif how == "filter":
        assert dataset.to_table(filter="id > 99")["id"].to_pylist() == ids(table, lambda n: n > 99)
    elif how == "count":
        assert dataset.count_rows("id > 99") == len(ids(table, lambda n: n > 99))
    else:
        assert dataset.to_table(["id"], with_row_id=True)["id"].to_pylist() == ids(table)
    assert store.most >= 8
    once(store, "_deletions")


def test_taken_rows_of_many_fragments(store, table):
    dataset = Dataset.open(store)
    store.reset()
    live = ids(table)
    assert dataset.take(list(range(0, len(live), 17)))["id"].to_pylist() == live[::17]
    assert store.most >= 8
    once(store, "_deletions")


def test_a_filter_of_a_file_that_one_request_brings_asks_once(table):
    uri = f"memory://{uuid.uuid4()}"
    count = 20_000
    wide = pa.table({"id": np.arange(count), "s": [f"row {n}" * 3 for n in range(count)]})
    lo.write_dataset(wide, uri)
    store = DistantStore(open_store(uri))
    dataset = Dataset.open(store)
    store.reset()
    assert dataset.to_table(["s"], "id = 77")["s"].to_pylist() == ["row 77" * 3]
    # The end of the file, and then its columns.
    assert len(store.paths("data")) == 2


def test_a_scan_that_ends_early_does_not_read_on(store):
    dataset = Dataset.open(store)
    store.reset()
    assert dataset.to_table(limit=5).num_rows == 5
    assert len(store.paths("data")) <= 3


@pytest.mark.parametrize("indexed", [False, True])
def test_a_compaction(store, table, indexed):
    if indexed:
        lo.create_index(Dataset.open(store.inner), "id", "BTREE")
    store.reset()
    result = lo.compact(Dataset.open(store), runner=lo.LocalRunner(1))
    assert result.fragments_removed == FRAGMENTS
    assert store.most >= 8
    once(store, "_deletions")
    dataset = lo.dataset(store.inner.uri)
    assert dataset.to_table()["id"].to_pylist() == ids(table)
    assert dataset.count_rows("id = 77") == 1


@pytest.mark.parametrize("method", ["copy", "rewrite"])
def test_a_compaction_reads_each_small_file_with_one_request(store, table, method):
    lo.compact(Dataset.open(store), method=method, runner=lo.LocalRunner(1))
    assert store.most >= 8
    once(store, "_deletions")
    new = {file.path for fragment in lo.dataset(store.inner.uri).fragments for file in fragment.files}
    reads = Counter(path for path in store.paths("data") if path.rpartition("/")[2] not in new)
    assert len(reads) == FRAGMENTS
    assert set(reads.values()) == {1}
    assert lo.dataset(store.inner.uri).to_table()["id"].to_pylist() == ids(table)


def test_an_index(store, table):
    lo.create_index(Dataset.open(store), "id", "BTREE", runner=lo.LocalRunner(1))
    assert store.most >= 8
    once(store, "_deletions")
    assert lo.dataset(store.inner.uri).to_table(filter="id = 77")["id"].to_pylist() == [77]


def once(store: DistantStore, folder: str) -> None:
    counts = Counter(store.paths(folder))
    assert len(counts) == FRAGMENTS
    assert set(counts.values()) == {1}
