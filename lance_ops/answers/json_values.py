"""JSON values of rows: what the command line prints, and what text files hold."""

import base64
import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_OFFSET = re.compile(r"([+-]\d\d)(\d\d)$")
"""UTC offset as Arrow writes it; ISO 8601 requires a colon in it."""


def plain_rows(table: "pa.Table | pa.RecordBatch") -> list[dict[str, Any]]:
    """Return the rows with JSON values: numbers, strings, booleans, lists and dicts.

    Dates and times are in ISO 8601, bytes in base64, durations as strings. Nanoseconds and years that
    `datetime` cannot represent are kept.

    Args:
        table: A few rows.

    Example:
        >>> plain_rows(pa.table({"t": pa.array([1], pa.timestamp("ns"))}))
        [{'t': '1970-01-01T00:00:00.000000001'}]
    """
    columns = {name: plain_values(table[name]) for name in table.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def plain_values(column: "pa.Array | pa.ChunkedArray") -> list[Any]:
    """Return the values of a column as JSON values; see `plain_rows`."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        # Hundreds of times faster than scalar by scalar, and these need no change.
        values: list[Any] = column.to_pylist()
        return values
    return [_of_scalar(value) for value in column]


def _of_scalar(scalar: "pa.Scalar") -> Any:
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    match scalar:
        case pa.ExtensionScalar():
            return plain_value(scalar.as_py()) if _is_python(scalar) else _of_scalar(scalar.value)
        case pa.DictionaryScalar():
            return _of_scalar(scalar.value)
        case pa.StructScalar():
            return {name: _of_scalar(scalar[number]) for number, name in enumerate(_names(scalar.type))}
        case pa.MapScalar():
            return [[_of_scalar(item[0]), _of_scalar(item[1])] for item in scalar.values]
        case pa.ListScalar() | pa.LargeListScalar() | pa.FixedSizeListScalar():
            return [_of_scalar(item) for item in scalar.values]
        case pa.TimestampScalar() | pa.Time64Scalar() | pa.DurationScalar() if scalar.type.unit == "ns":
            return _temporal_text(scalar)
        case _:
            try:
                return plain_value(scalar.as_py())
            except (ValueError, OverflowError):
                return _temporal_text(scalar)


def _is_python(scalar: "pa.Scalar") -> bool:
    try:
        scalar.as_py()
    except (ValueError, OverflowError):
        return False
    return True


def _names(struct: "pa.StructType") -> list[str]:
    return [struct.field(number).name for number in range(struct.num_fields)]


def _temporal_text(scalar: "pa.Scalar") -> str:
    import pyarrow as pa

    if pa.types.is_duration(scalar.type):
        return f"{scalar.value} {scalar.type.unit}"
    text = str(scalar.cast(pa.string()).as_py())
    if "out of range" in text:
        unit = "d" if pa.types.is_date32(scalar.type) else getattr(scalar.type, "unit", "ms")
        return f"{scalar.value} {unit} after 1970-01-01"
    text = text.replace(" ", "T")
    return f"{text[:-1]}+00:00" if text.endswith("Z") else _OFFSET.sub(r"\1:\2", text)


def plain_value(value: Any) -> Any:
    """Return a Python value as a JSON value."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [plain_value(item) for item in value]
        case dict():
            return {str(name): plain_value(item) for name, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
