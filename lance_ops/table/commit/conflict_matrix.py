"""Conflict matrix: which commits collide, as a table.

A row is the operation that is being committed, a column one that another writer has committed since our read
version. Source: format, "Conflict resolution", and the behaviour of pylance (`test_conflict_matrix.py` drives
both, and names the cells where ours is stricter).

Symbols:

- `.` compatible: both commits are valid
- `r` retryable: the operation may succeed if planned again from the head
- `X` incompatible: the other commit contradicts this operation
- a word: the rule of that name in `conflict_rules`, which looks into both operations

An unknown operation is not in the table: it conflicts with everything (`judge`).

Conflict rules named by cells of the matrix: each compares both operations and returns a verdict.

A `compatible` verdict covers the declared operations only. `rebase` also compares the fragments of the read
version and the head, so a rule that is too generous cannot lose the work of another writer.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from lance_ops.table.manifest.index_metadata import FRAGMENT_REUSE_INDEX, IndexMetadata
from lance_ops.table.manifest.index_versions import holds_stable_row_ids
from lance_ops.table.transaction.apply_mem_wal import MEM_WAL_INDEX
from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    Rewrite,
    Update,
    UpdateConfig,
)
from lance_ops.table.transaction.transaction import Transaction


class Outcome(Enum):
    """Result of a conflict check."""

    COMPATIBLE = "compatible"
    RETRYABLE = "retryable"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision whether two transactions are compatible, with the reason if not."""

    outcome: Outcome
    reason: str = ""


Rule: TypeAlias = Callable[[Operation, Operation], Verdict]

_COMPATIBLE = Verdict(Outcome.COMPATIBLE)


def compatible() -> Verdict:
    """Return the verdict that both commits are valid."""
    return _COMPATIBLE


def retryable(reason: str) -> Verdict:
    """Return a verdict that planning again from the head may solve."""
    return Verdict(Outcome.RETRYABLE, reason)


def incompatible(reason: str) -> Verdict:
    """Return a verdict that planning again does not solve."""
    return Verdict(Outcome.INCOMPATIBLE, reason)


def same_fragments(ours: Operation, theirs: Operation) -> Verdict:
    """`frag`: retryable if both change a fragment, remap the same index segment, or defer their remaps."""
    common = ours.changed_fragments() & theirs.changed_fragments()
    if common:
        return retryable(f"both change {_fragments(common)}")
    if isinstance(ours, Rewrite) and isinstance(theirs, Rewrite):
        if ours.fragment_reuse_index is not None:
            return retryable("the fragment reuse index may have changed")
        if ours.removed_segments() & theirs.removed_segments():
            return retryable("both remap the same index segment")
    return compatible()


def deletions_carried(ours: Operation, theirs: Operation) -> Verdict:
    """`carry`: `rebase` applies deletions since the read version to our new fragments.

    Retryable if the other commit updated rows of a fragment in place: ours wrote the old values. pylance
    retries in any case.
    """
    assert isinstance(ours, Rewrite)
    assert isinstance(theirs, Delete | Update)
    if isinstance(theirs, Update) and theirs.fields_modified:
        return same_fragments(ours, theirs)
    return compatible()


def rows_followed(ours: Operation, theirs: Operation) -> Verdict:
    """`follow`: `rebase` finds deleted rows in the fragments that a Rewrite moved them to.

    Retryable if the live row counts differ, because rows are then not identified by rank. pylance retries in
    any case.
    """
    assert isinstance(ours, Delete | Update)
    assert isinstance(theirs, Rewrite)
    if isinstance(ours, Update) and ours.fields_modified:
        return same_fragments(ours, theirs)
    for group in theirs.groups:
        common = ours.changed_fragments().intersection(fragment.id for fragment in group.old_fragments)
        rows = [sum(item.num_rows for item in side) for side in (group.old_fragments, group.new_fragments)]
        if common and rows[0] != rows[1]:
            return retryable(f"the new location of the rows of {_fragments(common)} is not recorded")
    return compatible()


def same_rows(ours: Operation, theirs: Operation) -> Verdict:
    """`rows`: `rebase` merges deletions from a fragment that both keep, unless they delete the same rows.

    pylance merges too if its caller passes the deleted rows, and retries otherwise; here they are read from
    the deletion files.
    """
    assert isinstance(ours, Delete | Update)
    assert isinstance(theirs, Delete | Update)
    common = ours.changed_fragments() & theirs.changed_fragments()
    emptied = common & (ours.emptied_fragments() | theirs.emptied_fragments())
    return retryable(f"both delete rows of {_fragments(emptied)}") if emptied else compatible()


