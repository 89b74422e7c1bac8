"""Stored columns: find the data files of columns, and assemble columns from their parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from lance_ops.errors import CorruptManifestError, UnsupportedError
from lance_ops.file.schema.blob_fields import VERSIONS_WITH_OLD_BLOBS, before_upgrade, upgrade_batch
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.pb import file_pb2
from lance_ops.table.assemble import assemble
from lance_ops.table.manifest.data_file import UNASSIGNED, DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import Manifest


@dataclass(frozen=True, slots=True)
class StoredPart:
    """The part of some columns in one data file.

    Attributes:
        file: The file.
        schema: The columns, or parts of them.
        stored: The same in the form stored by its file version.
    """

    file: DataFile
    schema: Schema
    stored: Schema


def find_parts(fragment: Fragment, schema: Schema) -> list[StoredPart]:
    """Return the parts of columns in the data files of a fragment; `join_parts` assembles them.

    Values of overlays are not included, see `overlaid`.

    Args:
        fragment: The fragment, or the first of several whose files hold the same columns.
        schema: The columns, a projection of the dataset's schema.

    Returns:
        The parts; none for a column that no file has.

    Raises:
        CorruptManifestError: The manifest is inconsistent about the location of a column.
    """
    files = fragment.files
    if len(files) == 1 and prepare_schema(schema).leaves <= _listed(files[0].fields):
        return [StoredPart(files[0], schema, schema)]
    _refuse_lost(files, schema)
    return list(share_out(files, schema))


def attached_columns(manifest: Manifest, fields: Sequence[Field], path: str) -> tuple[str, ...]:
    """Return names of the columns whose values are in the attached blob dataset of old tables.

    Args:
        manifest: The version.
        fields: Columns.
        path: URI of the dataset, for errors.

    Raises:
        UnsupportedError: Members of a column are stored there.
    """
    if not manifest.blob_dataset_version:
        return ()
    for top in fields:
        for node in top.walk():
            if node is not top and _is_attached(node):
                raise _elsewhere(f"values of a member of {top.name!r}", path, node.name)
    return tuple(field.name for field in fields if _is_attached(field))


def refuse_attached(manifest: Manifest, schema: Schema, path: str) -> None:
    """Check that data files have the values of all columns; others would be read as null.

    Raises:
        UnsupportedError: They do not.
    """
    names = attached_columns(manifest, schema.fields, path)
    if names:
        raise _elsewhere(f"the values of column {names[0]!r}", path, names[0])


def _elsewhere(what: str, path: str, field: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} are stored in an attached blob dataset of an old form",
        path=path,
        field=field,
        hint="select other columns",
    )


def _is_attached(field: Field) -> bool:
    return bool(field.source) and file_pb2.Field.FromString(field.source).storage_class == "blob"


def join_parts(
    parts: Sequence[StoredPart], tables: Sequence[pa.Table], schema: Schema, length: int
) -> pa.Table:
    """Assemble columns.

    Args:
        parts: Result of `find_parts` for the columns.
        tables: The wanted rows of each.
        schema: The columns; null where no file has them.
        length: Rows that were read.

    Returns:
        A table of exactly the Arrow schema of `schema`.
    """
    if len(parts) == 1 and parts[0].schema is schema:
        return tables[0]
    tables = [_upgrade(part, table) for part, table in zip(parts, tables, strict=True)]
    target = prepare_schema(schema).arrow
    if len(tables) == 1 and tables[0].schema.equals(target):
        return tables[0].replace_schema_metadata(target.metadata)
    columns = []
    for field in target:
        found = [table.column(field.name) for table in tables if field.name in table.column_names]
        columns.append(_join_column(field.type, found, length))
    return pa.Table.from_arrays(columns, schema=target)


def _upgrade(part: StoredPart, table: pa.Table) -> pa.Table:
    if part.stored is part.schema:
        return table
    # The blob layout of the table changed after this file was written.
    target = part.schema.to_arrow()
    return pa.Table.from_batches(
        [upgrade_batch(batch, target) for batch in table.to_batches()], schema=target
    )


def _refuse_lost(files: Sequence[DataFile], schema: Schema) -> None:
    """Refuse a column without a file if some file has an unassigned column, which may be this one."""
    lost = prepare_schema(schema).leaves.difference(*(_listed(file.fields) for file in files))
    if not lost:
        return
    for file in files:
        file.check_columns()
        if UNASSIGNED in file.fields:
            names = ", ".join(schema.path(field_id) for field_id in sorted(lost))
            raise CorruptManifestError(
                f"the manifest does not say whether an unassigned column of the data file is {names}",
                path=file.path,
                field="fields",
                hint="read other columns, or restore an older version",
            )


def _stored_columns(file: DataFile, part: Schema) -> Schema:
    """Return columns of the table in the form stored by a file version."""
    return before_upgrade(part) if file.storage_version in VERSIONS_WITH_OLD_BLOBS else part


@lru_cache(maxsize=256)
def _listed(fields: tuple[int, ...]) -> frozenset[int]:
    # Fragments of one dataset mostly list the same fields.
    return frozenset(field_id for field_id in fields if field_id >= 0)


def share_out(files: Sequence[DataFile], schema: Schema) -> Iterator[StoredPart]:
    """Assign the parts of the columns to files."""
    listed = [_listed(file.fields) for file in files]
    anywhere = frozenset().union(*listed)
    claimed: set[int] = set()
    for file, here in zip(files, listed, strict=True):
        parts = (_part_of_field(field, here, anywhere, claimed) for field in schema.fields)
        fields = tuple(part for part in parts if part is not None)
        if fields:
            part = Schema(fields, schema.metadata)
            yield StoredPart(file, part, _stored_columns(file, part))


def _part_of_field(
    field: Field, here: frozenset[int], anywhere: frozenset[int], claimed: set[int]
) -> Field | None:
    if not field.children:
        return field if field.id in here else None
    parts = (_part_of_field(child, here, anywhere, claimed) for child in field.children)
    children = tuple(part for part in parts if part is not None)
    if field.id not in here:
        return replace(field, children=children) if children else None
    if not children and field.id not in claimed:
        # Members of a packed struct are not listed. A struct that is not packed reads as null without
        # members.
        claimed.add(field.id)
        children = tuple(
            child for child in field.children if not any(node.id in anywhere for node in child.walk())
        )
    return replace(field, children=children)


def _join_column(kind: pa.DataType, parts: Sequence[pa.ChunkedArray], length: int) -> pa.ChunkedArray:
    if len(parts) == 1 and parts[0].type.equals(kind):
        return parts[0]
    return pa.chunked_array([assemble(kind, [part.combine_chunks() for part in parts], length)], kind)
