"""Logical type strings: names of Arrow types in the format (`Field.logical_type` of file.proto).

A string names the whole type of a leaf with its parameters (`timestamp:us:UTC`, `fixed_size_list:float:768`).
Lists, structs and maps only name their kind; their element types are the field's children.
"""

from collections.abc import Callable

import pyarrow as pa

from lance_ops.errors import UnsupportedTypeError

BFLOAT16_EXTENSION = "lance.bfloat16"
EXTENSION_NAME_KEY = "ARROW:extension:name"
EXTENSION_METADATA_KEY = "ARROW:extension:metadata"

LIST_TYPES = frozenset({"list", "list.struct", "large_list", "large_list.struct"})
NESTED_TYPES = LIST_TYPES | {"struct", "map"}
"""Types whose elements are child fields. A fixed-size list has a child only when its items are structs."""

JSON_TYPE = "json"
"""JSON documents: strings in memory, and a binary form in files, see `JSON_FILE_TYPE`."""
JSON_FILE_TYPE = pa.large_binary()

# A crafted string must not exceed the recursion limit.
_MAX_ITEM_DEPTH = 16

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
}
_SIMPLE_NAMES = {data_type: name for name, data_type in _SIMPLE.items()} | {
    # The format has no view types: the bytes are stored and read back in the plain layout.
    pa.string_view(): "string",
    pa.binary_view(): "binary",
}
# Not in the reverse table: JSON documents are strings in memory, but string columns are not JSON.
_READ_ONLY: dict[str, pa.DataType] = {
    JSON_TYPE: pa.string(),
    # The oldest text of the format omits the width of times.
    "time:s": pa.time32("s"),
    "time:ms": pa.time32("ms"),
    "time:us": pa.time64("us"),
    "time:ns": pa.time64("ns"),
}


def bfloat16_item() -> pa.Field:
    """Return the item field of a fixed-size list of bfloat16: two opaque bytes under an extension name."""
    return pa.field(
        "item",
        pa.binary(2),
        metadata={EXTENSION_NAME_KEY: BFLOAT16_EXTENSION, EXTENSION_METADATA_KEY: ""},
    )


def encode_logical_type(data_type: pa.DataType) -> str:
    """Return the logical type of an Arrow type.

    Args:
        data_type: Any Arrow type; an extension type is named by its storage type.

    Raises:
        UnsupportedTypeError: The format has no name for this type in any storage version.
    """
    if isinstance(data_type, pa.BaseExtensionType):
        # Before the lookup: such types need not be hashable.
        return encode_logical_type(data_type.storage_type)
    name = _SIMPLE_NAMES.get(data_type)
    if name is not None:
        return name
    types = pa.types
    if types.is_timestamp(data_type):
        return f"timestamp:{data_type.unit}:{data_type.tz or '-'}"
    if types.is_decimal128(data_type) or types.is_decimal256(data_type):
        return f"decimal:{data_type.bit_width}:{data_type.precision}:{data_type.scale}"
    if types.is_fixed_size_binary(data_type):
        return f"fixed_size_binary:{data_type.byte_width}"
    if types.is_dictionary(data_type):
        value = encode_logical_type(data_type.value_type)
        if value in NESTED_TYPES or types.is_dictionary(data_type.value_type):
            raise _unsupported(data_type)
        # The format does not record whether a dictionary is ordered.
        return f"dict:{value}:{encode_logical_type(data_type.index_type)}:false"
    if types.is_fixed_size_list(data_type):
        return _encode_fixed_size_list(data_type)
    if types.is_list(data_type):
        return "list.struct" if types.is_struct(data_type.value_type) else "list"
    if types.is_large_list(data_type):
        return "large_list.struct" if types.is_struct(data_type.value_type) else "large_list"
    if types.is_map(data_type):
        if data_type.keys_sorted:
            raise UnsupportedTypeError(
                "the format has no maps with sorted keys", hint="use a map without sorted keys"
            )
        return "map"
    if types.is_struct(data_type):
        return "struct"
    raise _unsupported(data_type)


