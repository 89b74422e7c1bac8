"""Columns of a group: match the files of its fragments that become one file. Pure.

Fragments of one table need not have the same columns: dropped columns remain in old files, and columns added
later are missing in them and read as null. Files can be copied into one if every column is in the same file
of each fragment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lance_ops.file.schema.model import Field, Schema
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, UNASSIGNED
from lance_ops.table.manifest.fragment import Fragment

# Storage versions in which null columns differ by type.
_WITHOUT_NULL_PAGES = frozenset({"2.0"})
_ELSEWHERE = "its fragments do not have the same columns in the same files"
_UNKNOWN = "its files have columns that are not in the schema"
_NOTHING_LEFT = "its files have dropped columns"


@dataclass(frozen=True, slots=True)
class Place:
    """Files, one of each fragment, that become one file.

    Attributes:
        number: Position of the file in its fragment.
        schema: Columns of the new file; None for those of all files.
    """

    number: int
    schema: Schema | None = None


def find_places(fragments: Sequence[Fragment], schema: Schema) -> tuple[Place, ...] | str:
    """Match the files of fragments.

    Args:
        fragments: At least one.
        schema: Schema of the dataset.

    Returns:
        The files of a new fragment, or the reason why they cannot be merged.
    """
    first = fragments[0]
    every = [file for fragment in fragments for file in fragment.files]
    tops = {node.id: top for top in schema.fields for node in top.walk()}
    is_alike = len({_columns(fragment) for fragment in fragments}) == 1
    if is_alike and all(field_id in tops for file in every for field_id in file.fields):
        return tuple(Place(number) for number in range(len(first.files)))
    unknown = {UNASSIGNED, *LINEAGE_FIELDS.values()}
    if any(field_id in unknown for file in every for field_id in file.fields):
        return _UNKNOWN
    if len({len(fragment.files) for fragment in fragments}) != 1:
        return _ELSEWHERE
    numbers: dict[int, int] = {}
    for fragment in fragments:
        for number, file in enumerate(fragment.files):
            for field_id in file.fields:
                top = tops.get(field_id)
                if top is not None and numbers.setdefault(top.id, number) != number:
                    return _ELSEWHERE
    is_old = any(file.storage_version in _WITHOUT_NULL_PAGES for file in every)
    for top in schema.fields:
        if top.id in numbers and (is_old or not _can_be_null(top)) and not _is_everywhere(top, fragments):
            return f"column {top.name!r} is not in all of its fragments"
    places = []
    for number in sorted(set(numbers.values())):
        held = tuple(top for top in schema.fields if numbers.get(top.id) == number)
        places.append(Place(number, Schema(held, schema.metadata)))
    return tuple(places) if places else _NOTHING_LEFT


def _columns(fragment: Fragment) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    return tuple((file.fields, file.column_indices) for file in fragment.files)


def _can_be_null(field: Field) -> bool:
    return field.nullable and not field.children


def _is_everywhere(field: Field, fragments: Sequence[Fragment]) -> bool:
    ids = {node.id for node in field.walk()}
    return all(any(ids.intersection(file.fields) for file in fragment.files) for fragment in fragments)
