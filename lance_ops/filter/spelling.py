"""Spelling: SQL of names and constants."""

import datetime as dt
import decimal
import re
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.filter.types.arrow_names import name_of_type
from lance_ops.filter.types.coercion import (
    BOOL,
    FLOAT64,
    INT64,
    INTERVAL,
    NULL,
    UTF8,
    is_bytes,
    is_list,
    is_text,
)
from lance_ops.filter.types.sql_names import MAX_DECIMAL_PRECISION, sql_type
from lance_ops.filter.types.texts import format_decimal
from lance_ops.filter.types.time_casts import zone_of

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_LOWEST = -(2**63)
_EPOCH = dt.date(1970, 1, 1).toordinal()
_FIRST_DAY = 1 - _EPOCH
_LAST_DAY = dt.date.max.toordinal() - _EPOCH


def render_literal(value: Any, data_type: pa.DataType) -> str:
    """SQL of a constant where nothing around it would give it another type."""
    if value is None:
        return "NULL" if sql_type(data_type) is None else f"CAST(NULL AS {sql_type(data_type)})"
    bare = render_bare(value, data_type)
    name = sql_type(data_type)
    natural = data_type in (INT64, FLOAT64, UTF8, BOOL, NULL, pa.binary(), INTERVAL)
    if natural or name is None or bare.startswith(("DATE", "TIMESTAMP", "CAST", "[")):
        return bare
    return f"CAST({bare} AS {name})"


def render_bare(value: Any, data_type: pa.DataType) -> str:
    """SQL of a constant where its neighbour gives it its type."""
    if value is None:
        return "NULL"
    if pat.is_floating(data_type):
        return _float_sql(value, data_type)
    if pat.is_boolean(data_type):
        return "TRUE" if value else "FALSE"
    if pat.is_decimal(data_type):
        return _decimal_sql(value, data_type)
    if is_text(data_type):
        return quote(value)
    if is_bytes(data_type):
        return f"X'{value.hex()}'"
    if pat.is_integer(data_type):
        # Pylance reads the digits of the lowest integer without their sign, for which they are too many.
        return str(value) if value != _LOWEST else f"CAST('{value}' AS BIGINT)"
    if is_list(data_type):
        return f"[{', '.join(render_literal(item, data_type.value_type) for item in value)}]"
    return _time_sql(value, data_type)


def quote(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("'", "''") + "'"


def _float_sql(value: float, data_type: pa.DataType) -> str:
    """All digits of the double: a float32 literal then means the same where pylance does not narrow it."""
    text = repr(value)
    if text in ("nan", "inf", "-inf"):
        return f"CAST('{text}' AS {sql_type(data_type) or 'DOUBLE'})"
    return text


def _decimal_sql(value: decimal.Decimal, data_type: pa.DataType) -> str:
    text = format_decimal(value)
    name = sql_type(data_type)
    if name is None and len(value.as_tuple().digits) <= MAX_DECIMAL_PRECISION:
        # Types without an SQL name; they are restored from the other operand.
        name = f"DECIMAL({MAX_DECIMAL_PRECISION}, {max(data_type.scale, 0)})"
    return quote(text) if name is None else f"CAST('{text}' AS {name})"


def _time_sql(value: Any, data_type: pa.DataType) -> str:
    if pat.is_interval(data_type):
        return _interval_sql(*value)
    if pat.is_date32(data_type):
        return _date_sql(value)
    if pat.is_date64(data_type):
        return _date_sql(value // 86_400_000)
    per_second = _TICKS_PER_SECOND[data_type.unit]
    if pat.is_timestamp(data_type):
        return _timestamp_sql(value, data_type, per_second)
    if pat.is_duration(data_type):
        # Pylance compares no interval with a duration.
        return f"arrow_cast({value}, '{name_of_type(data_type)}')"
    seconds, ticks = divmod(value, per_second)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return quote(clock + _fraction(ticks, data_type.unit))


def _interval_sql(months: int, days: int, nanos: int) -> str:
    counts = ((months, "months"), (days, "days"), (nanos, "nanoseconds"))
    parts = [f"{count} {unit}" for count, unit in counts if count] or ["0 days"]
    # Pylance reads INTERVAL only inside a function call.
    return f"coalesce(INTERVAL '{' '.join(parts)}')"


def _date_sql(days: int) -> str:
    if _FIRST_DAY <= days <= _LAST_DAY:
        return f"DATE '{dt.date.fromordinal(days + _EPOCH).isoformat()}'"
    return f"CAST(CAST({days} AS INT) AS DATE)"


def _fraction(ticks: int, unit: str) -> str:
    return f".{ticks:0{_FRACTION_DIGITS[unit]}d}" if ticks else ""


def _timestamp_sql(value: int, data_type: pa.DataType, per_second: int) -> str:
    seconds, ticks = divmod(value, per_second)
    if not _FIRST_DAY + 1 <= seconds // 86_400 <= _LAST_DAY - 1:
        return f"CAST({value} AS {sql_type(pa.timestamp(data_type.unit))})"
    zone = dt.UTC if data_type.tz is None else zone_of(data_type.tz)
    instant = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(seconds=seconds)
    local = instant.astimezone(zone)
    text = local.replace(tzinfo=None).isoformat(" ") + _fraction(ticks, data_type.unit)
    if data_type.tz is not None and local.replace(tzinfo=None).replace(tzinfo=zone, fold=0) != instant:
        # This wall clock time occurs twice; only a string with an offset is unambiguous.
        return quote(text + local.strftime("%z"))
    digits = _FRACTION_DIGITS[data_type.unit]
    return f"TIMESTAMP{'' if digits == 6 else f'({digits})'} '{text}'"


def render_column(path: tuple[str, ...]) -> str:
    """Return a column reference, in backticks where the name is not a plain word."""
    return ".".join(_name(part) for part in path)


def _name(part: str) -> str:
    if _PLAIN_NAME.fullmatch(part) and part.upper() not in _keywords():
        return part
    return f"`{part.replace('`', '``')}`"


@cache
def _keywords() -> frozenset[str]:
    # Filters that are not serialised do not need the parser.
    from sqlglot.tokens import Tokenizer

    words = {word for word in Tokenizer.KEYWORDS if word.isalpha()}
    return frozenset(words | {"ARRAY", "EXISTS", "INTERVAL", "POSITION"})
