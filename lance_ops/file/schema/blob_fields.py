"""Blob fields: columns of large values that are stored outside of their pages.

The old kind, up to 2.1, is large_binary with an option; its values are in the same file. The kind of 2.2 is
an extension type: a struct of the value's bytes or of their location outside of the dataset. Data files have
descriptors instead, also in their own schemas.
"""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.values.binary import is_binary_like
from lance_ops.file.schema.extension_types import resolve_extension, split_extension, wrap_extension
from lance_ops.file.schema.logical_types import EXTENSION_METADATA_KEY, EXTENSION_NAME_KEY
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import PACKED_KEY

VERSIONS_WITH_OLD_BLOBS = ("0.1", "2.0", "2.1")

BLOB_KEY = "lance-encoding:blob"
BLOB_EXTENSION = "lance.blob.v2"
INLINE_KEY = "lance-encoding:blob-inline-size-threshold"
DEDICATED_KEY = "lance-encoding:blob-dedicated-size-threshold"
PACK_KEY = "lance-encoding:blob-pack-file-size-threshold"

MINIMAL_MEMBERS = {"data": "large_binary", "uri": "string"}
"""Members of a blob of 2.2 in tables that were created from plain binary columns, and their logical types."""
LOGICAL_MEMBERS = MINIMAL_MEMBERS | {"position": "uint64", "size": "uint64"}
"""All members of a blob of 2.2, as users write and read it."""

DESCRIPTOR = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)
"""Struct of a blob in pages of 2.2."""


def is_blob_v2(field: Field) -> bool:
    """Return whether a field of a table is a blob of the kind of 2.2."""
    name = field.metadata.get(EXTENSION_NAME_KEY, field.extension_name.encode())
    return field.logical_type == "struct" and name == BLOB_EXTENSION.encode()


def is_old_blob(field: Field) -> bool:
    """Return whether a field is a blob whose values are in the data file itself."""
    return BLOB_KEY in field.metadata and field.logical_type != "struct"


def is_descriptors(field: Field) -> bool:
    """Return whether a field represents descriptors of blobs of 2.2, see `show_descriptors`."""
    return field.logical_type == "struct" and BLOB_KEY in field.metadata


def has_blob_v2(schema: Schema) -> bool:
    """Return whether a schema has blobs of the kind of 2.2 at any depth."""
    return any(is_blob_v2(node) for node in schema.walk())


def has_blobs(schema: Schema) -> bool:
    """Return whether a schema has blobs of any kind at any depth."""
    return any(is_blob_v2(node) or is_old_blob(node) for node in schema.walk())


def upgrade_blobs(schema: pa.Schema, *, is_new: bool) -> pa.Schema:
    """Convert blobs of the old kind in a schema to those of 2.2, as in new tables of pylance.

    Args:
        schema: Of the data.
        is_new: Keep blobs as structs with the name of the type: a new table then stores the name alone, as
            pylance does, without empty type parameters.
    """
    known = (lambda field: field) if is_new else resolve_extension
    return pa.schema([_upgrade(field, known) for field in schema], metadata=schema.metadata)


def before_upgrade(schema: Schema) -> Schema:
    """Return a schema with blobs of 2.2 in the form of older files of the table.

    Args:
        schema: Fields of the table; unchanged if there are no such blobs.
    """
    if not has_blob_v2(schema):
        return schema
    return Schema(tuple(_before_upgrade(node) for node in schema.fields), schema.metadata)


def _before_upgrade(node: Field) -> Field:
    if is_blob_v2(node):
        old = Field(node.id, node.parent_id, node.name, "large_binary", nullable=node.nullable)
        return replace(old, metadata={BLOB_KEY: b"true"})
    return replace(node, children=tuple(_before_upgrade(child) for child in node.children))


def upgrade_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert plain binary columns of a batch to blobs where the schema has these.

    Args:
        batch: Rows; columns by name.
        schema: Result of `upgrade_blobs`.
    """
    if batch.schema.equals(schema):
        return batch
    columns, fields = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        number = schema.get_field_index(field.name)
        if number >= 0:
            column, field = _upgrade_values(column, field, schema.field(number))
        columns.append(column)
        fields.append(field)
    if not columns:
        # Arrow would derive the number of rows from the columns.
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=batch.schema.metadata))


def blobs_of_binary(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert binary values to logical blobs.

    Args:
        array: Binary of any kind.
        data_type: The struct of the blobs.
    """
    members = [
        array.cast(pa.large_binary()) if member.name == "data" else pa.nulls(len(array), member.type)
        for member in data_type
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(data_type), mask=mask)


def _names_blobs(field: pa.Field) -> bool:
    return split_extension(field)[1].get(EXTENSION_NAME_KEY) == BLOB_EXTENSION.encode()


