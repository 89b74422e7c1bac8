"""Constants: how SQL spells them, and how they become Arrow scalars and back."""

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from lance_ops.filter.expression import Literal
from lance_ops.filter.types.arrow_names import name_of_type
from lance_ops.filter.types.coercion import (
    BOOL,
    FLOAT64,
    INT64,
    INTERVAL,
    NULL,
    UINT64,
    UTF8,
    is_bytes,
    is_list,
    is_number,
    is_text,
    physical_type,
)
from lance_ops.filter.types.sql_names import MAX_DECIMAL_PRECISION, sql_type
from lance_ops.filter.types.texts import format_decimal
from lance_ops.filter.types.time_casts import zone_of

_INTEGER = re.compile(r"-?\d+")
_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_INTEGER_LIMITS = {
    **{
        pa.type_for_alias(f"int{bits}"): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)
    },
    **{pa.type_for_alias(f"uint{bits}"): (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
# A number beyond these digits is not finite in this context, instead of an error.
_EXACT = decimal.Context(prec=400, traps=[])
# From here on a double skips integers, so that comparing as doubles and as integers differs.
_EXACT_DOUBLE = 2**53
_LOWEST = -(2**63)
_SECONDS_PER_DAY = 86_400
_EPOCH = dt.date(1970, 1, 1).toordinal()
_FIRST_DAY = 1 - _EPOCH
_LAST_DAY = dt.date.max.toordinal() - _EPOCH


def to_scalar(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """The Arrow scalar of a literal, in the physical type."""
    return pa.scalar(
        list(value) if is_list(data_type) and value is not None else value, physical_type(data_type)
    )


def from_scalar(scalar: pa.Scalar) -> Any:
    """The value of `Literal` for an Arrow scalar."""
    if not scalar.is_valid:
        return None
    if pat.is_floating(scalar.type) and math.isnan(scalar.as_py()):
        # One object, so that equal expressions compare equal.
        return math.nan
    data_type = scalar.type
    if pat.is_interval(data_type):
        return tuple(scalar.as_py())
    if pat.is_temporal(data_type):
        return scalar.value
    if is_list(data_type):
        return tuple(from_scalar(item) for item in scalar.values)
    return scalar.as_py()


def number_literal(text: str) -> Literal:
    """A number as it stands: 64-bit signed if it fits, else unsigned, else a double, as in the peer."""
    if _INTEGER.fullmatch(text):
        value = int(text)
        for candidate in (INT64, UINT64):
            low, high = _INTEGER_LIMITS[candidate]
            if low <= value <= high:
                return Literal(value, candidate)
    return Literal(float(text), FLOAT64)


def number_as(text: str, target: pa.DataType) -> Literal | None:
    """A number in the type of the column that it is compared with; None if the type cannot hold it exactly.

    A floating-point type takes its nearest value, so that `price = 0.1` finds the rows of a float32 column
    into which 0.1 was written.
    """
    if pat.is_floating(target):
        return Literal(nearest_float(float(text), target), target)
    if pat.is_integer(target) and _INTEGER.fullmatch(text):
        value = int(text)
        low, high = _INTEGER_LIMITS[target]
        return Literal(value, target) if low <= value <= high else None
    if not (pat.is_integer(target) or pat.is_decimal(target)):
        return None
    with decimal.localcontext(_EXACT):
        exact = decimal.Decimal(text)
        if not exact.is_finite() or abs(exact.adjusted()) > 300:
            return None
        if pat.is_integer(target):
            low, high = _INTEGER_LIMITS[target]
            fits = exact == exact.to_integral_value() and low <= exact <= high
            return Literal(int(exact), target) if fits else None
        rounded = exact.quantize(decimal.Decimal(1).scaleb(-target.scale))
        fits = rounded == exact and len(rounded.as_tuple().digits) <= target.precision
        return Literal(rounded, target) if fits else None


def nearest_float(value: float, target: pa.DataType) -> float:
    """`value` rounded to the floating-point type."""
    with np.errstate(over="ignore"):
        return float(target.to_pandas_dtype()(value))


def narrowed(literal: Literal, target: pa.DataType) -> Literal | None:
    """A constant of another type in the type of the value beside it, if that changes no comparison."""
    value = literal.value
    if value is None or literal.type == target:
        return None
    if pat.is_timestamp(target) and (pat.is_timestamp(literal.type) or pat.is_date(literal.type)):
        return _as_timestamp(literal, target)
    if is_bytes(literal.type) and is_bytes(target):
        fits = not pat.is_fixed_size_binary(target) or len(value) == target.byte_width
        return Literal(value, target) if fits else None
    if not (is_number(literal.type) and is_number(target)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return Literal(value, target) if pat.is_floating(target) else None
    if isinstance(value, float) and pat.is_integer(target) and abs(value) >= _EXACT_DOUBLE:
        return None
    found = number_as(repr(value) if isinstance(value, float) else str(value), target)
    return found if found is not None and decimal.Decimal(found.value) == decimal.Decimal(value) else None


def _as_timestamp(literal: Literal, target: pa.DataType) -> Literal | None:
    """A date or a timestamp of a coarser unit; a date is midnight in UTC in any zone, as in the peer."""
    per_second = _TICKS_PER_SECOND[target.unit]
    if pat.is_date(literal.type):
        seconds = literal.value * _SECONDS_PER_DAY if pat.is_date32(literal.type) else literal.value // 1000
        rest, ticks = 0, seconds * per_second
    elif literal.type.tz == target.tz:
        ratio, rest = divmod(per_second, _TICKS_PER_SECOND[literal.type.unit])
        ticks = literal.value * ratio
    else:
        return None
    return None if rest or abs(ticks) >= 2**63 else Literal(ticks, target)


def exact_decimal(text: str) -> Literal | None:
    """A number as the decimal that its digits say; None if 38 digits do not hold it."""
    with decimal.localcontext(_EXACT):
        value = decimal.Decimal(text)
        if not value.is_finite() or abs(value.adjusted()) > 38:
            return None
        scale = max(0, -int(value.as_tuple().exponent))
        value = value.quantize(decimal.Decimal(1).scaleb(-scale))
        precision = max(len(value.as_tuple().digits), scale, 1)
        return Literal(value, pa.decimal128(precision, scale)) if precision <= 38 else None


# --- rendering


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
        # The peer reads the digits of the lowest integer without their sign, for which they are too many.
        return str(value) if value != _LOWEST else f"CAST('{value}' AS BIGINT)"
    if is_list(data_type):
        return f"[{', '.join(render_literal(item, data_type.value_type) for item in value)}]"
    return _time_sql(value, data_type)


def quote(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def _float_sql(value: float, data_type: pa.DataType) -> str:
    """All digits of the double: a float32 literal then means the same where the peer does not narrow it."""
    text = repr(value)
    if text in ("nan", "inf", "-inf"):
        return f"CAST('{text}' AS {sql_type(data_type) or 'DOUBLE'})"
    return text


def _decimal_sql(value: decimal.Decimal, data_type: pa.DataType) -> str:
    text = format_decimal(value)
    name = sql_type(data_type)
    if name is None and len(value.as_tuple().digits) <= MAX_DECIMAL_PRECISION:
        # Types that SQL cannot name; what is beside them gives the type back.
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
        # The peer compares no interval with a duration.
        return f"arrow_cast({value}, '{name_of_type(data_type)}')"
    seconds, ticks = divmod(value, per_second)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return quote(clock + _fraction(ticks, data_type.unit))


def _interval_sql(months: int, days: int, nanos: int) -> str:
    counts = ((months, "months"), (days, "days"), (nanos, "nanoseconds"))
    parts = [f"{count} {unit}" for count, unit in counts if count] or ["0 days"]
    # The peer reads INTERVAL only inside a function call.
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
        # The wall clock shows this time twice; only text with an offset says which one is meant.
        return quote(text + local.strftime("%z"))
    digits = _FRACTION_DIGITS[data_type.unit]
    return f"TIMESTAMP{'' if digits == 6 else f'({digits})'} '{text}'"
