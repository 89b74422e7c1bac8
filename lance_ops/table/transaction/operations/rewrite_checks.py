"""Rewrite groups: check that the new fragments have all live rows and columns of the old ones. Pure."""

from collections.abc import Iterable, Sequence

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Field, Schema
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations.checks import check_row_ids, wrong
from lance_ops.table.transaction.rewrite_group import RewriteGroup


def check_group(manifest: Manifest, group: RewriteGroup) -> None:
    """Refuse a group that would lose or add rows, columns or row ids.

    Raises:
        InvalidArgumentError: The group is invalid.
    """
    before = sum(fragment.num_rows for fragment in group.old_fragments)
    after = sum(fragment.num_rows for fragment in group.new_fragments)
    if before != after:
        ids = [fragment.id for fragment in group.old_fragments]
        raise InvalidArgumentError(
            f"rewriting fragments {ids[:8]} would turn {before:,} live rows into {after:,}", field="groups"
        )
    if not group.new_fragments:
        return
    _check_columns(group, manifest.schema)
    stable = manifest.uses_stable_row_ids
    check_row_ids(group.new_fragments, required=stable, allowed=stable)


def _check_columns(group: RewriteGroup, schema: Schema) -> None:
    stored = _stored_fields(group.old_fragments)
    leaves = {leaf.id: line for leaf, line in _leaves(schema) if _is_stored(line, stored)}
    for fragment in group.new_fragments:
        if not fragment.files or fragment.physical_rows <= 0:
            raise wrong("it has no data", fragment)
        present = _stored_fields([fragment])
        lost = [schema.path(leaf) for leaf, line in leaves.items() if not _is_stored(line, present)]
        if lost:
            raise wrong(f"columns {', '.join(lost[:8])} would be lost", fragment)


def _stored_fields(fragments: Iterable[Fragment]) -> set[int]:
    return {field_id for fragment in fragments for file in fragment.files for field_id in file.fields}


def _leaves(schema: Schema) -> Iterable[tuple[Field, Sequence[Field]]]:
    def descend(node: Field, line: tuple[Field, ...]) -> Iterable[tuple[Field, Sequence[Field]]]:
        line = (*line, node)
        if not node.children:
            yield node, line
        for child in node.children:
            yield from descend(child, line)

    for top in schema.fields:
        yield from descend(top, ())


def _is_stored(line: Sequence[Field], stored: set[int]) -> bool:
    """Return whether the files have the last field of a path of fields.

    Storage versions differ in which fields of a struct they list: all, the leaves only, or a packed struct
    alone.
    """
    *ancestors, leaf = line
    if leaf.id in stored:
        return True
    for ancestor in reversed(ancestors):
        if ancestor.id in stored:
            return not any(node.id in stored for node in ancestor.walk() if node is not ancestor)
    return False
