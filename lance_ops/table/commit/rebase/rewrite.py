"""Rebase of a Rewrite: rows deleted since it read them are deleted in its new fragments as well.

The rows are found by the deletion files of the read version and of the head, and their new location by rank.
So no data is read again, and the committed Rewrite has old and new fragments with the same live rows in the
same order: later rebases over it work.
"""

from collections.abc import Mapping
from dataclasses import replace

from lance_ops.table.commit.concurrent_commits import base_conflict
from lance_ops.table.commit.rebase.rank_order import RankedRows, have_one_order, move_rows
from lance_ops.table.commit.rebase.work import Rebase, by_id
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Rewrite, RewriteGroup


def rebase_rewrite(operation: Rewrite, work: Rebase) -> Rewrite:
    """Adapt a Rewrite to the head.

    Raises:
        RetryableCommitConflictError: Fragments or index segments that it replaces changed in another way, or
            no row is left to be rewritten.
    """
    present = {index.uuid for index in work.head.indices}
    if any(index.old_uuid not in present for index in operation.rewritten_indices):
        raise base_conflict(work.ours, "a remapped index segment no longer exists", work.head.version)
    new = {fragment.id for fragment in operation.new_fragments}
    if not new.isdisjoint(fragment.id for fragment in work.head.fragments):
        # A reservation that a cleanup removed and another writer made again.
        raise base_conflict(work.ours, "other writers use the reserved fragment ids", work.head.version)
    base, head = by_id(work.base), by_id(work.head)
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
    if now not in work.merged.groups:
        work.merged.groups[now] = _with_deleted(group, before, now, work)
    return work.merged.groups[now]


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
