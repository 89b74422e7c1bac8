"""Conversions between Arrow types, with the rules that the peer's CAST has.

Arrow's own casts refuse, round or format differently in a few places: fractions are cut off towards zero on
the way to an integer, decimals are rounded half away from zero, timestamps print in ISO form, a timestamp
without a zone is read as wall-clock time of the zone it is compared with. Text is read value by value in
Python only where Arrow's reader gives up, floats are printed so; once for each distinct value.
"""

import datetime as dt
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.errors import PredicateError
from lance_ops.filter.types.coercion import (
    INT64,
    INTERVAL,
    NULL,
    UTF8,
    decimal_type,
    is_bytes,
    is_text,
    physical_type,
)
from lance_ops.filter.types.texts import (
    format_decimal,
    format_float,
    read_date,
    read_decimal,
    read_time,
    read_timestamp,
)

_INTEGER_TEXT = r"^[+-]?[0-9]+$"
_FLOAT_TEXT = r"^(?i:[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|infinity|nan))$"
_TRUE_TEXT = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE_TEXT = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_UTC = ("UTC", "Etc/UTC", "Z", "+00:00")

_Cast = Callable[[pa.Array, pa.DataType, pa.DataType], pa.Array]


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


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether there is a conversion at all."""
    return source in (NULL, target) or _find_cast(source, target) is not None


def cast_can_fail(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether some value of `source` does not fit `target`."""
    if source in (NULL, target) or (_kind(source), _kind(target)) in _NEVER_FAILING:
        return False
    if pat.is_integer(source) and pat.is_integer(target) and target.bit_width > source.bit_width:
        return bool(pat.is_signed_integer(source) and pat.is_unsigned_integer(target))
    return True


def _salvage(values: pa.Array, cast: Callable[[pa.Array], pa.Array], target: pa.DataType) -> pa.Array:
    """Cast what can be cast: halve until the bad values stand alone, and make those null."""
    try:
        return cast(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError):
        if len(values) <= 1:
            return pa.nulls(len(values), target)
        middle = len(values) // 2
        halves = (values.slice(0, middle), values.slice(middle))
        return pa.concat_arrays([_salvage(half, cast, target) for half in halves])