def _encode_fixed_size_list(data_type: pa.FixedSizeListType) -> str:
    if data_type.list_size < 1:
        raise UnsupportedTypeError("a fixed-size list must have at least one item per row")
    item = data_type.value_field
    if _is_bfloat16(item):
        return f"fixed_size_list:{BFLOAT16_EXTENSION}:{data_type.list_size}"
    name = encode_logical_type(item.type)
    if name in LIST_TYPES or name == "map" or pa.types.is_dictionary(item.type):
        raise _unsupported(data_type)
    return f"fixed_size_list:{name}:{data_type.list_size}"


def _is_bfloat16(item: pa.Field) -> bool:
    if isinstance(item.type, pa.BaseExtensionType):
        return bool(item.type.extension_name == BFLOAT16_EXTENSION)
    marked = (item.metadata or {}).get(EXTENSION_NAME_KEY.encode()) == BFLOAT16_EXTENSION.encode()
    return marked and bool(item.type == pa.binary(2))


def decode_logical_type(name: str) -> pa.DataType:
    """Return the Arrow type of a field without children.

    Args:
        name: A logical type string as found in a schema, not one of `NESTED_TYPES`.

    Raises:
        UnsupportedTypeError: The string is not a known type of the format.
    """
    try:
        return _decode(name, 0)
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        if isinstance(error, UnsupportedTypeError):
            raise
        raise UnsupportedTypeError(f"unknown logical type {name!r}") from error


def _decode(name: str, depth: int) -> pa.DataType:
    simple = _SIMPLE.get(name) or _READ_ONLY.get(name)
    if simple is not None:
        return simple
    kind, _, parameters = name.partition(":")
    parse = _PARSERS.get(kind)
    if parse is None or depth > _MAX_ITEM_DEPTH:
        raise UnsupportedTypeError(f"unknown logical type {name[:200]!r}")
    return parse(parameters, depth)


def _decode_timestamp(parameters: str, _depth: int) -> pa.DataType:
    # The zone itself may contain colons (+05:30).
    unit, zone = parameters.split(":", 1)
    return pa.timestamp(unit, tz=None if zone == "-" else zone)


def _decode_decimal(parameters: str, _depth: int) -> pa.DataType:
    bits, precision, scale = (int(part) for part in parameters.split(":"))
    return {128: pa.decimal128, 256: pa.decimal256}[_one_of(bits, 128, 256)](precision, scale)


def _decode_fixed_size_binary(parameters: str, _depth: int) -> pa.DataType:
    return pa.binary(_positive_int32(parameters, minimum=0))


def _decode_dictionary(parameters: str, depth: int) -> pa.DataType:
    # From the right, because the value type may have parameters.
    value, index, _ordered = parameters.rsplit(":", 2)
    return pa.dictionary(_decode(index, depth + 1), _decode(value, depth + 1))


def _decode_fixed_size_list(parameters: str, depth: int) -> pa.DataType:
    item, size = parameters.rsplit(":", 1)
    dimension = _positive_int32(size, minimum=1)
    if item == BFLOAT16_EXTENSION:
        return pa.list_(bfloat16_item(), dimension)
    return pa.list_(pa.field("item", _decode(item, depth + 1)), dimension)


_PARSERS: dict[str, Callable[[str, int], pa.DataType]] = {
    "timestamp": _decode_timestamp,
    "decimal": _decode_decimal,
    "fixed_size_binary": _decode_fixed_size_binary,
    "dict": _decode_dictionary,
    "fixed_size_list": _decode_fixed_size_list,
}


def _positive_int32(text: str, *, minimum: int) -> int:
    value = int(text)
    if not minimum <= value < 2**31:
        raise ValueError(text)
    return value


def _one_of(value: int, *allowed: int) -> int:
    if value not in allowed:
        raise ValueError(value)
    return value


def _unsupported(data_type: pa.DataType) -> UnsupportedTypeError:
    return UnsupportedTypeError(f"the format cannot hold the Arrow type {data_type}")
