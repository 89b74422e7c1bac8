"""Method of a group: whether its encoded pages are copied, or its rows are read and written anew. Pure.

To copy takes a fraction of a rewrite's work for each byte, but a fixed time for each page, which a rewrite
does not have: so files whose pages are small are rewritten. What the manifest cannot tell, such as the
encodings of the files, the task of a group looks at; it rewrites where they do not allow the copy.

Fragments of one table need not have the same columns: what was dropped is left behind in old files, and what
was added later is not in them, which reads as null. Files can be copied into one as long as every column is
in the same of a fragment's files wherever it is.
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

# Whose columns of nulls are not the same for all types.
_WITHOUT_NULL_PAGES = frozenset({"2.0"})
_ELSEWHERE = "its fragments do not have the same columns in the same files"
_UNKNOWN = "its files have columns that the table does not know"
_NOTHING_LEFT = "its files have columns that the table has no more"


@dataclass(frozen=True, slots=True)
class Place:
    """Files, one of each fragment, that become one.

    Attributes:
        number: Of the file among those of its fragment.
        schema: What the new file holds; None for what all of them hold.
    """

    number: int
    schema: Schema | None = None


def find_places(fragments: Sequence[Fragment], schema: Schema) -> tuple[Place, ...] | str:
    """Match the files of fragments.

    Args:
        fragments: At least one.
        schema: Of the dataset.

    Returns:
        The files of a new fragment, or why there cannot be one.
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
"""Pages smaller than this on average take longer to copy than to read and write anew."""


class Method(StrEnum):
    """How the rows of a group get into new files."""

    COPY = "copy"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class GroupMethod:
    """The method of a group.

    Attributes:
        method: What is done.
        reason: Why, for people.
    """

    method: Method
    reason: str


def choose_method(
    fragments: Sequence[Fragment], files: int, schema: Schema, version: str, options: CompactionOptions
) -> GroupMethod:
    """Choose by what the manifest tells of the files, and by cost.

    Args:
        fragments: Of the group.
        files: How many new fragments are to be made of it.
        schema: Of the dataset.
        version: Storage version of the files to be written.
        options: Of the compaction; `method` overrides the cost, not what is impossible.
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
    # More fragments than there were have more pages, too.
    pages = max(pages, pages * files // len(fragments))
    size = total_bytes(fragments) // max(1, pages)
    if size < COPY_PAGE_BYTES:
        return GroupMethod(Method.REWRITE, f"a column has {bytes_text(size)} a file on average: small pages")
    return GroupMethod(Method.COPY, "pages can stay as they are")


def _obstacle(
    fragments: Sequence[Fragment], files: int, schema: Schema, version: str, options: CompactionOptions
) -> str | None:
    """What keeps the pages of the fragments from being copied, as far as the manifest tells."""
    if files == 0:
        return "no row is left"
    # One fragment tells what all of its kind do.
    kinds = [fragment for fragment, _ in examples(fragments)]
    if any(fragment.has_overlays for fragment in kinds):
        return "it has data overlays"
    if has_blobs(schema):
        return "blobs lie where their pages say, and would move"
    if any(field.logical_type == JSON_TYPE for field in schema.walk()):
        return "it has documents of JSON, whose copied pages pylance does not read"
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
        # How many bytes each of several new files will have nobody knows before.
        if files > 1:
            return f"it becomes {files} fragments, whose bytes are limited"
        if total_bytes(fragments) > options.max_bytes_per_file:
            return f"one file would exceed {bytes_text(options.max_bytes_per_file)}"
    return None