def rows_added(ours: Operation, theirs: Operation) -> Verdict:
    """`added`: retryable if rows were added that ours, which replaces rows, did not see.

    Planned after them, our operation would replace the matching ones. pylance allows both commits.
    """
    assert isinstance(ours, Update)
    assert isinstance(theirs, Append | Update)
    added = theirs.fragments if isinstance(theirs, Append) else theirs.new_fragments
    if added and ours.sees_new_rows and not _have_other_keys(ours, theirs):
        return retryable("this operation replaces rows, and did not see the rows that the other commit added")
    return compatible() if isinstance(theirs, Append) else same_rows(ours, theirs)


def _have_other_keys(ours: Update, theirs: Append | Update) -> bool:
    """Return whether both record the keys of the rows that they insert, and share none of them."""
    if isinstance(theirs, Append) or ours.inserted_keys is None or theirs.inserted_keys is None:
        return False
    return not ours.inserted_keys.meets(theirs.inserted_keys)


def keeps_nullability(ours: Operation, theirs: Operation) -> Verdict:
    """`null`: rows written without knowledge of a schema change are valid if no column became required."""
    change = ours if isinstance(ours, Project) else theirs
    assert isinstance(change, Project | Merge)
    if change.preserves_nullability:
        return compatible()
    return retryable("a column may have become required, and rows were written without knowledge of it")


def schema_alone(ours: Operation, theirs: Operation) -> Verdict:
    """`schema`: retryable unless ours changes the schema alone, and so takes the fragments of the head.

    pylance retries in any case.
    """
    assert isinstance(ours, Merge)
    if ours.schema_only:
        return compatible()
    return retryable(f"this operation lists columns of all fragments, and {theirs.kind} changed some")


def same_config(ours: Operation, theirs: Operation) -> Verdict:
    """`config`: incompatible if both set a config key or change the same metadata."""
    common = _config_keys(ours) & _config_keys(theirs)
    if common:
        return incompatible(f"both change {', '.join(sorted(common))}")
    if isinstance(ours, Overwrite) and isinstance(theirs, Overwrite):
        return retryable("both replace the whole dataset")
    if isinstance(ours, UpdateConfig) and isinstance(theirs, UpdateConfig):
        for first, second in ((ours.config, theirs.config), (ours.table_metadata, theirs.table_metadata)):
            if first is not None and second is not None and (first.replace or second.replace):
                return incompatible("one replaces the whole map that the other changes")
        return compatible()
    # An Overwrite replaces metadata as it replaces rows; metadata of the old schema must not apply to the new
    # one.
    if isinstance(ours, UpdateConfig) and _changes_schema_metadata(ours):
        return incompatible("the schema whose metadata this operation changes was replaced")
    return compatible()


def schema_restored(ours: Operation, theirs: Operation) -> Verdict:
    """`back`: incompatible if schema or field metadata change while an old schema is restored."""
    update = ours if isinstance(ours, UpdateConfig) else theirs
    assert isinstance(update, UpdateConfig)
    if _changes_schema_metadata(update):
        return incompatible("one restores an old schema and the other changes its metadata")
    return compatible()


def schema_metadata(ours: Operation, theirs: Operation) -> Verdict:
    """`meta`: retryable if a schema is replaced while its metadata change."""
    update = ours if isinstance(ours, UpdateConfig) else theirs
    assert isinstance(update, UpdateConfig)
    # A Project keeps the metadata of the schema and replaces those of the fields.
    project = isinstance(ours, Project)
    if update.field_metadata or (update.schema_metadata is not None and not project):
        return retryable("one replaces the schema whose metadata the other changes")
    return compatible()


def same_index(ours: Operation, theirs: Operation) -> Verdict:
    """`index`: retryable if both build, replace or drop segments of the same index."""
    assert isinstance(ours, CreateIndex)
    assert isinstance(theirs, CreateIndex)
    common = ours.index_names & theirs.index_names
    return retryable(f"both change index {', '.join(sorted(common))}") if common else compatible()


def rows_moved(ours: Operation, theirs: Operation) -> Verdict:
    """`moved`: compatible; `rebase` computes which of the rewritten fragments the new index still covers.

    Retryable if its coverage is unknown, or if it replaces a segment that was remapped. pylance retries
    whenever a covered fragment was rewritten.
    """
    assert isinstance(ours, CreateIndex)
    assert isinstance(theirs, Rewrite)
    return _replaces_remapped(ours, theirs) or _covers_unknown(ours) or compatible()


