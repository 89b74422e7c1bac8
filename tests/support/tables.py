"""Small datasets and commits on them, one call each, for tests of what happens between versions."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lance_ops.file.schema.model import Schema
from lance_ops.storage import Store, open_store
from lance_ops.table.commit.request import CommitResult
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_file import write_deletion_file
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.transaction.operations import Append, Delete, Overwrite, Rewrite, RewriteGroup, Update
from tests.support.table_actions import commit, reserve_fragments


def rows(start: int, stop: int, **columns: Sequence[object]) -> pa.Table:
    """A table with the column `a` of these numbers and the column `b` of their texts."""
    numbers = range(start, stop)
    return pa.table({"a": pa.array(numbers, pa.int64()), "b": [f"row {n}" for n in numbers], **columns})


def create(store: Store | str, table: pa.Table, *, rows_per_fragment: int = 1 << 20, **options) -> Dataset:
    """Create a dataset."""
    schema = Schema.from_arrow(table.schema)
    target = open_store(store) if isinstance(store, str) else store
    fragments = write_data_files(target, table.to_batches(), schema, max_rows_per_file=rows_per_fragment)
    return commit(target, Overwrite(fragments, schema), **options).dataset


def append_operation(dataset: Dataset, table: pa.Table) -> Append:
    """Write the data files of an append."""
    return Append(write_data_files(dataset.store, table.to_batches(), dataset.lance_schema))


def append(dataset: Dataset, table: pa.Table, **options) -> CommitResult:
    """Append rows."""
    return commit(dataset, append_operation(dataset, table), **options)


def overwrite(dataset: Dataset, table: pa.Table, **options) -> CommitResult:
    """Replace all rows and the schema."""
    schema = Schema.from_arrow(table.schema)
    fragments = write_data_files(dataset.store, table.to_batches(), schema)
    return commit(dataset, Overwrite(fragments, schema), **options)


def delete_operation(dataset: Dataset, offsets: Mapping[int, Iterable[int]]) -> Delete:
    """Write the deletion files of a delete of rows, by fragment id and physical row offset."""
    updated, emptied = [], []
    for fragment_id, gone in offsets.items():
        fragment = dataset.manifest.fragment(fragment_id)
        assert fragment is not None
        deleted = DeletionVector.from_offsets(list(gone))
        before = dataset.deletion_vector(fragment)
        if before is not None:
            deleted = deleted.union(before)
        if len(deleted) == fragment.physical_rows:
            emptied.append(fragment_id)
            continue
        file = write_deletion_file(
            dataset.store, fragment_id, dataset.version, deleted, physical_rows=fragment.physical_rows
        ).file
        updated.append(fragment.replace(deletion_file=file))
    return Delete(tuple(updated), tuple(emptied), "by offset")


def update_operation(dataset: Dataset, offsets: Mapping[int, Iterable[int]], new: pa.Table) -> Update:
    """Write the deletion files and the data files of an update that puts new rows in the place of some."""
    gone = delete_operation(dataset, offsets)
    fragments = append_operation(dataset, new).fragments
    return Update(gone.deleted_fragment_ids, gone.updated_fragments, fragments)


def delete(dataset: Dataset, offsets: Mapping[int, Iterable[int]], **options) -> CommitResult:
    """Delete rows by fragment id and physical row offset."""
    return commit(dataset, delete_operation(dataset, offsets), **options)


def rewrite_operation(dataset: Dataset, *groups: Sequence[int], new_ids: Iterable[int]) -> Rewrite:
    """Write groups of fragments anew, one new fragment each, under reserved ids."""
    ids = iter(new_ids)
    made = []
    for group in groups:
        old = tuple(fragment for fragment in dataset.fragments if fragment.id in group)
        batches = dataset.to_table(fragments=[fragment.id for fragment in old]).to_batches()
        new = write_data_files(dataset.store, batches, dataset.lance_schema)
        made.append(RewriteGroup(old, tuple(fragment.replace(id=next(ids)) for fragment in new)))
    return Rewrite(tuple(made))


def compact(dataset: Dataset, *groups: Sequence[int], **options) -> CommitResult:
    """Reserve ids and rewrite groups of fragments of a snapshot; the groups are read at that snapshot."""
    _, ids = reserve_fragments(dataset, len(groups))
    return commit(dataset, rewrite_operation(dataset, *groups, new_ids=ids), **options)


def values(dataset: Dataset, column: str = "a") -> list[object]:
    """The values of a column, sorted."""
    return sorted(dataset.to_table([column])[column].to_pylist())
