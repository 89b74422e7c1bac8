"""A process that dies at any call to the store: the dataset is in the state before or after, and goes on."""

from collections.abc import Callable

import pytest

from lance_ops.storage import Store, open_store
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import Operation, ReserveFragments, Restore
from tests.support.faulty_store import FaultyStore, InjectedCrash, crash_moments
from tests.support.table_actions import commit
from tests.support.tables import (
    append,
    append_operation,
    create,
    delete,
    delete_operation,
    rewrite_operation,
    rows,
    values,
)

BASE = 3
Make = Callable[[Dataset], Operation]

OPERATIONS: dict[str, Make] = {
    "append": lambda dataset: append_operation(dataset, rows(100, 103)),
    # Over a delete from the same fragment, so that a deletion file is merged on the way.
    "delete": lambda dataset: delete_operation(dataset, {0: [1, 2]}),
    "rewrite": lambda dataset: rewrite_operation(dataset, [1, 2], new_ids=[3]),
    "reserve": lambda _dataset: ReserveFragments(1),
    "restore": lambda _dataset: Restore(1),
}


def prepare(uri: str) -> tuple[Store, Dataset]:
    """Version 3 has three fragments and a reserved id; version 4 is somebody else's delete of row 7."""
    store = open_store(uri)
    create(store, rows(0, 20), rows_per_fragment=10)
    append(Dataset.open(store), rows(20, 30))
    dataset = commit(Dataset.open(store), ReserveFragments(1)).dataset
    return store, dataset


def state(store: Store) -> tuple[int, list[object]]:
    dataset = Dataset.open(store)
    return dataset.version, values(dataset)


def start(name, number):
    """A store with the base of an operation, and the operation."""
    store, base = prepare(f"memory://crash_{name}_{number}")
    operation = OPERATIONS[name](base)
    if name != "rewrite":
        delete(base, {0: [7]})
    return store, operation


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_crash_at_any_call_leaves_the_state_before_or_after(name):
    store, operation = start(name, "whole")
    whole = FaultyStore(store)
    commit(Dataset.open(whole, BASE), operation, job_key="job")
    after = state(store)
    assert len(whole.calls) >= 9
    for call, when in crash_moments(range(1, whole.counted + 1)):
        store, operation = start(name, f"{when}_{call}")
        before = state(store)
        faulty = FaultyStore(store, call, when=when)
        with pytest.raises(InjectedCrash):
            commit(Dataset.open(faulty, BASE), operation, job_key="job")
        now = state(store)
        committed = find_job(Dataset.open(store), "job")
        if now[0] == before[0]:
            assert now == before
            assert committed is None
        else:
            assert now[0] == before[0] + 1
            assert committed.version == now[0]
        # The next run of the job finishes it, once.
        finished = commit(Dataset.open(store, BASE), operation, job_key="job")
        assert finished.already_committed is (committed is not None)
        final = state(store)
        assert final[0] == before[0] + 1
        again = commit(Dataset.open(store, BASE), operation, job_key="job")
        assert again.already_committed
        assert state(store) == final == after


def test_a_crash_while_a_dataset_is_created_leaves_nothing_or_all():
    donor = create(open_store("memory://crash_donor"), rows(0, 5))
    operation = donor.read_transaction(1).operation

    def empty(number):
        store = open_store(f"memory://crash_create_{number}")
        for fragment in operation.fragments:
            path = f"data/{fragment.files[0].path}"
            store.put(path, donor.store.read(path))
        return store

    whole = FaultyStore(empty("whole"))
    commit(whole, operation, job_key="job")
    assert len(whole.calls) >= 4
    for call, when in crash_moments(range(1, whole.counted + 1)):
        store = empty(f"{when}_{call}")
        faulty = FaultyStore(store, call, when=when)
        with pytest.raises(InjectedCrash):
            commit(faulty, operation, job_key="job")
        finished = commit(store, operation, job_key="job")
        assert finished.version == 1
        assert state(store) == (1, list(range(5)))
