"""Rebase: adapt our operation to the commits since its read version.

The conflict matrix uses the transactions of the other writers. Here the fragments themselves are compared
between the read version and the head: changes to a fragment that ours uses are merged, or are a conflict.

Rebase of a Rewrite: rows deleted since it read them are deleted in its new fragments as well.

The rows are found by the deletion files of the read version and of the head, and their new location by rank.
So no data is read again, and the committed Rewrite has old and new fragments with the same live rows in the
same order: later rebases over it work.

Rebase of a Delete or Update: merge concurrent deletions, and follow rewritten rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.commit.concurrent_commits import base_conflict
from lance_ops.table.commit.rebase.moved_rows import follow_rows
from lance_ops.table.commit.rebase.rank_order import RankedRows, have_one_order, move_rows
from lance_ops.table.commit.rebase.work import Rebase
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.field_ids import stored_ids
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id, ids_of, rows_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.index_versions import holds_stable_row_ids
from lance_ops.table.transaction.apply_indices import moved_coverage
from lance_ops.table.transaction.operations import (
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Project,
    Rewrite,
    RewriteGroup,
    Update,
)


def rebase_rewrite(operation: Rewrite, work: Rebase) -> Rewrite:
    """Adapt a Rewrite to the head.

    Raises:
        RetryableCommitConflictError: Fragments or index segments that it replaces changed in another way, or
            no row is left to be rewritten.
    """
    present = {index.uuid for index in work.head.indices}
    if any(index.old_uuid not in present for index in operation.rewritten_indices):
        raise base_conflict(work.ours, "a remapped index segment no longer exists", work.head.version)
    moved = (group for group in operation.groups if not group.is_in_place)
    new = {fragment.id for group in moved for fragment in group.new_fragments}
    if not new.isdisjoint(ids_of(work.head.fragments)):
        # A reservation that a cleanup removed and another writer made again.
        raise base_conflict(work.ours, "other writers use the reserved fragment ids", work.head.version)
    base, head = by_id(work.base.fragments), by_id(work.head.fragments)
    emptied = work.emptied.union(*(passed.emptied for passed in work.theirs))
    carried = [_carry(group, base, head, emptied, work) for group in operation.groups]
    groups = tuple(group for group in carried if group is not None)
    if operation.groups and not groups:
        raise base_conflict(work.ours, "all rewritten rows were deleted", work.head.version)
    return operation if groups == operation.groups else replace(operation, groups=groups)


def _carry(
    group: RewriteGroup,
    base: Mapping[int, Fragment],
    head: Mapping[int, Fragment],
    emptied: frozenset[int],
    work: Rebase,
) -> RewriteGroup | None:
    """Return a group as of the head; None if none of its fragments is left."""
    before = [base[fragment.id] for fragment in group.old_fragments]
    now = tuple(head.get(fragment.id) for fragment in group.old_fragments)
    if all(current is old for current, old in zip(now, before, strict=True)):
        # Versions share fragments that no commit between them changed.
        return group
    for old, current in zip(before, now, strict=True):
        if current is None and old.id not in emptied:
            raise work.conflict(old.id, "was rewritten by a concurrent commit")
        if current is not None and current.replace(deletion_file=old.deletion_file) != old:
            raise work.conflict(old.id, "has other data files or values now")
    if all(current == old for current, old in zip(now, before, strict=True)):
        return group
    if group.is_in_place:
        return _in_place(group, now[0])
    if now not in work.merged.groups:
        work.merged.groups[now] = _with_deleted(group, before, now, work)
    return work.merged.groups[now]


def _in_place(group: RewriteGroup, now: Fragment | None) -> RewriteGroup | None:
    """Return a group with the deletion file of the head; None if no row is left."""
    if now is None:
        return None
    (new,) = group.new_fragments
    return RewriteGroup((now,), (now.replace(files=new.files),))


def _with_deleted(
    group: RewriteGroup, before: list[Fragment], now: tuple[Fragment | None, ...], work: Rebase
) -> RewriteGroup | None:
    left = tuple(fragment for fragment in now if fragment is not None)
    if not left:
        return None
    old, new = work.ranked(before), work.ranked(group.new_fragments)
    if not have_one_order(old, new):
        raise work.conflict(before[0].id, "lost rows, and the new location of its other rows is unknown")
    lost = {
        position: _lost(fragment, current, rows, work)
        for position, (fragment, current, rows) in enumerate(zip(before, now, old, strict=True))
        if current != fragment
    }
    replacements = []
    for fragment, rows, gone in zip(group.new_fragments, new, move_rows(old, new, lost), strict=True):
        changed = work.with_deleted(fragment, rows.deleted.union(gone)) if len(gone) else fragment
        if changed is not None:
            replacements.append(changed)
    return RewriteGroup(left, tuple(replacements))


def _lost(before: Fragment, now: Fragment | None, rows: RankedRows, work: Rebase) -> DeletionVector:
    """Return rows of a fragment that were live at the read version and are not at the head."""
    if now is None:
        return rows.live
    deleted = work.deleted_rows(now)
    if len(rows.deleted.difference(deleted)):
        raise work.conflict(before.id, "has rows again that were deleted")
    return deleted.difference(rows.deleted)


def rebase_delete(operation: Delete, work: Rebase) -> Delete:
    """Adapt a Delete to the head.

    Raises:
        RetryableCommitConflictError: Rows that it deletes were removed, changed or cannot be found.
        InvalidArgumentError: The affected rows do not match the deletion files.
    """
    updated, emptied = _carry_deletions(operation.updated_fragments, operation.deleted_fragment_ids, work)
    return replace(operation, updated_fragments=updated, deleted_fragment_ids=emptied)


def rebase_update(operation: Update, work: Rebase) -> Update:
    """Adapt an Update to the head; see `rebase_delete`.

    In-place updates need unchanged fragments.
    """
    if operation.fields_modified:
        base, head = by_id(work.base.fragments), by_id(work.head.fragments)
        for fragment in operation.updated_fragments:
            if head.get(fragment.id) != base[fragment.id]:
                raise work.conflict(fragment.id, "was changed by a concurrent commit")
        return operation
    updated, emptied = _carry_deletions(operation.updated_fragments, operation.removed_fragment_ids, work)
    return replace(operation, updated_fragments=updated, removed_fragment_ids=emptied)


def _carry_deletions(
    ours: Iterable[Fragment], removed: Sequence[int], work: Rebase
) -> tuple[tuple[Fragment, ...], tuple[int, ...]]:
    """Return fragments with new deletion files, and those without rows, as of the head."""
    base, head = by_id(work.base.fragments), by_id(work.head.fragments)
    rewritten = {item.id for passed in work.theirs for group in passed.groups for item in group.old_fragments}
    updated: list[Fragment] = []
    emptied: list[int] = []
    moved: dict[int, DeletionVector] = {}
    for fragment_id in removed:
        if fragment_id in rewritten:
            before = base[fragment_id]
            moved[fragment_id] = RankedRows(before.physical_rows, work.deleted_rows(before)).live
            continue
        if fragment_id not in head:
            raise work.conflict(fragment_id, "was deleted by a concurrent commit")
        if head[fragment_id] != base[fragment_id]:
            raise work.conflict(fragment_id, "was changed by a concurrent commit")
        emptied.append(fragment_id)
    for fragment in ours:
        before, now = base[fragment.id], head.get(fragment.id)
        if fragment.id in rewritten:
            moved[fragment.id] = _affected_rows(fragment, work.deleted_rows(before), work)
            continue
        merged = fragment if now == before else _merge_deletions(fragment, before, now, work)
        if merged is None:
            emptied.append(fragment.id)
        else:
            updated.append(merged)
    for fragment_id, rows in follow_rows(moved, work).items() if moved else ():
        merged = _delete(head[fragment_id], rows, work)
        if merged is None:
            emptied.append(fragment_id)
        else:
            updated.append(merged)
    return tuple(updated), tuple(emptied)


def _merge_deletions(ours: Fragment, base: Fragment, head: Fragment | None, work: Rebase) -> Fragment | None:
    if head is None:
        raise work.conflict(ours.id, "was deleted by a concurrent commit")
    if head.replace(deletion_file=base.deletion_file) != base:
        raise work.conflict(ours.id, "has other data files or values now")
    affected = _affected_rows(ours, work.deleted_rows(base), work)
    return _delete(head, affected, work)


def _delete(head: Fragment, rows: DeletionVector, work: Rebase) -> Fragment | None:
    """Return a fragment of the head without some of its live rows; None if no row is left."""
    key = (head.id, head.deletion_file)
    if key not in work.merged.fragments:
        now = work.deleted_rows(head)
        if len(now.intersection(rows)):
            raise work.conflict(head.id, "lost some of the same rows to a concurrent commit")
        work.merged.fragments[key] = work.with_deleted(head, now.union(rows))
    return work.merged.fragments[key]


def _affected_rows(ours: Fragment, before: DeletionVector, work: Rebase) -> DeletionVector:
    """Return the rows that ours deletes and that were live at the read version."""
    stated = work.affected_rows.get(ours.id)
    deleted = work.deleted_rows(ours) if stated is None else stated
    affected = deleted.difference(before)
    if len(affected) + len(before) != ours.num_deleted_rows:
        raise InvalidArgumentError(
            f"fragment {ours.id}: the deletion file has {ours.num_deleted_rows} rows, but affected_rows "
            f"adds {len(affected)} to the {len(before)} of version {work.base.version}",
            field="affected_rows",
        )
    return affected


def rebase(work: Rebase) -> Operation:
    """Adapt our operation to the head.

    Returns:
        The operation to commit; the original one if nothing had to change.

    Raises:
        RetryableCommitConflictError: The fragments that ours uses changed in a way that cannot be merged.
        InvalidArgumentError: The affected rows are not those of the deletion files.
    """
    operation = work.ours.operation
    adapt = _REBASES.get(type(operation))
    return operation if adapt is None or work.head is work.base else adapt(operation, work)


def _rebase_schema(operation: Operation, work: Rebase) -> Operation:
    if work.head.schema.fields != work.base.schema.fields:
        raise base_conflict(work.ours, "the schema changed", work.head.version)
    if isinstance(operation, Merge) and work.head.fragments != work.base.fragments:
        _check_new_ids(operation, work)
    if isinstance(operation, Merge) and operation.schema_only:
        return replace(operation, fragments=tuple(work.head.fragments))
    if isinstance(operation, Merge) and work.head.fragments != work.base.fragments:
        raise base_conflict(work.ours, "the fragments changed", work.head.version)
    return operation


def _check_new_ids(operation: Merge, work: Rebase) -> None:
    """Check that no file added by others since then holds values under the id of a new column."""
    new = {node.id for node in operation.schema.walk()} - {node.id for node in work.base.schema.walk()}
    used = new & stored_ids(work.head.fragments)
    if used:
        raise base_conflict(work.ours, f"field id {min(used)} is in use by data files", work.head.version)


def _rebase_create_index(operation: CreateIndex, work: Rebase) -> CreateIndex:
    present = {index.uuid for index in work.head.indices}
    removed = {index.uuid for index in operation.removed_indices}
    if not removed <= present:
        raise base_conflict(work.ours, "an index segment to be removed no longer exists", work.head.version)
    return replace(
        operation,
        new_indices=tuple(
            # A renamed segment covers the same fragments at the head.
            index if index.uuid in removed else _carried(index, work)
            for index in operation.new_indices
        ),
    )


def _carried(index: IndexMetadata, work: Rebase) -> IndexMetadata:
    """Return a new segment with its coverage at the head: queries scan all other fragments.

    Fragments whose indexed values changed are removed. Replacements of rewritten fragments are covered if the
    segment refers to rows by stable row ids; otherwise only fragments that were not rewritten.

    Raises:
        RetryableCommitConflictError: It would cover less than half of its rows.
    """
    if index.fragment_ids is None or index.is_system:
        return index
    base, head = by_id(work.base.fragments), by_id(work.head.fragments)
    indexed = frozenset(
        node.id for top in work.base.schema.walk() if top.id in index.fields for node in top.walk()
    )
    stable = work.base.uses_stable_row_ids and holds_stable_row_ids(index)
    known, covered = dict(base), index.fragment_ids
    for passed in work.theirs:
        for group in passed.groups:
            same = all(
                _values(known.get(old.id), indexed) == _values(old, indexed) for old in group.old_fragments
            )
            if same and (stable or group.is_in_place):
                covered = moved_coverage(covered, (group,))
            else:
                covered = covered.difference(old.id for old in group.old_fragments)
            known |= {fragment.id: fragment for fragment in group.new_fragments}
    valid = frozenset(
        number
        for number in covered
        if number in known
        and number in head
        and _values(known[number], indexed) == _values(head[number], indexed)
    )
    if not stable:
        _check_worth(index, valid, work)
    return index if valid == index.fragment_ids else replace(index, fragment_ids=valid)


def _check_worth(index: IndexMetadata, covered: frozenset[int], work: Rebase) -> None:
    """Refuse to commit an index most of whose coverage was rewritten."""
    planned = index.fragment_ids or frozenset()
    lost = [
        old.id
        for passed in work.theirs
        for group in passed.groups
        for old in group.old_fragments
        if old.id in planned and not group.is_in_place
    ]
    before, after = (
        rows_of(manifest.fragments, ids) for manifest, ids in ((work.base, planned), (work.head, covered))
    )
    if lost and 2 * after < before:
        raise work.conflict(
            lost[0], f"and most of the coverage of index {index.name!r} was rewritten concurrently"
        )


def _rebase_replacement(operation: DataReplacement, work: Rebase) -> DataReplacement:
    base, head = by_id(work.base.fragments), by_id(work.head.fragments)
    known = {node.id for node in work.head.schema.walk()}
    if not operation.fields <= known:
        raise base_conflict(work.ours, "a column that is replaced was dropped", work.head.version)
    for number, file in operation.replacements:
        fields = frozenset(file.fields)
        if number not in head:
            raise work.conflict(number, "was deleted by a concurrent commit")
        if _values(head[number], fields) != _values(base[number], fields):
            raise work.conflict(number, "has other values in the same columns now")
    return operation


def _values(fragment: Fragment | None, field_ids: frozenset[int]) -> object:
    """Return the location of the values of fields, with overlays."""
    if fragment is None:
        return None
    places = {
        (field_id, file.path, file.base_id, file.live_columns.get(field_id))
        for file in fragment.files
        for field_id in field_ids.intersection(file.fields)
    }
    over = tuple(item for item in fragment.overlays if not field_ids.isdisjoint(item.file.fields))
    return (places, over, fragment.unknown)


_REBASES: dict[type[Operation], Callable[[Any, Rebase], Operation]] = {
    CreateIndex: _rebase_create_index,
    DataReplacement: _rebase_replacement,
    Delete: rebase_delete,
    Merge: _rebase_schema,
    Project: _rebase_schema,
    Rewrite: rebase_rewrite,
    Update: rebase_update,
}