def each_distinct(values: pa.Array, convert: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    """Apply a Python function to each distinct value; for what Arrow has no kernel."""
    encoded = values.dictionary_encode() if not pat.is_dictionary(values.type) else values
    converted = [None if value is None else convert(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(converted, target).take(encoded.indices)


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


def _find_cast(source: pa.DataType, target: pa.DataType) -> _Cast | None:
    return _CASTS.get((_kind(source), _kind(target)))


def _arrow(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(target)


def _to_float(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    narrowed = values.cast(target, safe=False)
    return narrowed.cast(physical_type(target))


def _bool_to_float(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    return _to_float(values.cast(pa.int8()), source, target)


def _float_to_int(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    whole = pc.trunc(values.cast(pa.float64()))
    limits = np.iinfo(target.to_pandas_dtype())
    # The upper limit itself has no exact double for 64 bits; the power of two above it has.
    fits = pc.and_(pc.greater_equal(whole, float(limits.min)), pc.less(whole, float(int(limits.max) + 1)))
    if pc.all(fits).as_py() is False:
        raise pa.ArrowInvalid(f"{pc.filter(whole, pc.invert(fits))[0]} is out of range")
    return whole.cast(target, safe=False)


def _decimal_to_int(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return pc.trunc(values).cast(decimal_type(values.type.precision, 0)).cast(target)


def _int_to_decimal(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(pa.decimal128(20, 0)).cast(target)


def _decimal_to_decimal(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    if target.scale < source.scale:
        roomy = values.cast(decimal_type(source.precision + 1, source.scale))
        values = pc.round(roomy, ndigits=target.scale, round_mode="half_towards_infinity")
    return values.cast(target)


def _float_to_decimal(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    scaled = pc.round(
        pc.multiply(values.cast(pa.float64()), 10.0**target.scale), round_mode="half_towards_infinity"
    )
    unscaled = scaled.cast(pa.decimal128(38, 0))
    return _relabel(unscaled, pa.decimal128(38, target.scale)).cast(target)


def _decimal_to_float(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    make = pa.decimal256 if pat.is_decimal256(source) else pa.decimal128
    unscaled = _relabel(values, make(source.precision, 0))
    quotient = pc.divide(unscaled.cast(pa.float64()), 10.0**source.scale)
    return _to_float(quotient, source, target)


def _relabel(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The same bytes under another type of the same width."""
    return pa.Array.from_buffers(data_type, len(values), values.buffers(), offset=values.offset)


# --- text


def _require(values: pa.Array, good: pa.Array, target: pa.DataType) -> None:
    if pc.all(good).as_py() is False:
        bad = pc.filter(values, pc.invert(good))[0].as_py()
        raise pa.ArrowInvalid(f"{bad!r} does not read as {target}")


def _text_to_int(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    _require(values, pc.match_substring_regex(values, _INTEGER_TEXT), target)
    return pc.utf8_ltrim(values, characters="+").cast(target)


def _text_to_float(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    _require(values, pc.match_substring_regex(values, _FLOAT_TEXT), target)
    return _to_float(values.cast(pa.float64()), source, target)


def _text_to_decimal(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return each_distinct(values, lambda text: read_decimal(text, target.scale), target)


def _text_to_bool(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(values)).cast(UTF8)
    true = pc.is_in(words, value_set=pa.array(_TRUE_TEXT))
    false = pc.is_in(words, value_set=pa.array(_FALSE_TEXT))
    _require(values, pc.or_(pc.or_(true, false), pc.is_null(values)), target)
    return pc.if_else(pc.is_valid(values), true, pa.scalar(None, target))


def _text_to_date(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    try:
        days = values.cast(pa.date32())
    except pa.ArrowInvalid:
        days = each_distinct(values, read_date, pa.int32()).cast(pa.date32())
    return days.cast(target)


def _text_to_timestamp(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        unit = _UNITS_PER_SECOND[target.unit]
        ticks = each_distinct(values, lambda text: _ticks(text, unit, target.tz), INT64)
        return ticks.cast(target)


def _ticks(text: str, per_second: int, zone: str | None) -> int:
    """Ticks since the epoch; digits beyond the unit are cut off towards zero, like a cast between units."""
    nanos = read_timestamp(text, zone)
    ticks = abs(nanos) * per_second // 1_000_000_000
    return ticks if nanos >= 0 else -ticks


def _text_to_time(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    per_second = _UNITS_PER_SECOND[target.unit]
    ticks = each_distinct(values, lambda text: read_time(text) * per_second // 1_000_000_000, INT64)
    return ticks.cast(pa.int32() if target.bit_width == 32 else INT64).cast(target)


def _float_to_text(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    return each_distinct(values, lambda value: format_float(value, source.bit_width), target)


def _decimal_to_text(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return each_distinct(values, format_decimal, target)


def _date_to_text(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    text = values.cast(pa.date32()).cast(UTF8)
    if pat.is_date64(source):
        text = pc.binary_join_element_wise(text, "T00:00:00", "")
    return text.cast(target)


def _timestamp_to_text(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    local = pc.local_timestamp(values) if source.tz else values
    text = pc.replace_substring(local.cast(UTF8), " ", "T")
    text = _trim_fraction(text)
    if source.tz:
        text = pc.binary_join_element_wise(text, _offset_text(values, local, source), "")
    return text.cast(target)


def _trim_fraction(text: pa.Array) -> pa.Array:
    """Show a fraction in groups of three digits, and none if it is zero."""
    text = pc.replace_substring_regex(text, r"^([^.]*)\.0+$", r"\1")
    return pc.replace_substring_regex(text, r"^(.*\.(?:\d{3})+?)(?:000)+$", r"\1")


def _offset_text(values: pa.Array, local: pa.Array, source: pa.DataType) -> Any:
    if source.tz in _UTC:
        return "Z"
    difference = pc.subtract(local.cast(INT64), values.cast(INT64))
    minutes = pc.divide(difference, 60 * _UNITS_PER_SECOND[source.unit])
    return each_distinct(minutes, _format_offset, UTF8)


def _format_offset(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def _time_to_text(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return _trim_fraction(values.cast(UTF8)).cast(target)


# --- time


def _int_to_date(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(pa.int32()).cast(pa.date32()).cast(target)


def _date_to_int(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(pa.int32() if pat.is_date32(source) else INT64).cast(target)


def _date_to_date(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    # Arrow refuses a date64 that is not at midnight; the peer takes the day that it falls on.
    return values.cast(target, safe=not pat.is_date64(source))


def _number_to_ticks(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    whole = _float_to_int(values, source, INT64) if pat.is_floating(source) else values.cast(INT64)
    return whole.cast(target)


def _ticks_to_int(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return values.cast(INT64).cast(target)


def _timestamp_to_timestamp(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    finer = _UNITS_PER_SECOND[target.unit] >= _UNITS_PER_SECOND[source.unit]
    rescaled = values.cast(pa.timestamp(target.unit, source.tz), safe=finer)
    if bool(source.tz) == bool(target.tz) or source.tz:
        return rescaled.cast(INT64).cast(target)
    return wall_clock_in(rescaled, target)


def wall_clock_in(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Read timestamps as wall-clock times of the target's zone; of two candidates the earlier."""
    if target.tz in _UTC:
        return values.cast(INT64).cast(target)
    if target.tz[0] in "+-":
        offset = zone_of(target.tz).utcoffset(None)
        assert offset is not None
        ticks = int(offset.total_seconds()) * _UNITS_PER_SECOND[target.unit]
        return pc.subtract_checked(values.cast(INT64), ticks).cast(target)
    zoned = pc.assume_timezone(values, target.tz, ambiguous="earliest", nonexistent="earliest")
    return zoned.cast(target)


def zone_of(name: str) -> dt.tzinfo:
    """The zone of an Arrow timestamp type: a name of the zone database, or an offset such as "+02:00"."""
    if name[0] in "+-":
        digits = name[1:].replace(":", "")
        offset = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:4] or 0))
        return dt.timezone(-offset if name[0] == "-" else offset)
    return zoneinfo.ZoneInfo("UTC" if name in _UTC else name)


def _date_to_timestamp(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    midnight = values.cast(pa.timestamp(target.unit))
    return wall_clock_in(midnight, target) if target.tz else midnight


def _timestamp_to_date(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    local = pc.local_timestamp(values) if source.tz else values
    return local.cast(pa.date32(), safe=False).cast(target)


def _same_unit_family(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    finer = _UNITS_PER_SECOND[target.unit] >= _UNITS_PER_SECOND[source.unit]
    return values.cast(target, safe=finer)


def _interval_to_duration(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    per_second = _UNITS_PER_SECOND[target.unit]

    def ticks(interval: Any) -> int:
        if interval.months:
            raise ValueError("months and years have no fixed length")
        nanos: int = interval.days * 86_400_000_000_000 + interval.nanoseconds
        return nanos * per_second // 1_000_000_000

    converted = [None if value is None else ticks(value) for value in values.to_pylist()]
    return pa.array(converted, INT64).cast(target)


_CASTS: dict[tuple[str, str], _Cast] = {
    ("bool", "int"): _arrow,
    ("bool", "float"): _bool_to_float,
    ("bool", "text"): _arrow,
    ("int", "bool"): _arrow,
    ("int", "int"): _arrow,
    ("int", "float"): _to_float,
    ("int", "decimal"): _int_to_decimal,
    ("int", "text"): _arrow,
    ("int", "date"): _int_to_date,
    ("int", "timestamp"): _number_to_ticks,
    ("int", "duration"): _number_to_ticks,
    ("float", "bool"): _arrow,
    ("float", "int"): _float_to_int,
    ("float", "float"): _to_float,
    ("float", "decimal"): _float_to_decimal,
    ("float", "text"): _float_to_text,
    ("float", "timestamp"): _number_to_ticks,
    ("decimal", "int"): _decimal_to_int,
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "text"): _decimal_to_text,
    ("text", "bool"): _text_to_bool,
    ("text", "int"): _text_to_int,
    ("text", "float"): _text_to_float,
    ("text", "decimal"): _text_to_decimal,
    ("text", "text"): _arrow,
    ("text", "bytes"): _arrow,
    ("text", "date"): _text_to_date,
    ("text", "timestamp"): _text_to_timestamp,
    ("text", "time"): _text_to_time,
    ("bytes", "text"): _arrow,
    ("bytes", "bytes"): _arrow,
    ("date", "int"): _date_to_int,
    ("date", "date"): _date_to_date,
    ("date", "timestamp"): _date_to_timestamp,
    ("date", "text"): _date_to_text,
    ("timestamp", "int"): _ticks_to_int,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "timestamp"): _timestamp_to_timestamp,
    ("timestamp", "text"): _timestamp_to_text,
    ("time", "text"): _time_to_text,
    ("time", "time"): _same_unit_family,
    ("duration", "int"): _ticks_to_int,
    ("duration", "duration"): _same_unit_family,
    (str(INTERVAL), "duration"): _interval_to_duration,
}

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
