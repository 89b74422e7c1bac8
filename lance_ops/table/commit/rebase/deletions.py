"""Rebase of a Delete or Update: merge concurrent deletions, and follow rewritten rows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.commit.rebase.moved_rows import follow_rows
from lance_ops.table.commit.rebase.rank_order import RankedRows
from lance_ops.table.commit.rebase.work import Rebase, by_id
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Delete, Update


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
        base, head = by_id(work.base), by_id(work.head)
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
    base, head = by_id(work.base), by_id(work.head)
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
        if now is None and fragment.id in rewritten:
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
