"""A Rewrite carried over deletes and updates: what others deleted stays deleted, nothing is read again."""

from dataclasses import replace

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import RetryableCommitConflictError
from lance_ops.table.dataset import Dataset
from lance_ops.table.row_lineage.read import read_sequences
from lance_ops.table.row_lineage.write import store_sequences
from lance_ops.table.transaction.operations import Restore, Rewrite
from tests.support.faulty_store import Call, FaultyStore
from tests.support.table_actions import commit, reserve_fragments
from tests.support.tables import (
    append,
    delete,
    rewrite_operation,
    rows,
    update_operation,
    values,
)


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def dataset(request, tmp_path) -> Dataset:
    """Fragments 0, 1 and 2 with the rows 0 to 9, 10 to 19 and 20 to 29; row 3 is deleted."""
    uri = str(tmp_path / "table")
    lance.write_dataset(rows(0, 30), uri, max_rows_per_file=10, enable_stable_row_ids=request.param)
    return delete(Dataset.open(uri), {0: [3]}).dataset


LIVE = set(range(30)) - {3}


def rewritten(dataset: Dataset, *groups: list[int]) -> tuple[Dataset, Rewrite]:
    """A rewrite that was worked out, with its row id sequences, and not committed yet."""
    reserved, ids = reserve_fragments(dataset, len(groups))
    base = reserved.dataset
    operation = rewrite_operation(base, *groups, new_ids=ids)
    if not base.manifest.uses_stable_row_ids:
        return base, operation
    return base, with_row_ids(base, operation)


def with_row_ids(dataset: Dataset, operation: Rewrite) -> Rewrite:
    groups = []
    for group in operation.groups:
        parts = []
        for fragment in group.old_fragments:
            deleted = dataset.deletion_vector(fragment)
            live = slice(None) if deleted is None else deleted.live_offsets(fragment.physical_rows)
            parts.append({name: ids[live] for name, ids in read_sequences(dataset.bases, fragment).items()})
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        (new,) = group.new_fragments
        kept = store_sequences(dataset.bases, new, joined, storage_version="2.1", limit=None)
        groups.append(replace(group, new_fragments=(kept,)))
    return replace(operation, groups=tuple(groups))


def check(dataset: Dataset, expected: set[int]) -> None:
    assert values(dataset) == sorted(expected)
    peer = lance.dataset(dataset.uri)
    peer.validate()
    assert sorted(peer.to_table()["a"].to_pylist()) == sorted(expected)
    assert peer.count_rows() == len(expected)


def test_rows_deleted_meanwhile_are_deleted_in_the_new_fragment(dataset):
    base, operation = rewritten(dataset, [0, 1])
    delete(base, {0: [1, 9], 1: [0]})
    result = commit(base, operation)
    check(result.dataset, LIVE - {1, 9, 10})
    (group,) = result.transaction.operation.groups
    # Both sides as they were when it was committed: others find rows by their rank among the live ones.
    assert [item.num_deleted_rows for item in group.old_fragments] == [3, 1]
    assert [(item.physical_rows, item.num_deleted_rows) for item in group.new_fragments] == [(19, 3)]


def test_rows_keep_their_ids_and_versions(dataset):
    base, operation = rewritten(dataset, [0, 1], [2])
    head = delete(base, {1: [4], 2: [7]}).dataset
    columns = {"with_row_id": True} if base.manifest.uses_stable_row_ids else {}
    before = head.to_table(**columns).sort_by("a")
    assert commit(base, operation).dataset.to_table(**columns).sort_by("a").equals(before)


def test_over_several_deletes_and_updates_of_both_libraries(dataset):
    base, operation = rewritten(dataset, [0, 1, 2])
    peer = lance.dataset(dataset.uri)
    peer.delete("a = 5")
    update = update_operation(base.latest(), {1: [1]}, rows(100, 101))
    commit(base.latest(), update)
    peer = lance.dataset(dataset.uri)
    peer.update({"b": "'changed'"}, where="a = 25")
    delete(base.latest(), {0: [0]})
    result = commit(base, operation)
    check(result.dataset, LIVE - {5, 11, 0} | {100})
    changed = result.dataset.to_table(filter="b = 'changed'")
    assert changed["a"].to_pylist() == [25]


