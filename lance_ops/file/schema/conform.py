"""Conversion of batches to exactly the types of a file's schema, without changing values."""

import pyarrow as pa

from lance_ops.errors import SchemaMismatchError, UnsupportedTypeError
from lance_ops.file.schema.model import Field, Schema


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema, path: str | None = None) -> pa.RecordBatch:
    """Reorder and convert the columns of a batch.

    Args:
        batch: Columns by name, in any order.
        schema: The wanted schema. Extension types become their storage types.
        path: For errors.

    Returns:
        A batch of storage types.

    Raises:
        SchemaMismatchError: A column is missing, unknown, or of another type; all differences are listed.
    """
    given, wanted = set(batch.schema.names), set(schema.names)
    mismatches = [f"column {name!r} is missing" for name in schema.names if name not in given]
    mismatches += [
        f"column {name!r} is not in the schema" for name in batch.schema.names if name not in wanted
    ]
    arrays: list[pa.Array] = []
    for field in schema:
        if field.name in given:
            found = batch.schema.field(field.name)
            if not _is_same(found, field):
                mismatches.append(f"column {field.name!r} has type {found.type}, expected {field.type}")
            else:
                try:
                    arrays.append(conform_array(batch.column(field.name), field.type))
                except pa.ArrowInvalid as error:
                    # Such as nulls in a member that must not be null.
                    mismatches.append(f"column {field.name!r}: {error}")
    if mismatches:
        raise SchemaMismatchError("the data do not match the schema", mismatches, path=path)
    if not arrays:
        return batch
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def conform_array(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert an array to an equivalent storage type.

    Args:
        array: Of the wanted type, or of one that differs in views, extension types, or names and nullability
            of items.
        data_type: The wanted type.
    """
    wanted = storage_type(data_type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array if array.type == wanted else array.cast(wanted)


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type without extension types at any depth."""
    types = pa.types
    if isinstance(data_type, pa.BaseExtensionType):
        return storage_type(data_type.storage_type)
    if types.is_struct(data_type):
        return pa.struct([field.with_type(storage_type(field.type)) for field in data_type])
    if types.is_list(data_type):
        return pa.list_(_storage_field(data_type.value_field))
    if types.is_large_list(data_type):
        return pa.large_list(_storage_field(data_type.value_field))
    if types.is_fixed_size_list(data_type):
        return pa.list_(_storage_field(data_type.value_field), data_type.list_size)
    if types.is_map(data_type):
        return pa.map_(_storage_field(data_type.key_field), _storage_field(data_type.item_field))
    return data_type


def _storage_field(field: pa.Field) -> pa.Field:
    return field.with_type(storage_type(field.type))


def _is_same(given: pa.Field, wanted: pa.Field) -> bool:
    if given.type == wanted.type:
        return True
    try:
        fields = [
            Schema.from_arrow(pa.schema([pa.field("x", field.type)])).fields[0] for field in (given, wanted)
        ]
    except UnsupportedTypeError:
        return False
    return _same_tree(*fields)


def _same_tree(given: Field, wanted: Field) -> bool:
    return (
        given.logical_type == wanted.logical_type
        and len(given.children) == len(wanted.children)
        and all(
            # The item of a list may have any name, the members of a struct may not.
            (given.logical_type != "struct" or ours.name == theirs.name) and _same_tree(ours, theirs)
            for ours, theirs in zip(given.children, wanted.children, strict=True)
        )
    )
