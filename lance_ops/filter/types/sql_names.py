"""The type names of SQL and the Arrow types that they mean."""

import pyarrow as pa
import pyarrow.types as pat

_NAMES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "TINYINT UNSIGNED": pa.uint8(),
    "SMALLINT UNSIGNED": pa.uint16(),
    "INT UNSIGNED": pa.uint32(),
    "BIGINT UNSIGNED": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.utf8(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
}
_SQL = {data_type: name for name, data_type in _NAMES.items()}
_UNIT_OF_DIGITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_DIGITS_OF_UNIT = {unit: digits for digits, unit in _UNIT_OF_DIGITS.items()}
MAX_DECIMAL_PRECISION = 38

KNOWN = (*_NAMES, "TIMESTAMP[(0|3|6|9)]", "DECIMAL(precision, scale)")
"""The types of CAST, for messages."""


def arrow_type(name: str, parameters: tuple[int, ...]) -> pa.DataType | None:
    """Return the Arrow type of an SQL type, or None if there is none.

    Args:
        name: The upper-case name, as in `KNOWN`.
        parameters: The numbers in parentheses behind it.
    """
    if name == "TIMESTAMP" and len(parameters) <= 1:
        unit = _UNIT_OF_DIGITS.get(parameters[0] if parameters else 6)
        return None if unit is None else pa.timestamp(unit)
    if name == "DECIMAL" and len(parameters) == 2:
        precision, scale = parameters
        valid = 1 <= precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision
        return pa.decimal128(precision, scale) if valid else None
    return None if parameters else _NAMES.get(name)


def sql_type(data_type: pa.DataType) -> str | None:
    """Return the SQL name of an Arrow type, or None if only a column can have it."""
    if pat.is_timestamp(data_type) and data_type.tz is None:
        digits = _DIGITS_OF_UNIT[data_type.unit]
        return "TIMESTAMP" if digits == 6 else f"TIMESTAMP({digits})"
    if pat.is_decimal128(data_type) and data_type.scale >= 0:
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    return _SQL.get(data_type)
