"""What a commit asks of a store behind a network: a few requests, however long the history is."""

import uuid
from collections import Counter
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError
from lance_ops.storage import open_store
from lance_ops.table.commit.jobs import earlier_record, job_keys
from lance_ops.table.dataset import Dataset
from tests.support.distant_store import DistantStore
from tests.support.faulty_store import FaultyStore

# All but the bytes of data files, and the hint, which object stores do not get.
WRITER = {"open_writer", "write", "close"}


def rows(start: int) -> pa.Table:
    return pa.table({"i": np.arange(start, start + 10), "v": np.zeros(10)})


@pytest.fixture(params=[4, 50], ids=["few versions", "many versions"])
def store(request) -> FaultyStore:
    uri = f"memory://{uuid.uuid4()}"
    for number in range(request.param):
        lo.append(uri, rows(number), job_key=str(number) if number % 3 == 0 else None)
    store = FaultyStore(open_store(uri), count="any")
    Dataset.open(store)
    store.reset()
    return store


def asked(store: FaultyStore) -> Counter[str]:
    calls = Counter(call.name for call in store.calls if call.name not in WRITER)
    store.reset()
    return calls


def test_opening_takes_a_listing_and_a_read(store):
    Dataset.open(store)
    assert asked(store) == {"list": 1, "read": 1}


def test_an_append_takes_two_listings(store):
    lo.append(store, rows(100))
    # Open, and after the put; that the dataset is the same, and has no newer version; transaction, manifest.
    assert asked(store) == {"list": 2, "read": 1, "exists": 2, "put": 3}


def test_an_append_to_an_open_dataset_takes_as_many(store):
    dataset = Dataset.open(store)
    store.reset()
    lo.append(dataset, rows(100))
    assert asked(store) == {"list": 2, "exists": 2, "put": 3}


def test_a_job_key_costs_three_requests_for_90_days_and_none_afterwards(store, monkeypatch):
    lo.append(store, rows(100), job_key="new")
    # Processes of earlier releases: their notes and segments, and the file that makes them refuse job keys.
    assert asked(store) == {"list": 4, "read": 1, "exists": 3, "put": 3}
    for module in (job_keys, earlier_record):
        monkeypatch.setattr(module, "KEEP_JOB_KEYS", timedelta(0))
    lo.append(store, rows(100), job_key="newer")
    assert asked(store) == {"list": 2, "read": 1, "exists": 2, "put": 3}


def test_a_job_that_is_done_is_found_in_a_few_requests(store):
    lo.append(store, rows(100), job_key="new")
    store.reset()
    assert lo.append(store, rows(100), job_key="new").already_committed
    assert asked(store).total() <= 2


def test_metadata_alone_take_no_more(store):
    lo.update_config(store, {"a": "b"})
    assert asked(store) == {"list": 2, "read": 1, "exists": 2, "put": 3}


def test_a_delete_asks_for_the_head_as_often_as_an_append(store):
    lo.delete(store, "i = 1")
    assert asked(store)["list"] == 2
    lo.delete(store, "i = -1")
    assert asked(store)["list"] == 1


def test_other_operations_look_for_the_head_once_a_commit_and_once_before(store):
    lo.create_index(store, "i", "BTREE")
    assert asked(store)["list"] <= 3
    lo.create_tag(store, "name")
    assert asked(store).total() <= 11
    lo.restore(store, 2)
    assert asked(store).total() <= 17
    lo.compact(store)
    # Reserves ids, and commits.
    assert asked(store)["list"] <= 5


def test_a_commit_on_a_store_with_latency_waits_three_times():
    uri = f"memory://{uuid.uuid4()}"
    lo.append(uri, rows(0))
    store = DistantStore(open_store(uri), wanted=2)
    dataset = Dataset.open(store)
    store.reset()
    lo.update_config(dataset, {"a": "b"})
    # The look whether it is the same dataset and the transaction go together; then the manifest, whose put
    # tells whether the version is taken, then what may have passed it. The hint at the end is none that an
    # object store gets.
    assert store.most == 2
    assert [name for name, _ in store.calls[2:]] == ["put", "list", "put"]
    assert store.counts() == {"exists": 1, "put": 3, "list": 1}


def test_a_transaction_that_was_put_too_early_is_removed():
    uri = f"memory://{uuid.uuid4()}"
    lo.append(uri, rows(0))
    store = DistantStore(open_store(uri))
    dataset = Dataset.open(store)
    lo.update_config(uri, {"a": "b"})
    before = {info.path for info in store.inner.list("_transactions")}
    with pytest.raises(CommitConflictError):
        lo.update_config(dataset, {"a": "c"})
    assert {info.path for info in store.inner.list("_transactions")} == before
