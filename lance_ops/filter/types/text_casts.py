"""Casts between text and other values: read by Arrow where it can, else once for each distinct value."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.filter.types.coercion import (
    INT64,
    UTF8,
)
from lance_ops.filter.types.number_casts import Cast, to_float
from lance_ops.filter.types.texts import (
    format_decimal,
    format_float,
    read_date,
    read_decimal,
    read_time,
    read_timestamp,
)
from lance_ops.filter.types.time_casts import UNITS_PER_SECOND, UTC

_INTEGER_TEXT = r"^[+-]?[0-9]+$"
_FLOAT_TEXT = r"^(?i:[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|infinity|nan))$"
_TRUE_TEXT = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE_TEXT = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")


def each_distinct(values: pa.Array, convert: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    """Apply a Python function to each distinct value; for what Arrow has no kernel."""
    encoded = values.dictionary_encode() if not pat.is_dictionary(values.type) else values
    converted = [None if value is None else convert(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(converted, target).take(encoded.indices)


def _require(values: pa.Array, good: pa.Array, target: pa.DataType) -> None:
    if pc.all(good).as_py() is False:
        bad = pc.filter(values, pc.invert(good))[0].as_py()
        raise pa.ArrowInvalid(f"{bad!r} does not read as {target}")


def _text_to_int(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    _require(values, pc.match_substring_regex(values, _INTEGER_TEXT), target)
    return pc.utf8_ltrim(values, characters="+").cast(target)


def _text_to_float(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    _require(values, pc.match_substring_regex(values, _FLOAT_TEXT), target)
    return to_float(values.cast(pa.float64()), source, target)


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
        unit = UNITS_PER_SECOND[target.unit]
        ticks = each_distinct(values, lambda text: _ticks(text, unit, target.tz), INT64)
        return ticks.cast(target)


def _ticks(text: str, per_second: int, zone: str | None) -> int:
    """Ticks since the epoch; digits beyond the unit are cut off towards zero, like a cast between units."""
    nanos = read_timestamp(text, zone)
    ticks = abs(nanos) * per_second // 1_000_000_000
    return ticks if nanos >= 0 else -ticks


def _text_to_time(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    per_second = UNITS_PER_SECOND[target.unit]
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
    if source.tz in UTC:
        return "Z"
    difference = pc.subtract(local.cast(INT64), values.cast(INT64))
    minutes = pc.divide(difference, 60 * UNITS_PER_SECOND[source.unit])
    return each_distinct(minutes, _format_offset, UTF8)


def _format_offset(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def _time_to_text(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    return _trim_fraction(values.cast(UTF8)).cast(target)


TEXT_CASTS: Mapping[tuple[str, str], Cast] = {
    ("float", "text"): _float_to_text,
    ("decimal", "text"): _decimal_to_text,
    ("text", "bool"): _text_to_bool,
    ("text", "int"): _text_to_int,
    ("text", "float"): _text_to_float,
    ("text", "decimal"): _text_to_decimal,
    ("text", "date"): _text_to_date,
    ("text", "timestamp"): _text_to_timestamp,
    ("text", "time"): _text_to_time,
    ("date", "text"): _date_to_text,
    ("timestamp", "text"): _timestamp_to_text,
    ("time", "text"): _time_to_text,
}
"""Casts of text, by the kinds of source and target that `casting` distinguishes."""
