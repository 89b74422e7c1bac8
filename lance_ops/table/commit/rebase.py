"""Rebase: our operation, changed so that it stands on top of what others committed since our read version.

The conflict matrix goes by what the other transactions say. Here the fragments themselves are compared
between the read version and the head: one that ours builds on and that changed is merged, or is a conflict.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError
from lance_ops.storage import Store
from lance_ops.table.commit.concurrent_commits import Passed, base_conflict, conflict
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_file import write_deletion_file
from lance_ops.table.manifest.deletion_vector import DeletionVector, read_deletion_vector
from lance_ops.table.manifest.fragment import DeletionFile, Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import (
    CreateIndex,
    Delete,
    Merge,
    Operation,
    Project,
    Rewrite,
    Update,
)
from lance_ops.table.transaction.transaction import Transaction

_NOTHING = DeletionVector.from_offsets([])


@dataclass(frozen=True, slots=True)
class MergedDeletions:
    """Deletion files that rebases of one commit wrote.

    Attributes:
        paths: All of them, relative to the root of the dataset.
        fragments: The fragment with the merged deletion file (None: no row is left), by fragment id and the
            deletion file that it had at the head. A later attempt that meets the same uses it again.
    """

    paths: list[str] = field(default_factory=list)
    fragments: dict[tuple[int, DeletionFile | None], Fragment | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebase:
    """What a rebase works with.

    Attributes:
        store: Root of the dataset.
        ours: The transaction as the caller made it.
        base: Manifest of the read version.
        head: Manifest to commit on top of.
        theirs: All commits in between, oldest first.
        affected_rows: Rows that a Delete or Update deletes, by fragment, where the caller has them at hand.
        options: Storage options, for deletion files in other bases.
        merged: What earlier attempts wrote.
        mark: See `write_deletion_file`.
    """

    store: Store
    ours: Transaction
    base: Manifest
    head: Manifest
    theirs: Sequence[Passed]
    affected_rows: Mapping[int, DeletionVector] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    merged: MergedDeletions = field(default_factory=MergedDeletions)
    mark: int | None = None

    def conflict(self, fragment_id: int, what: str) -> RetryableCommitConflictError:
        """The error for a fragment, naming the newest commit that changed it."""
        reason = f"fragment {fragment_id} {what}"
        for passed in reversed(self.theirs):
            if fragment_id in passed.changed:
                return conflict(self.ours, passed, reason)
        return base_conflict(self.ours, reason, self.head.version)

    def deleted_rows(self, manifest: Manifest, fragment: Fragment) -> DeletionVector:
        """The deleted rows of a fragment; empty when there are none."""
        bases = Bases(self.store, manifest.base_paths, self.options)
        return read_deletion_vector(bases, fragment) or _NOTHING


def rebase(work: Rebase) -> Operation:
    """Adapt our operation to the head.

    Returns:
        The operation to commit; the one given where nothing had to change.

    Raises:
        RetryableCommitConflictError: What ours builds on changed in a way that cannot be merged.
        InvalidArgumentError: The affected rows are not those of the deletion files.
    """
    operation = work.ours.operation
    adapt = _REBASES.get(type(operation))
    return operation if adapt is None or work.head is work.base else adapt(operation, work)


def _rebase_delete(operation: Delete, work: Rebase) -> Delete:
    updated, emptied = _carry_deletions(operation.updated_fragments, operation.deleted_fragment_ids, work)
    return replace(operation, updated_fragments=updated, deleted_fragment_ids=emptied)


def _rebase_update(operation: Update, work: Rebase) -> Update:
    updated, emptied = _carry_deletions(operation.updated_fragments, operation.removed_fragment_ids, work)
    return replace(operation, updated_fragments=updated, removed_fragment_ids=emptied)


def _carry_deletions(
    ours: Iterable[Fragment], removed: Sequence[int], work: Rebase
) -> tuple[tuple[Fragment, ...], tuple[int, ...]]:
    """The fragments with new deletion files, and those without a row left, as of the head."""
    base, head = _by_id(work.base), _by_id(work.head)
    _require_unchanged(removed, base, head, work)
    updated: list[Fragment] = []
    emptied: list[int] = []
    for fragment in ours:
        before, now = base[fragment.id], head.get(fragment.id)
        merged = fragment if now == before else _merge_deletions(fragment, before, now, work)
        if merged is None:
            emptied.append(fragment.id)
        else:
            updated.append(merged)
    return tuple(updated), (*removed, *emptied)


def _merge_deletions(ours: Fragment, base: Fragment, head: Fragment | None, work: Rebase) -> Fragment | None:
    if head is None:
        raise work.conflict(ours.id, "was deleted or rewritten meanwhile")
    if head.replace(deletion_file=base.deletion_file) != base:
        raise work.conflict(ours.id, "has other data files or values now")
    key = (ours.id, head.deletion_file)
    if key in work.merged.fragments:
        return work.merged.fragments[key]
    before = work.deleted_rows(work.base, base)
    now = work.deleted_rows(work.head, head)
    affected = _affected_rows(ours, before, work)
    if len(now.difference(before).intersection(affected)):
        raise work.conflict(ours.id, "lost some of the same rows meanwhile")
    deleted = now.union(affected)
    merged: Fragment | None = None
    if len(deleted) < head.physical_rows:
        stored = write_deletion_file(
            work.store,
            head.id,
            work.head.version,
            deleted,
            physical_rows=head.physical_rows,
            mark=work.mark,
        )
        work.merged.paths.append(stored.file.path(head.id))
        merged = head.replace(deletion_file=stored.file)
    work.merged.fragments[key] = merged
    return merged


def _affected_rows(ours: Fragment, before: DeletionVector, work: Rebase) -> DeletionVector:
    """The rows that ours deletes and that were live at the read version."""
    stated = work.affected_rows.get(ours.id)
    deleted = work.deleted_rows(work.base, ours) if stated is None else stated
    affected = deleted.difference(before)
    if len(affected) + len(before) != ours.num_deleted_rows:
        raise InvalidArgumentError(
            f"fragment {ours.id}: the deletion file has {ours.num_deleted_rows} rows, but {len(affected)} "
            f"rows are said to be deleted after the {len(before)} of version {work.base.version}",
            field="affected_rows",
        )
    return affected


def _rebase_rewrite(operation: Rewrite, work: Rebase) -> Rewrite:
    old = (fragment.id for group in operation.groups for fragment in group.old_fragments)
    _require_unchanged(old, _by_id(work.base), _by_id(work.head), work)
    present = {index.uuid for index in work.head.indices}
    if any(index.old_uuid not in present for index in operation.rewritten_indices):
        raise base_conflict(work.ours, "an index segment that was remapped is gone", work.head.version)
    new = {fragment.id for group in operation.groups for fragment in group.new_fragments}
    if not new.isdisjoint(fragment.id for fragment in work.head.fragments):
        # A reservation that a cleanup removed and another writer made again.
        raise base_conflict(work.ours, "other writers use ids that were reserved", work.head.version)
    return operation


def _rebase_schema(operation: Operation, work: Rebase) -> Operation:
    if work.head.schema.fields != work.base.schema.fields:
        raise base_conflict(work.ours, "the schema changed", work.head.version)
    if isinstance(operation, Merge) and work.head.fragments != work.base.fragments:
        raise base_conflict(work.ours, "the fragments changed", work.head.version)
    return operation


def _rebase_create_index(operation: CreateIndex, work: Rebase) -> CreateIndex:
    present = {index.uuid for index in work.head.indices}
    removed = {index.uuid for index in operation.removed_indices}
    if not removed <= present:
        raise base_conflict(work.ours, "an index segment to be removed is gone", work.head.version)
    return replace(
        operation,
        new_indices=tuple(
            # One that is renamed covers what it covers at the head.
            index if index.uuid in removed else _with_valid_coverage(index, work.base, work.head)
            for index in operation.new_indices
        ),
    )


def _with_valid_coverage(index: IndexMetadata, before: Manifest, after: Manifest) -> IndexMetadata:
    """Without the fragments whose indexed values changed: queries scan these."""
    if index.fragment_ids is None or index.is_system:
        return index
    indexed = frozenset(
        node.id for top in before.schema.walk() if top.id in index.fields for node in top.walk()
    )
    base, head = _by_id(before), _by_id(after)
    valid = frozenset(
        fragment_id
        for fragment_id in index.fragment_ids
        if fragment_id in base
        and fragment_id in head
        and _values(base[fragment_id], indexed) == _values(head[fragment_id], indexed)
    )
    return index if valid == index.fragment_ids else replace(index, fragment_ids=valid)


def _values(fragment: Fragment, field_ids: frozenset[int]) -> object:
    """What decides about the values of fields: where they lie, and anything that lies over them."""
    places = {
        (field_id, file.path, file.base_id, file.live_columns.get(field_id))
        for file in fragment.files
        for field_id in field_ids.intersection(file.fields)
    }
    return (places, fragment.unknown)


def _by_id(manifest: Manifest) -> dict[int, Fragment]:
    return {fragment.id: fragment for fragment in manifest.fragments}


def _require_unchanged(
    ids: Iterable[int], base: Mapping[int, Fragment], head: Mapping[int, Fragment], work: Rebase
) -> None:
    for fragment_id in ids:
        if fragment_id not in head:
            raise work.conflict(fragment_id, "was deleted or rewritten meanwhile")
        if head[fragment_id] != base[fragment_id]:
            raise work.conflict(fragment_id, "changed meanwhile")


_REBASES: dict[type[Operation], Callable[[Any, Rebase], Operation]] = {
    CreateIndex: _rebase_create_index,
    Delete: _rebase_delete,
    Merge: _rebase_schema,
    Project: _rebase_schema,
    Rewrite: _rebase_rewrite,
    Update: _rebase_update,
}