def _storage(data_type: pa.DataType) -> pa.DataType:
    return data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type


def _upgrade(field: pa.Field, known: Callable[[pa.Field], pa.Field]) -> pa.Field:
    if not field.metadata and not field.type.num_fields:
        return field
    metadata = dict(field.metadata or {})
    if BLOB_KEY.encode() in metadata and is_binary_like(field.type):
        del metadata[BLOB_KEY.encode()]
        members = [pa.field("data", pa.large_binary()), pa.field("uri", pa.string())]
        metadata[EXTENSION_NAME_KEY.encode()] = BLOB_EXTENSION.encode()
        return known(pa.field(field.name, pa.struct(members), field.nullable, metadata))
    types = pa.types
    if types.is_struct(field.type):
        return field.with_type(pa.struct([_upgrade(child, known) for child in field.type]))
    if types.is_list(field.type):
        return field.with_type(pa.list_(_upgrade(field.type.value_field, known)))
    if types.is_large_list(field.type):
        return field.with_type(pa.large_list(_upgrade(field.type.value_field, known)))
    return field


def _upgrade_values(array: pa.Array, given: pa.Field, wanted: pa.Field) -> tuple[pa.Array, pa.Field]:
    types = pa.types
    if is_binary_like(given.type) and _names_blobs(wanted):
        return wrap_extension(blobs_of_binary(array, _storage(wanted.type)), wanted.type), wanted
    if types.is_struct(given.type) and types.is_struct(wanted.type):
        targets = {target.name: target for target in wanted.type}
        pairs = [
            _upgrade_values(array.field(number), child, targets.get(child.name, child))
            for number, child in enumerate(given.type)
        ]
        if all(child.equals(old) for (_, child), old in zip(pairs, given.type, strict=True)):
            return array, given
        made: pa.DataType = pa.struct([child for _, child in pairs])
        buffers, offset, children = [validity_bitmap(array)], 0, [values for values, _ in pairs]
    elif (types.is_list(given.type) and types.is_list(wanted.type)) or (
        types.is_large_list(given.type) and types.is_large_list(wanted.type)
    ):
        items, item = _upgrade_values(array.values, given.type.value_field, wanted.type.value_field)
        if item.equals(given.type.value_field):
            return array, given
        made = pa.list_(item) if types.is_list(given.type) else pa.large_list(item)
        buffers, offset, children = array.buffers()[:2], array.offset, [items]
    else:
        return array, given
    upgraded = pa.Array.from_buffers(made, len(array), buffers, offset=offset, children=children)
    return upgraded, given.with_type(made)


def show_logical_blobs(field: Field) -> Field:
    """Convert descriptors in a field of a file's own schema to logical blobs."""
    if is_descriptors(field):
        return _logical_blob(field)
    if not field.children:
        return field
    return replace(field, children=tuple(show_logical_blobs(child) for child in field.children))


def show_descriptors(field: Field) -> Field:
    """Convert a field of a table to the schema of a data file of 2.2: descriptors replace blobs."""
    if is_blob_v2(field):
        members = Schema.from_arrow(pa.schema(list(DESCRIPTOR))).fields
        return replace(
            field,
            metadata={PACKED_KEY: b"true", BLOB_KEY: b"true"},
            extension_name="",
            # They have no ids, because they are not fields of the table.
            children=tuple(replace(member, id=-1, parent_id=-1) for member in members),
            source=b"",
        )
    if not field.children:
        return field
    return replace(field, children=tuple(show_descriptors(child) for child in field.children))


def only_descriptors(schema: Schema) -> Schema:
    """Return only the blobs of 2.2 of a schema, as descriptors, with their parents."""
    fields = (_only_descriptors(field) for field in schema.fields)
    return Schema(tuple(field for field in fields if field is not None), schema.metadata)


def _only_descriptors(field: Field) -> Field | None:
    if is_blob_v2(field):
        return show_descriptors(field)
    children = tuple(found for child in field.children if (found := _only_descriptors(child)) is not None)
    # Maps have none: without the key they would be invalid.
    return replace(field, children=children, source=b"") if children else None


def _logical_blob(field: Field) -> Field:
    hidden = (BLOB_KEY, PACKED_KEY)
    metadata = {key: value for key, value in field.metadata.items() if key not in hidden}
    return replace(
        field,
        metadata=metadata | {EXTENSION_NAME_KEY: BLOB_EXTENSION.encode(), EXTENSION_METADATA_KEY: b""},
        extension_name=BLOB_EXTENSION,
        children=tuple(Field(-1, field.id, name, kind) for name, kind in LOGICAL_MEMBERS.items()),
        source=b"",
    )
