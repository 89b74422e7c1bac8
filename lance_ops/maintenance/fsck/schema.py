"""Fsck of the schema: names that every reader accepts, ids that files can store, types with their children.

Types of data files: those of the schema, see `stored_types`.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator

from lance_ops.errors import UnsupportedError
from lance_ops.file.schema.blob_fields import is_blob_v2, is_descriptors, is_old_blob
from lance_ops.file.schema.column_names import refused_names
from lance_ops.file.schema.logical_types import LIST_TYPES, decode_logical_type
from lance_ops.file.schema.model import Field, Schema
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.table.dataset import Dataset

_HINT = "restore an older version"


def check_names(dataset: Dataset) -> Iterator[Finding]:
    """Check that no column has a reserved or empty name, one with a NUL character, or that of another."""
    for name, problem in refused_names(dataset.lance_schema):
        message = f"{problem}: pylance cannot read the table; rename column {name!r} or drop it"
        yield Finding("column_names", Severity.ERROR, message)
    for name, times in Counter(field.name for field in dataset.lance_schema.fields).items():
        if times > 1:
            message = f"{times} columns have the name {name!r}, so that no row can be read; {_HINT}"
            yield Finding("column_names", Severity.ERROR, message, dataset.location.path)


def check_schema(dataset: Dataset) -> Iterator[Finding]:
    """Check that each field has an id that files can store, and the children of its type."""
    for field in dataset.lance_schema.walk():
        problem = _problem(field)
        if problem is not None:
            message = f"field {field.name!r} {problem}; {_HINT}"
            yield Finding("manifest_valid", Severity.ERROR, message, dataset.location.path)


def _problem(field: Field) -> str | None:
    kind = field.logical_type
    if field.id < 0:
        return f"has the id {field.id}, which no file can store"
    if kind == "struct":
        return None
    if kind in LIST_TYPES or kind == "map" or kind.startswith("fixed_size_list:struct:"):
        if len(field.children) != 1:
            return f"of type {kind!r} must have one child, got {len(field.children)}"
        if kind == "map" and len(field.children[0].children) != 2:
            return "of type 'map' must have entries of a key and a value"
    elif field.children:
        # A type of a later release may have children.
        with contextlib.suppress(UnsupportedError):
            decode_logical_type(kind)
            return f"of type {kind!r} cannot have children"
    return None


def stored_types(schema: Schema) -> dict[int, tuple[str, ...]]:
    """Return the types of the leaves in files by field id, each below those that it is nested in.

    Blobs are left out: files have descriptors instead, also in their own schemas.
    """
    found: dict[int, tuple[str, ...]] = {}

    def walk(field: Field, above: tuple[str, ...]) -> None:
        if is_blob_v2(field) or is_old_blob(field) or is_descriptors(field):
            return
        if not field.children:
            with contextlib.suppress(UnsupportedError):
                found[field.id] = (*above, str(field.file_type))
        kind = field.logical_type.removeprefix("large_").partition(".")[0]
        for child in field.children:
            walk(child, (*above, kind))

    for field in schema.fields:
        walk(field, ())
    return found