def index_built(ours: Operation, theirs: Operation) -> Verdict:
    """`built`: retryable if an index was built on fragments that ours rewrites, or has no fragment bitmap.

    Not if it refers to rows by stable row ids: it covers the new fragments then. Not for fragments that ours
    rewrites in place, whose rows keep their addresses. pylance retries in both cases.
    """
    assert isinstance(ours, Rewrite)
    assert isinstance(theirs, CreateIndex)
    if ours.fragment_reuse_index is not None and FRAGMENT_REUSE_INDEX in theirs.index_names:
        return retryable("the fragment reuse index changed")
    if not ours.moved_fragments():
        return compatible()
    verdict = _replaces_remapped(theirs, ours) or _covers_unknown(theirs)
    if verdict is not None:
        return verdict
    stable = all(fragment.row_ids is not None for fragment in ours.new_fragments)
    for segment in theirs.new_indices:
        if segment.is_system or segment.fragment_ids is None:
            continue
        covered = segment.fragment_ids & ours.moved_fragments()
        if covered and not (stable and holds_stable_row_ids(segment) and _covers_whole(segment, ours)):
            return retryable(
                f"index {segment.name!r} covers {_fragments(covered)}, which were rewritten concurrently"
            )
    return compatible()


def _covers_whole(segment: IndexMetadata, rewrite: Rewrite) -> bool:
    """Return whether a segment covers all or none of the fragments of each group."""
    covered = segment.fragment_ids or frozenset()
    groups = ({fragment.id for fragment in group.old_fragments} for group in rewrite.groups)
    return all(old <= covered or old.isdisjoint(covered) for old in groups)


def _replaces_remapped(index: CreateIndex, rewrite: Rewrite) -> Verdict | None:
    # A removed segment that was remapped has a new UUID: removing the old one would have no effect.
    if rewrite.removed_segments().intersection(segment.uuid for segment in index.removed_indices):
        return retryable("one commit remaps an index segment that the other removes")
    return None


def _covers_unknown(index: CreateIndex) -> Verdict | None:
    for segment in index.new_indices:
        if segment.fragment_ids is None and not segment.is_system:
            return retryable(f"the fragment coverage of index {segment.name!r} is unknown")
    return None


def fields_updated(ours: Operation, theirs: Operation) -> Verdict:
    """`prune`: compatible. `rebase` removes fragments with changed values from the index coverage."""
    assert isinstance(ours, CreateIndex)
    assert isinstance(theirs, Update)
    return compatible()


def fields_replaced(ours: Operation, theirs: Operation) -> Verdict:
    """`field`: retryable if values of an indexed field were replaced, in any fragment and either order."""
    index, replacement = (ours, theirs) if isinstance(ours, CreateIndex) else (theirs, ours)
    assert isinstance(index, CreateIndex)
    assert isinstance(replacement, DataReplacement)
    common = {number for item in index.new_indices for number in item.fields} & replacement.fields
    return retryable("values of an indexed column were replaced") if common else compatible()


def columns_there(ours: Operation, theirs: Operation) -> Verdict:
    """`there`: incompatible if a column whose values ours replaces was dropped.

    Retryable if a fragment was removed, its rows were moved, or the replaced values changed concurrently;
    deleted rows do no harm.
    """
    assert isinstance(ours, DataReplacement)
    if isinstance(theirs, Project):
        if not theirs.preserves_nullability:
            return keeps_nullability(ours, theirs)
        gone = ours.fields.difference(node.id for node in theirs.schema.walk())
        return incompatible("a column that this operation replaces was dropped") if gone else compatible()
    common = ours.changed_fragments() & theirs.changed_fragments()
    if isinstance(theirs, Rewrite):
        return retryable(f"{_fragments(common)} were rewritten") if common else compatible()
    assert isinstance(theirs, Delete | Update)
    emptied = common & theirs.emptied_fragments()
    if emptied:
        return retryable(f"all rows of {_fragments(emptied)} were deleted")
    if isinstance(theirs, Update) and common:
        return retryable(f"rows of {_fragments(common)} were updated")
    return compatible()


def fields_kept(ours: Operation, theirs: Operation) -> Verdict:
    """`kept`: retryable if a column that ours indexes or describes was dropped. pylance commits the index."""
    assert isinstance(ours, CreateIndex | UpdateConfig)
    assert isinstance(theirs, Merge | Project)
    if isinstance(ours, CreateIndex):
        needed = {field_id for index in ours.new_indices for field_id in index.fields}
    else:
        needed = set(ours.field_metadata)
    if needed.difference(node.id for node in theirs.schema.walk()):
        return retryable("a column that this operation needs was dropped")
    if isinstance(ours, CreateIndex) and isinstance(theirs, Merge):
        return mem_wal_index(theirs, ours)
    return compatible()


def mem_wal_index(_merge: Operation, index: Operation) -> Verdict:
    """`memwal`: retryable if a Merge meets a change of the MemWAL index."""
    assert isinstance(index, CreateIndex)
    if MEM_WAL_INDEX in index.index_names:
        return retryable("the MemWAL index changed")
    return compatible()


def _always(verdict: Verdict) -> Rule:
    return lambda _ours, _theirs: verdict


