"""Conversions between Arrow types, with the rules that pylance's CAST has.

Arrow's own casts refuse, round or format differently in a few places: fractions are cut off towards zero on
the way to an integer, decimals are rounded half away from zero, timestamps print in ISO form, a timestamp
without a zone is read as wall-clock time of the zone it is compared with. Text is read value by value in
Python only where Arrow's reader gives up, floats are printed so; once for each distinct value.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.errors import PredicateError
from lance_ops.filter.types.coercion import (
    NULL,
    is_bytes,
    is_text,
    physical_type,
    plain_type,
)
from lance_ops.filter.types.number_casts import NUMBER_CASTS, Cast
from lance_ops.filter.types.text_casts import TEXT_CASTS
from lance_ops.filter.types.time_casts import TIME_CASTS


def cast_values(
    values: pa.Array, source: pa.DataType, target: pa.DataType, *, lenient: bool = False
) -> pa.Array:
    """Convert `values` to `target`.

    Args:
        values: Values of the physical type of `source`.
        source: What the values are.
        target: What they shall be.
        lenient: TRY_CAST: a value that cannot be converted becomes null instead of an error.

    Raises:
        PredicateError: The types have no conversion, or a value does not fit.
    """
    if source == target:
        return values
    if source == NULL:
        return pa.nulls(len(values), physical_type(target))
    cast = _find_cast(source, target)
    if cast is None:
        raise PredicateError(f"{source} cannot be cast to {target}")
    try:
        return cast(values, source, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError) as error:
        if lenient:
            return _salvage(values, lambda part: cast(part, source, target), physical_type(target))
        raise PredicateError(f"a value of type {source} does not fit {target}: {error}") from error


def cast_for_column(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert values to the type of the column that stores them, without a loss that Arrow sees.

    The values are those of CAST. Arrow itself prints dates and floats in other spellings, and reads the
    wall-clock times of a zone as UTC.

    Raises:
        pa.ArrowInvalid: A value does not fit.
    """
    source, wanted = plain_type(values.type), plain_type(target)
    if not _differs_from_arrow(source, wanted):
        return values.cast(target)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    found = _find_cast(source, wanted)
    assert found is not None
    return found(values.cast(physical_type(source)), source, wanted).cast(target)


def _differs_from_arrow(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow's cast of a value that fits gives another one than CAST."""
    kinds = (_kind(source), _kind(target))
    if kinds in (("timestamp", "timestamp"), ("date", "timestamp")):
        return target.tz is not None and (pat.is_date(source) or source.tz is None)
    if kinds == ("timestamp", "date"):
        return source.tz is not None
    return kinds in _OTHER_SPELLINGS


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether there is a conversion at all."""
    return source in (NULL, target) or _find_cast(source, target) is not None


def cast_can_fail(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether some value of `source` does not fit `target`."""
    if source in (NULL, target) or (_kind(source), _kind(target)) in _NEVER_FAILING:
        return False
    if pat.is_integer(source) and pat.is_integer(target) and target.bit_width > source.bit_width:
        return bool(pat.is_signed_integer(source) and pat.is_unsigned_integer(target))
    return True


def _salvage(values: pa.Array, cast: Callable[[pa.Array], pa.Array], target: pa.DataType) -> pa.Array:
    """Cast valid values: bisect until the invalid ones are isolated, and make those null."""
    try:
        return cast(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError):
        if len(values) <= 1:
            return pa.nulls(len(values), target)
        middle = len(values) // 2
        halves = (values.slice(0, middle), values.slice(middle))
        return pa.concat_arrays([_salvage(half, cast, target) for half in halves])


# --- the table of conversions


def _kind(data_type: pa.DataType) -> str:
    tests: list[tuple[str, Callable[[pa.DataType], bool]]] = [
        ("bool", pat.is_boolean),
        ("int", pat.is_integer),
        ("float", pat.is_floating),
        ("decimal", pat.is_decimal),
        ("text", is_text),
        ("bytes", is_bytes),
        ("date", pat.is_date),
        ("timestamp", pat.is_timestamp),
        ("time", pat.is_time),
        ("duration", pat.is_duration),
    ]
    return next((name for name, belongs in tests if belongs(data_type)), str(data_type))


def _find_cast(source: pa.DataType, target: pa.DataType) -> Cast | None:
    return _CASTS.get((_kind(source), _kind(target)))


def _arrow(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(target)


# What Arrow casts as pylance does.
_AS_ARROW = (
    ("bool", "int"),
    ("bool", "text"),
    ("int", "bool"),
    ("int", "int"),
    ("int", "text"),
    ("float", "bool"),
    ("text", "text"),
    ("text", "bytes"),
    ("bytes", "text"),
    ("bytes", "bytes"),
)
_CASTS: Mapping[tuple[str, str], Cast] = {
    **dict.fromkeys(_AS_ARROW, _arrow),
    **NUMBER_CASTS,
    **TIME_CASTS,
    **TEXT_CASTS,
}

_OTHER_SPELLINGS = {("float", "text"), ("date", "text"), ("timestamp", "text"), ("time", "text")}

_NEVER_FAILING = {
    ("bool", "int"),
    ("bool", "float"),
    ("bool", "text"),
    ("int", "bool"),
    ("int", "float"),
    ("int", "text"),
    ("float", "bool"),
    ("float", "float"),
    ("float", "text"),
    ("decimal", "float"),
    ("decimal", "text"),
    ("text", "text"),
    ("text", "bytes"),
    ("bytes", "bytes"),
    ("date", "text"),
    ("date", "date"),
    ("timestamp", "text"),
    ("timestamp", "date"),
    ("time", "text"),
}
