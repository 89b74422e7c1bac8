"""Method of a group: copy encoded pages, or rewrite rows. Pure.

To copy takes a fraction of a rewrite's work for each byte, but a fixed time for each page, which a rewrite
does not have: so files whose pages are small are rewritten. What the manifest cannot tell, such as the
encodings of the files, the task of a group looks at; it rewrites where they do not allow the copy.

Fragments of one table need not have the same columns: dropped columns remain in old files, and columns added
later are missing in them and read as null. Files can be copied into one if every column is in the same file
of each fragment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.versions import is_legacy
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.text import bytes_text
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, UNASSIGNED
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.numbers import examples
from lance_ops.table.manifest.fragments.totals import total_bytes

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


COPY_PAGE_BYTES = 8 << 10
"""Average page size below which copying is slower than rewriting."""


class Method(StrEnum):
    """Method of writing the rows of a group to new files."""

    COPY = "copy"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class GroupMethod:
    """The method of a group.

    Attributes:
        method: The method.
        reason: The reason, for display.
    """

    method: Method
    reason: str


def choose_method(
    fragments: Sequence[Fragment], files: int, schema: Schema, version: str, options: CompactionOptions
) -> GroupMethod:
    """Choose the method by the manifest and by cost.

    Args:
        fragments: Fragments of the group.
        files: Number of new fragments.
        schema: Schema of the dataset.
        version: Storage version of the new files.
        options: Options of the compaction; `method` overrides the cost, but not obstacles.
    """
    if options.method == Method.REWRITE:
        return GroupMethod(Method.REWRITE, "as asked")
    obstacle = _obstacle(fragments, files, schema, version, options)
    if obstacle is not None:
        return GroupMethod(Method.REWRITE, obstacle)
    if options.method == Method.COPY:
        return GroupMethod(Method.COPY, "as asked")
    kinds = examples(fragments)
    pages = sum(count * len(file.fields) for fragment, count in kinds for file in fragment.files)
    # More fragments than before have more pages, too.
    pages = max(pages, pages * files // len(fragments))
    size = total_bytes(fragments) // max(1, pages)
    if size < COPY_PAGE_BYTES:
        return GroupMethod(
            Method.REWRITE, f"pages are small: a column has {bytes_text(size)} per file on average"
        )
    return GroupMethod(Method.COPY, "pages can be copied")


def _obstacle(
    fragments: Sequence[Fragment], files: int, schema: Schema, version: str, options: CompactionOptions
) -> str | None:
    """Return why the fragments' pages cannot be copied, as far as the manifest shows; None if they can."""
    if files == 0:
        return "no rows are left"
    # One fragment represents all of its kind.
    kinds = [fragment for fragment, _ in examples(fragments)]
    if any(fragment.has_overlays for fragment in kinds):
        return "it has data overlays"
    if has_blobs(schema):
        return "pages contain the offsets of blobs, which would change"
    if any(field.logical_type == JSON_TYPE for field in schema.walk()):
        return "it has JSON documents, whose copied pages pylance cannot read"
    every = [file for fragment in kinds for file in fragment.files]
    if any(is_legacy(file.major, file.minor) for file in every):
        return "files of storage version 0.1 have no pages that can be copied"
    others = sorted({file.storage_version for file in every} - {version})
    if others:
        return f"files of storage version {', '.join(others)} become {version}"
    places = find_places(kinds, schema)
    if isinstance(places, str):
        return places
    if options.max_bytes_per_file is not None:
        # The sizes of several new files are unknown beforehand.
        if files > 1:
            return f"it becomes {files} fragments with limited size"
        if total_bytes(fragments) > options.max_bytes_per_file:
            return f"one file would exceed {bytes_text(options.max_bytes_per_file)}"
    return None
