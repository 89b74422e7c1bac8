"""Method of a group: whether its encoded pages are copied, or its rows are read and written anew. Pure.

To copy takes a fraction of a rewrite's work for each byte, but a fixed time for each page, which a rewrite
does not have: so files whose pages are small are rewritten. What the manifest cannot tell, such as the
encodings of the files, the task of a group looks at; it rewrites where they do not allow the copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import is_legacy
from lance_ops.maintenance.compact.columns import find_places
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.text import bytes_text
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.numbers import examples
from lance_ops.table.manifest.fragments.totals import total_bytes

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