def test_a_fragment_emptied_meanwhile_leaves_the_group(dataset):
    base, operation = rewritten(dataset, [0, 1])
    delete(base, {0: range(10)})
    result = commit(base, operation)
    check(result.dataset, set(range(10, 30)))
    (group,) = result.transaction.operation.groups
    assert [item.id for item in group.old_fragments] == [1]


def test_a_group_emptied_meanwhile_leaves_nothing_behind(dataset):
    base, operation = rewritten(dataset, [0], [1, 2])
    lance.dataset(dataset.uri).delete("a < 10")
    result = commit(base, operation)
    check(result.dataset, set(range(10, 30)))
    (group,) = result.transaction.operation.groups
    kept = {f"data/{file.path}" for item in group.new_fragments for file in item.files}
    brought = {f"data/{file.path}" for item in operation.new_fragments for file in item.files}
    there = {info.path for info in dataset.store.list("data")}
    assert there & brought == kept


def test_where_no_row_is_left_there_is_nothing_to_commit(dataset):
    base, operation = rewritten(dataset, [0, 1])
    delete(base, {0: range(10), 1: range(10)})
    with pytest.raises(RetryableCommitConflictError, match="all rewritten rows were deleted"):
        commit(base, operation)
    check(dataset.latest(), set(range(20, 30)))


def test_another_rewrite_of_the_fragments_is_a_conflict(dataset):
    base, operation = rewritten(dataset, [0, 1])
    other = rewritten(base, [1, 2])[1]
    commit(base.latest(), other)
    with pytest.raises(RetryableCommitConflictError, match="both change fragment 1"):
        commit(base, operation)
    check(dataset.latest(), LIVE)


def test_values_given_in_place_are_a_conflict(dataset):
    base, operation = rewritten(dataset, [0, 1])
    peer = lance.dataset(dataset.uri)
    new = pa.table({"a": pa.array(range(10), pa.int64()), "b": ["changed"] * 10})
    changed, fields = peer.get_fragment(0).update_columns(new, left_on="a", right_on="a")
    lance.LanceDataset.commit(
        dataset.uri,
        lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields),
        read_version=peer.version,
    )
    with pytest.raises(RetryableCommitConflictError, match="both change fragment 0"):
        commit(base, operation)
    assert dataset.latest().to_table(filter="b = 'changed'").num_rows == 9


def test_a_restore_contradicts_a_rewrite(dataset):
    base, operation = rewritten(dataset, [0, 1])
    commit(base, Restore(1))
    with pytest.raises(Exception, match="contradicts"):
        commit(base, operation)
    check(dataset.latest(), set(range(30)))


def test_a_delete_after_it_needs_no_merge(dataset):
    base, operation = rewritten(dataset, [0, 1])
    delete(base, {0: [1]})
    done = commit(base, operation).dataset
    peer = lance.dataset(dataset.uri)
    peer.delete("a = 12")
    peer.optimize.compact_files(target_rows_per_fragment=100)
    append(done, rows(200, 202))
    check(dataset.latest(), LIVE - {1, 12} | {200, 201})


def test_deletion_files_that_a_later_attempt_replaced_are_removed(dataset):
    base, operation = rewritten(dataset, [0, 1])
    delete(base, {0: [1]})
    tables = [base]

    def meddle(call: Call) -> bool:
        if call.name == "put" and call.path.endswith(".manifest") and len(tables) == 1:
            tables.append(delete(base.latest(), {0: [2], 2: [0]}).dataset)
        return False

    store = FaultyStore(base.store, fail_at=meddle)
    result = commit(Dataset(store, base.location, base.manifest), operation)
    assert result.attempts == 2
    check(dataset.latest(), LIVE - {1, 2, 20})
    versions = [Dataset.open(dataset.uri, version) for version in range(1, result.version + 1)]
    named = {f.deletion_file.path(f.id) for item in versions for f in item.fragments if f.deletion_file}
    assert {info.path for info in dataset.store.list("_deletions")} == named
