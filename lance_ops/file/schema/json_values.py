"""JSON columns: strings for users, JSONB in files."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.values.jsonb import encode_jsonb
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.file.schema.logical_types import (
    EXTENSION_NAME_KEY,
    JSON_FILE_TYPE,
    JSON_TYPE,
    encode_logical_type,
)
from lance_ops.file.schema.model import Field, Schema


def encode_json(array: pa.Array, name: str) -> pa.Array:
    """Encode JSON strings to JSONB.

    Args:
        array: Strings.
        name: Path of the column, for the error.

    Raises:
        SchemaMismatchError: A string is not valid JSON.
    """
    try:
        return encode_jsonb(array)
    except InvalidArgumentError as error:
        problem = f"column {name!r}: {error.message}"
        raise SchemaMismatchError("the data do not match the schema", [problem]) from error


def has_json(leaf: Field) -> bool:
    """Return whether a leaf holds JSON: itself, or a member of a packed struct."""
    return leaf.logical_type == JSON_TYPE or any(map(has_json, leaf.children))


def stored_documents(schema: Schema) -> Schema:
    """Return a schema whose JSON columns, at any depth, are the binary that files hold.

    Rewrites of rows read by it, because converting documents to text and back would dominate the cost. What
    is written keeps the name of its type by `FileWriter(described=)`.
    """
    if not any(node.logical_type == JSON_TYPE for node in schema.walk()):
        return schema
    return replace(schema, fields=tuple(map(_stored_document, schema.fields)))


def _stored_document(field: Field) -> Field:
    if field.logical_type == JSON_TYPE:
        metadata = {key: value for key, value in field.metadata.items() if key != EXTENSION_NAME_KEY}
        binary = encode_logical_type(JSON_FILE_TYPE)
        return replace(field, logical_type=binary, metadata=metadata, extension_name="", source=b"")
    if not field.children:
        return field
    return replace(field, children=tuple(map(_stored_document, field.children)))


def encode_json_values(array: pa.Array, leaf: Field, name: str) -> pa.Array:
    """Encode the JSON values of a leaf.

    Args:
        array: Strings, or packed structs that have members of strings; may be a slice.
        leaf: The field.
        name: Its path, for the error.

    Raises:
        SchemaMismatchError: A string is not valid JSON.
    """
    if leaf.logical_type == JSON_TYPE:
        return encode_json(array, name)
    members = [
        _encode_member(array, number, f"{name}.{child.name}")
        if child.logical_type == JSON_TYPE
        else array.field(number)
        for number, child in enumerate(leaf.children)
    ]
    validity = validity_bitmap(array)
    null_count = 0 if validity is None else -1
    return pa.Array.from_buffers(
        leaf.file_type, len(array), [validity], null_count=null_count, children=members
    )


def _encode_member(structs: pa.StructArray, number: int, name: str) -> pa.Array:
    member = structs.field(number)
    if not structs.null_count:
        return encode_json(member, name)
    # Values of null structs need not be valid JSON.
    visible = pc.if_else(structs.is_valid(), member, pa.scalar(None, member.type))
    return pc.if_else(
        pc.and_(structs.is_null(), member.is_valid()),
        pa.scalar(b"", JSON_FILE_TYPE),
        encode_json(visible, name),
    )
