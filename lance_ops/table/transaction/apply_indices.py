"""Application to indices: change the index segments of a dataset by an operation. Pure.

A segment is used for the fragments in its coverage. Ids of fragments that were deleted may stay in it, as
 pylance leaves them: they are never used again.
"""

import uuid
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.index_versions import holds_stable_row_ids
from lance_ops.table.transaction.rewrite_group import RewriteGroup, RewrittenIndex


def create_indices(
    indices: Sequence[IndexMetadata],
    new: Iterable[IndexMetadata],
    *,
    removed: AbstractSet[uuid.UUID],
    schema: Schema,
    fragment_ids: frozenset[int],
) -> tuple[IndexMetadata, ...]:
    """Remove segments by UUID, and add new ones; a renamed segment is in both lists.

    Args:
        indices: Segments of the head.
        new: Segments to add.
        removed: Segments to remove.
        schema: Schema of the head.
        fragment_ids: Fragments of the head. A new segment must not cover other ids, least of all future ones.

    Raises:
        InvalidArgumentError: A UUID is in use, an indexed field does not exist, or two segments of one index
            would cover the same fragment, whose rows would be found twice.
    """
    kept = tuple(index for index in indices if index.uuid not in removed)
    taken = {index.uuid for index in kept}
    renamed = {index.uuid: index.fragment_ids for index in indices if index.uuid in removed}
    fields = {node.id for node in schema.walk()}
    result = list(kept)
    for index in new:
        if index.uuid in taken:
            raise InvalidArgumentError(f"index segment {index.uuid} already exists", field="new_indices")
        missing = set(index.fields) - fields
        if missing:
            raise InvalidArgumentError(
                f"index {index.name!r} is on fields {sorted(missing)}, which the schema does not have",
                field="new_indices",
            )
        taken.add(index.uuid)
        segment = index
        if index.uuid in renamed:
            # Removed fragments may be mapped to their replacements by a deferred compaction.
            segment = _with_coverage(index, renamed[index.uuid])
        elif index.fragment_ids is not None and not index.is_system:
            segment = _with_coverage(index, index.fragment_ids & fragment_ids)
        _check_segments(segment, result)
        result.append(segment)
    return tuple(result)


def _check_segments(index: IndexMetadata, others: Iterable[IndexMetadata]) -> None:
    for other in others:
        if other.name != index.name:
            continue
        if other.fields != index.fields:
            raise InvalidArgumentError(
                f"index {index.name!r} already exists on another column",
                field="new_indices",
                hint="choose another name",
            )
        common = (index.fragment_ids or frozenset()) & (other.fragment_ids or frozenset())
        if common:
            raise InvalidArgumentError(
                f"two segments of index {index.name!r} would cover the same fragments {sorted(common)[:8]}",
                field="new_indices",
                hint="remove the segments that the new one replaces",
            )


def rewrite_indices(
    indices: Sequence[IndexMetadata],
    groups: Sequence[RewriteGroup],
    rewritten: Sequence[RewrittenIndex],
    *,
    reuse: IndexMetadata | None,
    stable_row_ids: bool,
) -> tuple[IndexMetadata, ...]:
    """Move the coverage of remapped segments to the new fragments, and remove it from other segments.

    Args:
        indices: Segments of the head.
        groups: Fragments that are replaced, and their replacements.
        rewritten: Segments that were remapped.
        reuse: The fragment reuse index that defers the remap of all others; None to defer nothing.
        stable_row_ids: True if the table has stable row ids.

    Raises:
        InvalidArgumentError: A remapped segment does not exist, or covers a group only in part, so that it
            cannot cover the new fragments.
    """
    # Rows of fragments that were rewritten in place have the same addresses as before.
    groups = [group for group in groups if not group.is_in_place]
    remapped = {index.old_uuid: index for index in rewritten}
    if len(remapped) != len(rewritten):
        raise InvalidArgumentError("an index segment is remapped twice", field="rewritten_indices")
    missing = remapped.keys() - {index.uuid for index in indices}
    if missing:
        raise InvalidArgumentError(
            f"index segments to remap do not exist: {', '.join(str(uuid) for uuid in missing)}",
            field="rewritten_indices",
        )
    result = []
    for index in indices:
        if index.uuid in remapped:
            result.append(_remap(index, remapped[index.uuid], groups))
        elif reuse is not None or index.is_system:
            # A deferred remap is applied at query time, from the coverage that the segment was built with.
            result.append(index)
        elif stable_row_ids and holds_stable_row_ids(index):
            result.append(_with_coverage(index, moved_coverage(index.fragment_ids, groups)))
        else:
            result.append(_with_coverage(index, _without(index.fragment_ids, groups)))
    if reuse is not None:
        result = [index for index in result if index.name != reuse.name]
        result.append(reuse)
    return tuple(result)


