"""JSON columns: text for users, JSONB in files."""

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.values.jsonb import encode_jsonb
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.file.schema.logical_types import JSON_FILE_TYPE, JSON_TYPE
from lance_ops.file.schema.model import Field


def encode_json(array: pa.Array, name: str) -> pa.Array:
    """JSON text as files hold it.

    Args:
        array: Strings.
        name: Path of the column, for the error.

    Raises:
        SchemaMismatchError: A string is no JSON.
    """
    try:
        return encode_jsonb(array)
    except InvalidArgumentError as error:
        problem = f"column {name!r}: {error.message}"
        raise SchemaMismatchError("the data do not fit the schema", [problem]) from error


def has_json(leaf: Field) -> bool:
    """Whether a leaf holds JSON: itself, or a member of a packed struct."""
    return leaf.logical_type == JSON_TYPE or any(map(has_json, leaf.children))


def encode_json_values(array: pa.Array, leaf: Field, name: str) -> pa.Array:
    """The values of a leaf as files hold them.

    Args:
        array: Strings, or packed structs that have members of strings; may be a slice.
        leaf: The field.
        name: Its path, for the error.

    Raises:
        SchemaMismatchError: A string is no JSON.
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
    # What a null struct hides need not be JSON.
    visible = pc.if_else(structs.is_valid(), member, pa.scalar(None, member.type))
    return pc.if_else(
        pc.and_(structs.is_null(), member.is_valid()),
        pa.scalar(b"", JSON_FILE_TYPE),
        encode_json(visible, name),
    )
