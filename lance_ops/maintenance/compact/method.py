"""Method of a group: copy encoded pages, or rewrite rows. Pure.

A copy costs a fraction of a rewrite per byte, but a fixed time per page: so files with small pages are
rewritten. The task of a group checks properties outside of the manifest, such as encodings; it rewrites if
they do not allow the copy.
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
