"""Operations in one line for people: conflict messages, history, alerts."""

from collections.abc import Callable, Iterable
from textwrap import shorten
from typing import Any

from lance_ops.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    ForeignOperation,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateConfig,
    kind_of,
)

_MANY = 8
_LONG = 200


def describe_operation(operation: Operation) -> str:
    """What an operation does, in one short line: `Delete in fragments 1, 4 where year < 2013`."""
    return _DESCRIBERS.get(type(operation), kind_of)(operation)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _listed(values: Iterable[object]) -> str:
    texts = [str(value) for value in values]
    shown = ", ".join(texts[:_MANY])
    return shown if len(texts) <= _MANY else f"{shown} and {len(texts) - _MANY:,} more"


def _fragment_list(ids: Iterable[int]) -> str:
    listed = sorted(set(ids))
    return f"fragment{'' if len(listed) == 1 else 's'} {_listed(listed) or 'none'}"


def _append(operation: Append) -> str:
    rows = sum(fragment.physical_rows for fragment in operation.fragments)
    return f"Append of {_count(rows, 'row')} in {_count(len(operation.fragments), 'fragment')}"


def _delete(operation: Delete) -> str:
    ids = [fragment.id for fragment in operation.updated_fragments]
    predicate = shorten(operation.predicate, _LONG, placeholder=" …")
    where = f" where {predicate}" if predicate else ""
    return f"Delete in {_fragment_list([*ids, *operation.deleted_fragment_ids])}{where}"


def _overwrite(operation: Overwrite) -> str:
    rows = sum(fragment.physical_rows for fragment in operation.fragments)
    return f"Overwrite with {_count(rows, 'row')} in {_count(len(operation.fragments), 'fragment')}"


def _create_index(operation: CreateIndex) -> str:
    added = sorted({index.name for index in operation.new_indices})
    if added:
        return f"CreateIndex of {_listed(added)}"
    return f"CreateIndex that drops {_listed(sorted({index.name for index in operation.removed_indices}))}"


def _rewrite(operation: Rewrite) -> str:
    old = [fragment.id for group in operation.groups for fragment in group.old_fragments]
    new = [fragment.id for group in operation.groups for fragment in group.new_fragments]
    return f"Rewrite of {_fragment_list(old)} into {_listed(sorted(new)) or 'none'}"


def _update(operation: Update) -> str:
    ids = [fragment.id for fragment in operation.updated_fragments]
    where = f"Update in {_fragment_list([*ids, *operation.removed_fragment_ids])}"
    if not operation.new_fragments:
        return where
    rows = sum(fragment.physical_rows for fragment in operation.new_fragments)
    return f"{where} with {_count(rows, 'new row')} in {_count(len(operation.new_fragments), 'fragment')}"


def _merge(operation: Merge) -> str:
    return f"Merge to columns {_listed(operation.schema.names)}"


def _project(operation: Project) -> str:
    return f"Project to columns {_listed(operation.schema.names)}"


def _update_config(operation: UpdateConfig) -> str:
    parts = [
        f"{what} {_listed(sorted(update.entries)) or 'as a whole'}"
        for what, update in (
            ("config", operation.config),
            ("table metadata", operation.table_metadata),
            ("schema metadata", operation.schema_metadata),
        )
        if update is not None
    ]
    if operation.field_metadata:
        parts.append(f"metadata of fields {_listed(sorted(operation.field_metadata))}")
    return f"UpdateConfig of {'; '.join(parts) or 'nothing'}"


def _data_replacement(operation: DataReplacement) -> str:
    return f"DataReplacement in {_fragment_list(fragment_id for fragment_id, _ in operation.replacements)}"


def _foreign(operation: ForeignOperation) -> str:
    if operation.fragment_ids:
        return f"{operation.kind} in {_fragment_list(operation.fragment_ids)}"
    return "an operation of unknown kind" if operation.kind == "Unknown" else operation.kind


_DESCRIBERS: dict[type[Operation], Callable[[Any], str]] = {
    Append: _append,
    Delete: _delete,
    Overwrite: _overwrite,
    CreateIndex: _create_index,
    Rewrite: _rewrite,
    Update: _update,
    Merge: _merge,
    Project: _project,
    Restore: lambda operation: f"Restore of version {operation.version}",
    ReserveFragments: lambda operation: f"ReserveFragments of {_count(operation.num_fragments, 'id')}",
    UpdateConfig: _update_config,
    DataReplacement: _data_replacement,
    ForeignOperation: _foreign,
}
