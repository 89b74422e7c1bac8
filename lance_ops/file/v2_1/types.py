"""Arrow types of 2.1 to 2.3: those that pylance writes and reads back unchanged."""

from collections.abc import Iterator

import pyarrow as pa

from lance_ops.encoding.values.binary import is_binary_like
from lance_ops.encoding.values.flat import bit_width
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.schema.blob_fields import (
    BLOB_EXTENSION,
    LOGICAL_MEMBERS,
    MINIMAL_MEMBERS,
    is_blob_v2,
    is_old_blob,
)
from lance_ops.file.schema.logical_types import LIST_TYPES
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import find_packing_problem, is_packed
from lance_ops.file.v2_1.columns import is_leaf, stored_fields

_STRUCT_LISTS = "fixed_size_list:struct:"


def find_problems(schema: Schema, version: str) -> list[str]:
    """Return the fields that a version cannot hold, one line each.

    Args:
        schema: Of a file.
        version: "2.1", "2.2" or "2.3".
    """
    problems = [problem for top in schema.fields for problem in _walk(schema, top, (), version)]
    leaves = [leaf for top in schema.fields for leaf in stored_fields(top)]
    problems += [
        f"column {schema.path(leaf.id)!r}: an empty struct must be the last column, as other readers take "
        "the columns behind it for null"
        for leaf in leaves[:-1]
        if _is_empty_struct(leaf)
    ]
    return problems


def _walk(schema: Schema, field: Field, above: tuple[Field, ...], version: str) -> Iterator[str]:
    for problem in _problems(field, above, version):
        yield f"column {schema.path(field.id)!r} ({field.logical_type}): {problem}"
    if not is_leaf(field):
        for child in field.children:
            yield from _walk(schema, child, (*above, field), version)


def _problems(field: Field, above: tuple[Field, ...], version: str) -> Iterator[str]:
    kind = field.logical_type
    in_list = any(_is_list(parent) for parent in above)
    if kind == "map" and version == "2.1":
        yield "2.1 has no maps; use a list of structs, or 2.2"
    elif is_blob_v2(field):
        yield from _blob_v2_problems(field, above, version)
    elif (problem := find_packing_problem(field, version)) is not None:
        yield problem
    elif is_packed(field):
        yield from _packed_problems(field, version)
    elif _is_empty_struct(field) and any(_repeats(parent) for parent in above):
        yield f"{version} has no empty structs within lists"
    elif kind.startswith(_STRUCT_LISTS):
        yield from _struct_list_problems(field, version, in_list=in_list)
    elif kind.startswith("fixed_size_list:"):
        yield from _fixed_size_list_problems(field, version)
    elif kind.startswith("dict:") and kind.count(":") != 3:
        yield f"{version} has dictionaries of strings, binaries, numbers and booleans only"
    elif kind == "fixed_size_binary:0":
        yield f"{version} has no values of zero bytes"
    elif is_old_blob(field):
        if version == "2.3":
            yield f"2.3 has blobs of the extension type {BLOB_EXTENSION} only"
        elif kind != "large_binary":
            yield "only large_binary can be stored as blobs"
        elif any(_repeats(parent) for parent in above):
            yield f"{version} has no blobs within lists"


def _blob_v2_problems(field: Field, above: tuple[Field, ...], version: str) -> Iterator[str]:
    if version == "2.1":
        yield f"2.1 has no blobs of the extension type {BLOB_EXTENSION}; use large_binary, or 2.2"
    members = {child.name: child.logical_type for child in field.children}
    if members != LOGICAL_MEMBERS and members != MINIMAL_MEMBERS:
        yield "a blob is a struct of data, uri, position and size"
    if any(_repeats(parent) and parent.logical_type not in LIST_TYPES for parent in above):
        yield f"{version} has no blobs within maps and fixed-size lists"


def _struct_list_problems(field: Field, version: str, *, in_list: bool) -> Iterator[str]:
    if version == "2.1":
        yield "2.1 has no fixed-size lists of structs; use a list, or 2.2"
    elif in_list or any(_is_list(node) for node in field.walk()):
        yield f"{version} cannot nest lists and fixed-size lists of structs"


def _fixed_size_list_problems(field: Field, version: str) -> Iterator[str]:
    try:
        item = _innermost(field.storage_type)
    except UnsupportedTypeError as error:
        yield error.message
        return
    if not bit_width(item) and not pa.types.is_null(item):
        yield f"{version} has fixed-size lists of fixed-width items only, not of {item}"


def _packed_problems(field: Field, version: str) -> Iterator[str]:
    if not field.children:
        yield "an empty struct cannot be packed"
    for child in field.children:
        data_type = child.file_type
        fits = bit_width(data_type) > 0 and not pa.types.is_boolean(_innermost(data_type))
        if version == "2.1":
            fits = fits and not pa.types.is_fixed_size_list(data_type)
        elif is_binary_like(data_type):
            fits = True
        if not fits:
            yield f"a packed struct cannot have the member {child.name!r} of type {data_type}"


def _is_empty_struct(field: Field) -> bool:
    return field.logical_type == "struct" and not field.children


def _is_list(field: Field) -> bool:
    return field.logical_type in LIST_TYPES or field.logical_type == "map"


def _repeats(field: Field) -> bool:
    return _is_list(field) or field.logical_type.startswith(_STRUCT_LISTS)


def _innermost(data_type: pa.DataType) -> pa.DataType:
    while pa.types.is_fixed_size_list(data_type):
        data_type = data_type.value_type
    return data_type