def _remap(index: IndexMetadata, new: RewrittenIndex, groups: Sequence[RewriteGroup]) -> IndexMetadata:
    if index.fragment_ids is None:
        raise InvalidArgumentError(
            f"index {index.name!r} cannot be remapped: its fragment coverage is unknown",
            field="rewritten_indices",
            hint="rebuild the index",
        )
    for group in groups:
        old = {fragment.id for fragment in group.old_fragments}
        if old & index.fragment_ids and not old <= index.fragment_ids:
            raise InvalidArgumentError(
                f"index {index.name!r} covers only some of the fragments {sorted(old)} of one group",
                field="rewritten_indices",
                hint="group fragments by the indices that cover them",
            )
    changes: dict[str, Any] = {}
    if new.type_url is not None:
        changes = {"type_url": new.type_url, "details": new.details, "index_version": new.index_version}
    # The new segment is stored in this dataset, wherever the old one was.
    return replace(
        index,
        uuid=new.new_uuid,
        fragment_ids=moved_coverage(index.fragment_ids, groups),
        files=new.files,
        base_id=None,
        **changes,
    )


def moved_coverage(covered: frozenset[int] | None, groups: Sequence[RewriteGroup]) -> frozenset[int]:
    """Return the fragments that replace completely covered groups in a rewrite."""
    moved = _without(covered, groups)
    if covered is None:
        return moved
    for group in groups:
        if all(fragment.id in covered for fragment in group.old_fragments):
            moved = moved.union(fragment.id for fragment in group.new_fragments)
    return moved


def _without(covered: frozenset[int] | None, groups: Sequence[RewriteGroup]) -> frozenset[int]:
    # Unknown coverage may include moved fragments: then the segment covers nothing.
    if covered is None:
        return frozenset()
    return covered.difference(fragment.id for group in groups for fragment in group.old_fragments)


def _with_coverage(index: IndexMetadata, covered: frozenset[int] | None) -> IndexMetadata:
    return index if covered == index.fragment_ids else replace(index, fragment_ids=covered)


def without_fields(
    indices: Iterable[IndexMetadata],
    schema: Schema,
    fields: AbstractSet[int],
    fragment_ids: AbstractSet[int],
) -> tuple[IndexMetadata, ...]:
    """Remove fragments from the coverage of segments whose columns have changed values in them."""
    return tuple(
        index
        if index.is_system or fields.isdisjoint(_all_fields(index, schema))
        else _with_coverage(index, None if index.fragment_ids is None else index.fragment_ids - fragment_ids)
        for index in indices
    )


def _all_fields(index: IndexMetadata, schema: Schema) -> set[int]:
    """Return the fields whose values a segment has, with nested ones."""
    named = {*index.fields, *index.covering_fields}
    return {node.id for top in schema.walk() if top.id in named for node in top.walk()}


def indices_of_schema(indices: Iterable[IndexMetadata], schema: Schema) -> tuple[IndexMetadata, ...]:
    """Return the segments whose columns all exist, and system indices."""
    fields = {node.id for node in schema.walk()}
    return tuple(index for index in indices if index.is_system or fields.issuperset(index.fields))
