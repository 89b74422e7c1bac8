"""Rebase: adapt our operation to the commits since its read version.

The conflict matrix uses the transactions of the other writers. Here the fragments themselves are compared
between the read version and the head: changes to a fragment that ours uses are merged, or are a conflict.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lance_ops.table.commit.concurrent_commits import base_conflict
from lance_ops.table.commit.rebase.deletions import rebase_delete, rebase_update
from lance_ops.table.commit.rebase.rewrite import rebase_rewrite
from lance_ops.table.commit.rebase.work import Rebase, by_id
from lance_ops.table.manifest.field_ids import stored_ids
from lance_ops.table.manifest.fragment import Fragment
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
    Update,
)


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
    base, head = by_id(work.base), by_id(work.head)
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
            covered = moved_coverage(covered, (group,)) if stable and same else covered
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
        if old.id in planned
    ]
    before, after = (
        sum(fragment.num_rows for fragment in manifest.fragments if fragment.id in ids)
        for manifest, ids in ((work.base, planned), (work.head, covered))
    )
    if lost and 2 * after < before:
        raise work.conflict(
            lost[0], f"and most of the coverage of index {index.name!r} was rewritten concurrently"
        )


def _rebase_replacement(operation: DataReplacement, work: Rebase) -> DataReplacement:
    base, head = by_id(work.base), by_id(work.head)
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