RULES: Mapping[str, Rule] = {
    ".": _always(compatible()),
    "r": _always(retryable("the two operations cannot be merged")),
    "X": _always(incompatible("the other commit contradicts this operation")),
    "added": rows_added,
    "back": schema_restored,
    "built": index_built,
    "carry": deletions_carried,
    "config": same_config,
    "field": fields_replaced,
    "frag": same_fragments,
    "follow": rows_followed,
    "index": same_index,
    "kept": fields_kept,
    "memwal": mem_wal_index,
    "meta": schema_metadata,
    "moved": rows_moved,
    "null": keeps_nullability,
    "prune": fields_updated,
    "rows": same_rows,
    "schema": schema_alone,
    "there": columns_there,
}
"""Conflict rule by its symbol in the matrix."""


def _fragments(ids: Iterable[int]) -> str:
    listed = sorted(ids)
    return f"fragment{'' if len(listed) == 1 else 's'} {', '.join(map(str, listed))}"


def _changes_schema_metadata(update: UpdateConfig) -> bool:
    return update.schema_metadata is not None or bool(update.field_metadata)


def _config_keys(operation: Operation) -> frozenset[str]:
    """Return keys of config and metadata that an operation sets or removes, with names for messages."""
    if isinstance(operation, Overwrite):
        return frozenset(f"config {key!r}" for key in operation.config_upsert)
    assert isinstance(operation, UpdateConfig)
    keys = [
        f"{what} {key!r}"
        for what, update in (("config", operation.config), ("table metadata", operation.table_metadata))
        if update is not None
        for key in update.entries
    ]
    if operation.schema_metadata is not None:
        keys.append("schema metadata")
    keys.extend(f"metadata of field {field_id}" for field_id in operation.field_metadata)
    return frozenset(keys)


MATRIX = """
ours \\ theirs     Append Delete Update Overwrite CreateIndex Rewrite Merge Restore ReserveFragments Project
Append            .      .      .      X         .           .       null  X       .                null
Delete            .      rows   rows   X         .           follow  r     X       .                .
Update            added  rows   added  X         .           follow  r     X       .                null
Overwrite         .      .      .      config    .           .       .     .       .                .
CreateIndex       .      .      prune  X         index       moved   kept  X       .                kept
Rewrite           .      carry  carry  X         built       frag    r     X       .                .
Merge             schema schema schema X         memwal      schema  r     X       .                r
Restore           .      .      .      .         .           .       .     .       .                .
ReserveFragments  .      .      .      X         .           .       .     X       .                .
Project           null   .      null   X         .           .       r     X       .                r
UpdateConfig      .      .      .      config    .           .       meta  back    .                kept
DataReplacement   .      there  there  X         field       there   r     X       .                there

ours \\ theirs     UpdateConfig DataReplacement DataOverlay UpdateMemWalState Clone UpdateBases
Append            .            .               .           X                 .     .
Delete            .            frag            .           X                 .     .
Update            .            r               r           X                 .     .
Overwrite         config       .               .           X                 .     .
CreateIndex       .            field           .           X                 .     .
Rewrite           .            frag            frag        .                 .     .
Merge             meta         schema          r           X                 .     .
Restore           back         .               .           X                 .     .
ReserveFragments  .            .               .           .                 .     .
Project           meta         null            null        X                 .     .
UpdateConfig      config       .               .           .                 .     .
DataReplacement   .            frag            frag        X                 .     .
"""


def _parse_matrix(text: str) -> Mapping[tuple[str, str], Rule]:
    cells: dict[tuple[str, str], Rule] = {}
    columns: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[:3] == ["ours", "\\", "theirs"]:
            columns = words[3:]
            continue
        row, symbols = words[0], words[1:]
        for column, symbol in zip(columns, symbols, strict=True):
            cells[row, column] = RULES[symbol]
    return cells


RULE_OF: Mapping[tuple[str, str], Rule] = _parse_matrix(MATRIX)
"""Matrix by (kind of ours, kind of theirs)."""


def judge(ours: Transaction, theirs: Transaction) -> Verdict:
    """Decide whether our transaction can still be committed after another one.

    Args:
        ours: The transaction to commit.
        theirs: A transaction committed after our read version.

    Returns:
        Verdict of the matrix cell. An operation of unknown kind is a retryable conflict (architecture,
        invariant 1).
    """
    rule = RULE_OF.get((ours.operation.kind, theirs.operation.kind))
    if rule is None:
        return retryable("the other commit has an operation that this version of lance_ops does not know")
    return rule(ours.operation, theirs.operation)


__all__ = [
    "MATRIX",
    "RULE_OF",
    "Verdict",
    "compatible",
    "incompatible",
    "judge",
    "retryable",
]
