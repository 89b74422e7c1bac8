"""The search of a delete in many small fragments: together or side by side, and never more than a scan."""

import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.maintenance.delete.operation import find_matches
from lance_ops.maintenance.delete.plan import plan_delete
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from tests.support.counting_store import CountingStore
from tests.support.distant_store import DistantStore

FRAGMENTS = 300


def numbers(count: int) -> pa.Table:
    return pa.table({"id": np.arange(count), "s": [f"row {n % 7}" for n in range(count)]})


@pytest.fixture
def folder(tmp_path) -> str:
    return str(tmp_path / "t.lance")


@pytest.fixture
def memory() -> str:
    return f"memory://{uuid.uuid4()}"


def test_many_small_fragments_take_no_more_requests_than_a_scan(folder):
    lo.write_dataset(numbers(FRAGMENTS * 10), folder, max_rows_per_file=10)
    lo.delete(folder, "id % 100 = 5")
    store = CountingStore(open_store(folder))
    for predicate, matches in (("id = -1", 0), ("id in (7, 2000) or id = 5", 2)):
        scanned, searched = Dataset.open(store), Dataset.open(store)
        store.reset()
        assert scanned.to_table(filter=predicate).num_rows == matches
        requests, size = len(store.requests), store.num_bytes
        store.reset()
        plan = find_matches(plan_delete(searched, predicate), lo.LocalRunner(1))
        assert plan.rows_matched == matches
        assert len(store.requests) <= requests
        assert store.num_bytes <= size
        assert len(plan.tasks) <= 2


def test_deletion_files_of_fragments_without_a_match_are_not_read(folder):
    lo.write_dataset(numbers(400), folder, max_rows_per_file=10)
    lo.delete(folder, "id % 10 = 3")
    for info in open_store(folder).list("_deletions"):
        if info.path.startswith("_deletions/7-"):
            break
    else:
        raise AssertionError("no deletion file")
    open_store(folder).put(info.path, b"damaged")
    result = lo.delete(folder, "id in (12, 13, 350)")
    assert result.rows_deleted == 2


def test_pages_that_cannot_match_are_not_read(folder):
    lo.write_dataset(numbers(400_000), folder)
    store = CountingStore(open_store(folder))
    scanned, searched = Dataset.open(store), Dataset.open(store)
    store.reset()
    scanned.to_table(columns=["id"], filter="id = 399999")
    size = store.num_bytes
    store.reset()
    assert find_matches(plan_delete(searched, "id = 399999"), lo.LocalRunner(1)).rows_matched == 1
    assert store.num_bytes <= size


def test_fragments_of_a_store_with_latency_are_searched_side_by_side(memory):
    lo.write_dataset(numbers(400), memory, max_rows_per_file=10)
    lo.delete(memory, "id % 20 = 5")
    store = DistantStore(open_store(memory), wanted=8)
    result = lo.delete(Dataset.open(store), "id % 10 = 5 or id < 0")
    assert result.rows_deleted == 20
    assert store.most >= 8
    # Each file once, and none twice.
    assert len(store.paths("_deletions")) == len(set(store.paths("_deletions"))) == 20


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    gone=st.lists(st.integers(0, 150), max_size=8, unique=True),
    wanted=st.lists(st.integers(0, 150), min_size=1, max_size=8, unique=True),
    distant=st.booleans(),
)
def test_what_is_found_is_what_a_scan_selects(sizes, gone, wanted, distant):
    uri = f"memory://{uuid.uuid4()}"
    table = numbers(sum(sizes))
    start = 0
    for size in sizes:
        lo.append(uri, table.slice(start, size))
        start += size
    if gone:
        lo.delete(uri, f"id in ({', '.join(map(str, gone))})")
    predicate = f"id in ({', '.join(map(str, wanted))}) or s = 'row 3'"
    dataset = Dataset.open(DistantStore(open_store(uri)) if distant else uri)
    expected = dataset.to_table(columns=["id"], filter=predicate)["id"].to_pylist()
    plan = find_matches(plan_delete(dataset, predicate), lo.LocalRunner(1))
    assert plan.rows_matched == len(expected)
    kept = set(dataset.to_table()["id"].to_pylist()) - set(expected)
    lo.delete(uri, predicate)
    assert lo.dataset(uri).to_table()["id"].to_pylist() == sorted(kept)


def test_deletion_files_are_read_and_written_side_by_side(memory):
    lo.write_dataset(numbers(400), memory, max_rows_per_file=10)
    lo.delete(memory, "id % 10 = 5")
    store = DistantStore(open_store(memory), wanted=120)
    lo.delete(Dataset.open(store), "id % 10 = 6")
    reads, writes = store.paths("_deletions"), [path for name, path in store.calls if name == "put"]
    assert len(reads) == len(set(reads)) == 40
    assert len([path for path in writes if path.startswith("_deletions")]) == 40
    assert store.most >= 30
    assert lo.dataset(memory).count_rows() == 320
