"""Packed members: members of packed structs, which are always read together."""

import pyarrow as pa

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.values.jsonb import decode_jsonb
from lance_ops.file.layout import ColumnSource
from lance_ops.file.schema.extension_types import wrap_extension
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field


def whole_struct(source: ColumnSource, field: Field) -> Field:
    """Return the struct with all members in a file.

    Args:
        source: The file, whose own schema says which members share a row.
        field: The wanted struct.
    """
    stored = source.schema.by_id(field.id)
    return field if stored is None or stored.logical_type != "struct" else stored


def pick_members(structs: pa.Array, whole: Field, wanted: Field) -> pa.Array:
    """Select members of packed structs.

    Args:
        structs: All members in the file, of `whole.file_type`.
        whole: The struct in the file.
        wanted: The struct to build; members that the file does not have are null.
    """
    numbers = {child.id: number for number, child in enumerate(whole.children)}
    members = []
    for child in wanted.children:
        data_type = child.arrow_type
        if child.id not in numbers:
            members.append(pa.nulls(len(structs), data_type))
            continue
        member = structs.field(numbers[child.id])
        if child.logical_type == JSON_TYPE:
            member = decode_jsonb(member, structs.is_null() if structs.null_count else None)
        members.append(wrap_extension(member, data_type))
    validity = validity_bitmap(structs)
    null_count = 0 if validity is None else -1
    return pa.Array.from_buffers(
        wanted.storage_type, len(structs), [validity], null_count=null_count, children=members
    )
