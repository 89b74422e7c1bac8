"""Operations carried over other commits: what is merged, what is a conflict, and what is left on disk."""

from dataclasses import replace

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError
from lance_ops.maintenance.metadata.actions import drop_columns, update_config
from lance_ops.storage import Store, open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.transaction.operations import CreateIndex, Rewrite, RewrittenIndex
from tests.support.table_actions import commit, drop_segments, reserve_fragments
from tests.support.table_values import index
from tests.support.tables import (
    append,
    append_operation,
    compact,
    create,
    delete,
    delete_operation,
    rewrite_operation,
    rows,
    values,
)


@pytest.fixture
def dataset(tmp_path) -> Dataset:
    """Fragments 0, 1 and 2 with the rows 0 to 9, 10 to 19 and 20 to 29."""
    return create(str(tmp_path / "table"), rows(0, 30), rows_per_fragment=10)


def deletion_files(store: Store) -> set[str]:
    return {info.path for info in store.list("_deletions")}


def referenced(dataset: Dataset) -> set[str]:
    return {f.deletion_file.path(f.id) for f in dataset.fragments if f.deletion_file is not None}


def test_deletes_of_different_rows_of_one_fragment_are_merged(dataset):
    operation = delete_operation(dataset, {0: [1, 2], 1: [5]})
    delete(dataset, {0: [7], 2: [9]})
    result = commit(dataset, operation)
    assert values(result.dataset) == sorted(set(range(30)) - {1, 2, 15, 7, 29})
    assert result.attempts == 1
    assert len(result.conflicts) == 1
    assert result.conflicts[0].startswith("version 2: Delete in fragments 0, 2 where by offset")
    # The deletion file that was merged away belongs to no version.
    assert deletion_files(dataset.store) == referenced(result.dataset) | referenced(
        Dataset.open(dataset.uri, 2)
    )


def test_rows_deleted_before_the_read_version_are_nobodys_conflict(dataset):
    both = delete(dataset, {0: [3]}).dataset
    operation = delete_operation(both, {0: [1]})
    delete(both, {0: [2]})
    result = commit(both, operation)
    assert values(result.dataset)[:4] == [0, 4, 5, 6]


def test_the_same_rows_are_a_conflict(dataset):
    operation = delete_operation(dataset, {0: [1, 2]})
    delete(dataset, {0: [2, 3]})
    before = deletion_files(dataset.store)
    with pytest.raises(RetryableCommitConflictError, match="fragment 0 lost some of the same rows") as caught:
        commit(dataset, operation)
    assert caught.value.version == 2
    assert caught.value.theirs.startswith("version 2: Delete in fragment 0")
    assert caught.value.ours.startswith("Delete in fragment 0")
    assert set(caught.value.orphans) == {operation.updated_fragments[0].deletion_file.path(0)}
    assert deletion_files(dataset.store) == before
    assert dataset.latest().version == 2


def test_a_fragment_that_the_merge_empties_is_removed(dataset):
    operation = delete_operation(dataset, {0: range(5)})
    delete(dataset, {0: range(5, 10)})
    result = commit(dataset, operation)
    assert [f.id for f in result.dataset.fragments] == [1, 2]
    assert result.transaction.operation.deleted_fragment_ids == (0,)
    assert values(result.dataset) == list(range(10, 30))


def test_a_fragment_that_is_gone_is_a_conflict(dataset):
    operation = delete_operation(dataset, {0: [1]})
    delete(dataset, {0: range(10)})
    with pytest.raises(RetryableCommitConflictError):
        commit(dataset, operation)


def test_emptying_a_fragment_that_lost_rows_is_a_conflict(dataset):
    operation = delete_operation(dataset, {0: range(10)})
    delete(dataset, {0: [1]})
    with pytest.raises(RetryableCommitConflictError):
        commit(dataset, operation)


def test_deletes_over_a_rewrite_of_other_fragments_stand(dataset):
    operation = delete_operation(dataset, {0: [1]})
    compact(dataset, [1, 2])
    result = commit(dataset, operation)
    assert [f.id for f in result.dataset.fragments] == [0, 3]
    assert values(result.dataset) == sorted(set(range(30)) - {1})


def test_the_caller_may_state_the_deleted_rows(dataset):
    operation = delete_operation(dataset, {0: [1, 2]})
    delete(dataset, {0: [7]})
    # The deletion file of the operation is not read then.
    dataset.store.delete(operation.updated_fragments[0].deletion_file.path(0))
    stated = {0: DeletionVector.from_offsets([1, 2])}
    assert values(commit(dataset, operation, affected_rows=stated).dataset)[:3] == [0, 3, 4]


def test_stated_rows_that_contradict_the_deletion_file_are_refused(dataset):
    operation = delete_operation(dataset, {0: [1, 2]})
    delete(dataset, {0: [7]})
    with pytest.raises(InvalidArgumentError, match="affected_rows adds"):
        commit(dataset, operation, affected_rows={0: DeletionVector.from_offsets([1])})


