"""A Delete carried over rewrites: its rows are found where they are now, or nothing is deleted."""

from dataclasses import replace

import lance
import pyarrow as pa
import pytest

from lance_ops.errors import CommitConflictError, RetryableCommitConflictError
from lance_ops.table.commit.rebase import moved_rows
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import Rewrite, RewriteGroup
from tests.support.table_actions import commit, reserve_fragments
from tests.support.tables import append, delete, delete_operation, rows, update_operation, values

pytestmark = pytest.mark.peer


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def dataset(request, tmp_path) -> Dataset:
    """Fragments 0, 1, 2 and 3 of ten rows; row 3 is deleted."""
    uri = str(tmp_path / "table")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10, enable_stable_row_ids=request.param)
    return delete(Dataset.open(uri), {0: [3]}).dataset


LIVE = set(range(40)) - {3}


def check(dataset: Dataset, expected: set[int]) -> None:
    assert values(dataset) == sorted(expected)
    peer = lance.dataset(dataset.uri)
    peer.validate()
    assert sorted(peer.to_table()["a"].to_pylist()) == sorted(expected)


def peer_compacts(dataset: Dataset, **options) -> None:
    lance.dataset(dataset.uri).optimize.compact_files(**{"target_rows_per_fragment": 100, **options})


@pytest.mark.parametrize(
    "options", [{}, {"target_rows_per_fragment": 20, "num_threads": 4}, {"batch_size": 3}], ids=str
)
def test_rows_are_found_where_the_peer_put_them(dataset, options):
    operation = delete_operation(dataset, {0: [1, 9], 2: [0, 5], 3: [9]})
    peer_compacts(dataset, **options)
    result = commit(dataset, operation)
    check(result.dataset, LIVE - {1, 9, 20, 25, 39})
    assert {fragment.id for fragment in result.transaction.operation.updated_fragments}.isdisjoint(range(4))


def test_rows_are_found_where_pages_were_copied(dataset):
    operation = delete_operation(dataset, {1: [1], 2: [0, 5], 3: [9]})
    # Its binary copy wants fragments without deleted rows, and several tasks.
    peer_compacts(dataset, compaction_mode="try_binary_copy", target_rows_per_fragment=20)
    check(commit(dataset, operation).dataset, LIVE - {11, 20, 25, 39})


def test_over_several_rewrites_deletes_and_updates(dataset):
    operation = delete_operation(dataset, {0: [1], 1: [5], 3: [0]})
    peer_compacts(dataset, target_rows_per_fragment=20)
    peer = lance.dataset(dataset.uri)
    peer.delete("a in (2, 16)")
    peer.update({"b": "'changed'"}, where="a = 31")
    append(dataset.latest(), rows(100, 104))
    peer_compacts(dataset, materialize_deletions_threshold=0.0)
    peer.delete("a = 7")
    result = commit(dataset, operation)
    check(result.dataset, (LIVE - {1, 15, 30, 2, 16, 7}) | set(range(100, 104)))
    assert result.dataset.to_table(filter="b = 'changed'")["a"].to_pylist() == [31]


def test_a_fragment_that_ours_empties_is_found_as_well(dataset):
    operation = delete_operation(dataset, {0: range(10), 1: [0]})
    assert operation.deleted_fragment_ids == (0,)
    peer_compacts(dataset)
    check(commit(dataset, operation).dataset, set(range(11, 40)))


def test_what_all_rows_of_the_new_fragment_is_removes_it(dataset):
    operation = delete_operation(dataset, {0: range(10), 1: range(10)})
    peer_compacts(dataset, target_rows_per_fragment=19)
    check(commit(dataset, operation).dataset, set(range(20, 40)))


def test_a_replacement_follows_its_rows_too(dataset):
    operation = update_operation(dataset, {0: [1], 3: [9]}, rows(200, 203))
    peer_compacts(dataset)
    check(commit(dataset, operation).dataset, LIVE - {1, 39} | {200, 201, 202})


@pytest.mark.parametrize("compacts_after", [False, True])
def test_rows_that_others_deleted_are_a_conflict(dataset, compacts_after):
    operation = delete_operation(dataset, {0: [1, 2]})
    peer = lance.dataset(dataset.uri)
    if compacts_after:
        peer.delete("a = 2")
        peer_compacts(dataset, materialize_deletions_threshold=0.0)
    else:
        peer_compacts(dataset)
        peer.delete("a = 2")
    with pytest.raises(RetryableCommitConflictError, match="some of the same rows"):
        commit(dataset, operation)
    check(dataset.latest(), LIVE - {2})


def test_rows_that_others_updated_are_a_conflict(dataset):
    operation = delete_operation(dataset, {0: [1, 2]})
    lance.dataset(dataset.uri).update({"b": "'changed'"}, where="a = 2")
    peer_compacts(dataset, materialize_deletions_threshold=0.0)
    with pytest.raises(RetryableCommitConflictError, match="some of the same rows"):
        commit(dataset, operation)
    check(dataset.latest(), LIVE)


@pytest.mark.parametrize("compacts_after", [False, True])
def test_values_given_in_place_are_a_conflict(dataset, compacts_after):
    operation = delete_operation(dataset, {1: [2]})
    if not compacts_after:
        peer_compacts(dataset)
    peer = lance.dataset(dataset.uri)
    fragment = peer.get_fragments()[1 if compacts_after else 0]
    new = pa.table({"a": pa.array(range(10, 20), pa.int64()), "b": ["changed"] * 10})
    changed, fields = fragment.update_columns(new, left_on="a", right_on="a")
    change = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    lance.LanceDataset.commit(dataset.uri, change, read_version=peer.version)
    if compacts_after:
        peer_compacts(dataset)
    with pytest.raises(CommitConflictError, match="other data files or values"):
        commit(dataset, operation)
    check(dataset.latest(), LIVE)


def sorted_otherwise(dataset: Dataset, key: str = "descending") -> None:
    """Somebody rewrites all fragments in an order of their own, without stable row ids."""
    reserved, ids = reserve_fragments(dataset, 1)
    table = reserved.dataset.to_table().sort_by([("a", key)])
    (new,) = write_data_files(dataset.store, table.to_batches(), dataset.lance_schema)
    group = RewriteGroup(reserved.dataset.fragments, (replace(new, id=ids[0]),))
    commit(reserved.dataset, Rewrite((group,)))


def test_rows_in_another_order_are_noticed_by_their_values(dataset):
    if dataset.manifest.uses_stable_row_ids:
        return
    operation = delete_operation(dataset, {0: [1]})
    sorted_otherwise(dataset)
    with pytest.raises(RetryableCommitConflictError, match="rewritten in another order"):
        commit(dataset, operation)
    check(dataset.latest(), LIVE)


def test_rows_that_are_too_many_to_compare_are_searched_anew(dataset, monkeypatch):
    monkeypatch.setattr(moved_rows, "MOST_COMPARED", 1)
    operation = delete_operation(dataset, {0: [1, 2]})
    peer_compacts(dataset)
    if dataset.manifest.uses_stable_row_ids:
        # These tell where rows are without their values.
        check(commit(dataset, operation).dataset, LIVE - {1, 2})
        return
    with pytest.raises(RetryableCommitConflictError, match="too many"):
        commit(dataset, operation)


def test_files_that_are_gone_are_a_conflict(dataset):
    operation = delete_operation(dataset, {0: [1], 2: [2]})
    peer_compacts(dataset)
    dataset.store.delete(dataset.fragments[0].deletion_file.path(0))
    with pytest.raises(RetryableCommitConflictError, match="removed"):
        commit(dataset, operation, affected_rows={})
