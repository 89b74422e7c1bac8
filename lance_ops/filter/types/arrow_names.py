"""Arrow types by the names that `arrow_cast` takes, such as 'Timestamp(Microsecond, Some("UTC"))'."""

import re

import pyarrow as pa
import pyarrow.types as pat

_SIMPLE = {
    **{f"Int{bits}": pa.type_for_alias(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": pa.type_for_alias(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Boolean": pa.bool_(),
    "Utf8": pa.utf8(),
    "LargeUtf8": pa.large_utf8(),
    "Utf8View": pa.utf8(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "BinaryView": pa.binary(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
_UNITS = {
    **dict.fromkeys(("Second", "s"), "s"),
    **dict.fromkeys(("Millisecond", "ms"), "ms"),
    **dict.fromkeys(("Microsecond", "us", "µs"), "us"),  # noqa: RUF001 - the sign that people type
    **dict.fromkeys(("Nanosecond", "ns"), "ns"),
}
_UNIT_NAMES = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_ZONE = re.compile(r'(?:Some\s*\(\s*)?"([^"]+)"(?:\s*\))?')
_DICTIONARY = re.compile(r"Dictionary\s*\(\s*U?Int(?:8|16|32|64)\s*,(.*)\)", re.DOTALL)
_MAX_WIDTH = 2**31 - 1

EXAMPLES = "Int32, Decimal128(10, 2), Duration(Microsecond), FixedSizeBinary(16), Timestamp(Nanosecond, None)"
"""Example names, for messages."""


def type_of_name(name: str) -> pa.DataType | None:
    """Return the type of a name; None if filters do not support it.

    Views and dictionaries, which concern storage only, count as their plain types.
    """
    name = name.strip()
    if (found := _DICTIONARY.fullmatch(name)) is not None:
        return type_of_name(found[1])
    called = _CALL.fullmatch(name)
    if called is None:
        return _SIMPLE.get(name)
    kind, parameters = called[1], [part.strip() for part in called[2].split(",", 1)]
    if kind.startswith("Decimal"):
        return _decimal(kind, parameters)
    if kind == "FixedSizeBinary":
        width = int(parameters[0]) if parameters[0].isdecimal() and len(parameters[0]) < 11 else 0
        return pa.binary(width) if len(parameters) == 1 and 0 < width <= _MAX_WIDTH else None
    unit = _UNITS.get(parameters[0])
    if unit is None:
        return None
    if kind == "Timestamp":
        return _timestamp(unit, parameters[1] if len(parameters) > 1 else "None")
    if len(parameters) > 1:
        return None
    if kind == "Duration":
        return pa.duration(unit)
    short = unit in ("s", "ms")
    if kind == ("Time32" if short else "Time64"):
        return pa.time32(unit) if short else pa.time64(unit)
    return None


def name_of_type(data_type: pa.DataType) -> str | None:
    """Return a name that `type_of_name` and pylance read as this type; None if it has none."""
    for name, simple in _SIMPLE.items():
        if simple == data_type:
            return name
    if pat.is_decimal(data_type):
        return f"Decimal{data_type.bit_width}({data_type.precision}, {data_type.scale})"
    if pat.is_fixed_size_binary(data_type):
        return f"FixedSizeBinary({data_type.byte_width})"
    if pat.is_duration(data_type):
        return f"Duration({_UNIT_NAMES[data_type.unit]})"
    if pat.is_time(data_type):
        return f"Time{data_type.bit_width}({_UNIT_NAMES[data_type.unit]})"
    if pat.is_timestamp(data_type):
        zone = "None" if data_type.tz is None else f'Some("{data_type.tz}")'
        return f"Timestamp({_UNIT_NAMES[data_type.unit]}, {zone})"
    return None


def _decimal(kind: str, parameters: list[str]) -> pa.DataType | None:
    digits = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}.get(kind, 0)
    if len(parameters) != 2 or not all(re.fullmatch(r"-?\d{1,3}", part) for part in parameters):
        return None
    precision, scale = (int(part) for part in parameters)
    if not (1 <= precision <= digits and abs(scale) <= digits and scale <= precision):
        return None
    return pa.decimal256(precision, scale) if kind == "Decimal256" else pa.decimal128(precision, scale)


def _timestamp(unit: str, zone: str) -> pa.DataType | None:
    if zone == "None":
        return pa.timestamp(unit)
    found = _ZONE.fullmatch(zone)
    return None if found is None else pa.timestamp(unit, tz=found[1])