def test_two_merges_in_a_row_take_the_newest_state(dataset):
    first = delete_operation(dataset, {0: [1]})
    second = delete_operation(dataset, {0: [2]})
    delete(dataset, {0: [3]})
    commit(dataset, first)
    result = commit(dataset, second)
    assert values(result.dataset)[:3] == [0, 4, 5]
    assert result.dataset.fragments[0].num_deleted_rows == 3


@settings(max_examples=40)
@given(st.lists(st.sets(st.integers(0, 19), min_size=1, max_size=6), min_size=2, max_size=5))
def test_concurrent_deletes_lose_nothing_and_delete_nothing_twice(batches):
    store = open_store("memory://rebase")
    for info in list(store.list("")):
        store.delete(info.path)
    base = create(store, rows(0, 20), rows_per_fragment=10)
    operations = [
        delete_operation(
            base, {f: [n - 10 * f for n in batch if n // 10 == f] for f in {n // 10 for n in batch}}
        )
        for batch in batches
    ]
    gone: set[int] = set()
    for batch, operation in zip(batches, operations, strict=True):
        if gone & batch:
            with pytest.raises(RetryableCommitConflictError):
                commit(base, operation)
        else:
            commit(base, operation)
            gone |= batch
    assert values(base.latest()) == sorted(set(range(20)) - gone)


def test_a_rewrite_over_an_append_keeps_both(dataset):
    _, ids = reserve_fragments(dataset, 1)
    operation = rewrite_operation(dataset, [0, 1], new_ids=ids)
    append(dataset, rows(100, 103))
    result = commit(dataset, operation)
    assert [f.id for f in result.dataset.fragments] == [2, 3, 4]
    assert values(result.dataset) == [*range(30), 100, 101, 102]
    assert len(result.conflicts) == 2


def test_a_rewrite_whose_index_segment_is_gone_is_a_conflict(dataset):
    segment = index("a_idx", {0, 1})
    indexed = commit(dataset, CreateIndex((segment,))).dataset
    _, ids = reserve_fragments(indexed, 1)
    plain = rewrite_operation(indexed, [0, 1], new_ids=ids)
    remap = RewrittenIndex(segment.uuid, index("new", None).uuid)
    drop_segments(indexed, "a_idx")
    with pytest.raises(RetryableCommitConflictError, match="index segment"):
        commit(indexed, Rewrite(plain.groups, (remap,)))


def test_an_index_loses_the_fragments_that_were_deleted_meanwhile(dataset):
    segment = replace(index("a_idx", {0, 1, 2}), dataset_version=dataset.version)
    delete(dataset, {1: range(10), 2: [3]})
    (built,) = commit(dataset, CreateIndex((segment,))).dataset.indices
    assert built.fragment_ids == {0, 2}


@pytest.mark.peer
def test_an_index_loses_the_fragments_whose_values_were_replaced(dataset):
    # The peer gives column b of fragment 0 other values in place.
    segments = [index("a_idx", {0, 1}), index("b_idx", {0, 1}, fields=(1,))]
    segments = [replace(segment, dataset_version=dataset.version) for segment in segments]
    peer = lance.dataset(dataset.uri)
    fragment = peer.get_fragment(0)
    changed, fields = fragment.update_columns(
        pa.table({"a": pa.array(range(10), pa.int64()), "b": ["changed"] * 10}), left_on="a", right_on="a"
    )
    lance.LanceDataset.commit(
        dataset.uri,
        lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields),
        read_version=dataset.version,
    )
    result = commit(dataset, CreateIndex(tuple(segments)))
    covered = {segment.name: segment.fragment_ids for segment in result.dataset.indices}
    assert covered == {"a_idx": {0, 1}, "b_idx": {1}}


def test_an_index_segment_cannot_be_replaced_twice(dataset):
    old = index("a_idx", {0, 1})
    indexed = commit(dataset, CreateIndex((old,))).dataset
    commit(indexed, CreateIndex((index("a_idx", {0, 1}),), (old,)))
    with pytest.raises(RetryableCommitConflictError, match="both change index a_idx"):
        commit(indexed, CreateIndex((index("a_idx", {0, 1, 2}),), (old,)))


def test_dropping_columns_over_changed_field_metadata_is_a_conflict(dataset):
    update_config(dataset, field_metadata={"a": {"unit": "m"}})
    with pytest.raises(RetryableCommitConflictError, match="metadata"):
        drop_columns(dataset, ["b"])


def test_an_append_over_a_dropped_column_leaves_the_column_out(dataset):
    operation = append_operation(dataset, rows(100, 103))
    drop_columns(dataset, ["b"])
    result = commit(dataset, operation)
    assert result.dataset.to_table().column_names == ["a"]
    assert values(result.dataset)[-3:] == [100, 101, 102]
