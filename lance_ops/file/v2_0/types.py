"""Arrow types that 2.0 can hold."""

import pyarrow as pa

from lance_ops.encoding.values.flat import bit_width
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import find_packing_problem, is_packed_2_0
from lance_ops.file.v2_0.columns import is_blob


def find_problems(schema: Schema) -> list[str]:
    """Return the fields that 2.0 cannot hold, one line each."""
    return [
        f"column {schema.path(node.id)!r} ({node.logical_type}): {problem}"
        for node in schema.walk()
        for problem in _problems(node)
    ]


def _problems(field: Field) -> list[str]:
    kind = field.logical_type
    if kind == "map":
        return ["2.0 has no maps; use a list of structs"]
    if is_blob_v2(field):
        return ["2.0 has no blobs of the extension type lance.blob.v2; use large_binary, or 2.2"]
    if is_blob(field) and kind != "large_binary":
        return ["only large_binary can be stored as blobs"]
    problem = find_packing_problem(field, "2.0")
    if problem is not None:
        return [problem]
    if is_packed_2_0(field):
        return _packed_problems(field)
    if kind.startswith("dict:") and kind.count(":") != 3:
        return ["2.0 has dictionaries of strings, binaries, numbers and booleans only; store plain values"]
    if kind == "fixed_size_binary:0":
        return ["2.0 has no values of zero bytes"]
    if kind.startswith("fixed_size_list:"):
        return _fixed_size_list_problems(field)
    return []


def _packed_problems(field: Field) -> list[str]:
    if not field.children:
        return ["an empty struct cannot be packed"]
    unfit = []
    for child in field.children:
        data_type = child.storage_type
        item = _innermost(data_type)
        if bit_width(data_type) == 0 or pa.types.is_boolean(item):
            unfit.append(f"a packed struct cannot have the member {child.name!r} of type {data_type}")
    return unfit


def _fixed_size_list_problems(field: Field) -> list[str]:
    try:
        item = _innermost(field.storage_type)
    except UnsupportedTypeError as error:
        return [error.message]
    if pa.types.is_null(item) or bit_width(item):
        return []
    return [f"2.0 has fixed-size lists of fixed-width items only, not of {item}"]


def _innermost(data_type: pa.DataType) -> pa.DataType:
    while pa.types.is_fixed_size_list(data_type):
        data_type = data_type.value_type
    return data_type
