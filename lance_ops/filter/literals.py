"""Constants: numbers as SQL means them, and how they become Arrow scalars and back."""

import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from lance_ops.encoding.arrays import number_dtype
from lance_ops.encoding.arrow_arrays import scalar
from lance_ops.filter.expression import Literal
from lance_ops.filter.types.coercion import (
    FLOAT64,
    INT64,
    UINT64,
    is_bytes,
    is_list,
    is_number,
    physical_type,
)

_INTEGER = re.compile(r"-?\d+")
_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
INTEGER_LIMITS = {
    **{
        pa.type_for_alias(f"int{bits}"): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)
    },
    **{pa.type_for_alias(f"uint{bits}"): (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
# A number beyond these digits is not finite in this context, instead of an error.
_EXACT = decimal.Context(prec=400, traps=[])
# From here on a double skips integers, so that comparing as doubles and as integers differs.
_EXACT_DOUBLE = 2**53
_SECONDS_PER_DAY = 86_400


def to_scalar(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """Return the Arrow scalar of a literal, in the physical type."""
    return scalar(
        list(value) if is_list(data_type) and value is not None else value, physical_type(data_type)
    )


def from_scalar(scalar: pa.Scalar) -> Any:
    """Return the value of `Literal` for an Arrow scalar."""
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
    """Return a number literal: 64-bit signed if it fits, else unsigned, else a double, as in pylance."""
    if _INTEGER.fullmatch(text):
        value = int(text)
        for candidate in (INT64, UINT64):
            low, high = INTEGER_LIMITS[candidate]
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
        low, high = INTEGER_LIMITS[target]
        return Literal(value, target) if low <= value <= high else None
    if not (pat.is_integer(target) or pat.is_decimal(target)):
        return None
    with decimal.localcontext(_EXACT):
        exact = decimal.Decimal(text)
        if not exact.is_finite() or abs(exact.adjusted()) > 300:
            return None
        if pat.is_integer(target):
            low, high = INTEGER_LIMITS[target]
            fits = exact == exact.to_integral_value() and low <= exact <= high
            return Literal(int(exact), target) if fits else None
        rounded = exact.quantize(decimal.Decimal(1).scaleb(-target.scale))
        fits = rounded == exact and len(rounded.as_tuple().digits) <= target.precision
        return Literal(rounded, target) if fits else None


def nearest_float(value: float, target: pa.DataType) -> float:
    """`value` rounded to the floating-point type."""
    with np.errstate(over="ignore"):
        return float(number_dtype(target).type(value))


def narrowed(literal: Literal, target: pa.DataType) -> Literal | None:
    """Return a constant of another type in the type of the other operand, if that changes no comparison."""
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
    """A date or a timestamp, if the unit holds it; a date is midnight in UTC in any zone, as in pylance."""
    per_second = _TICKS_PER_SECOND[target.unit]
    if pat.is_date(literal.type):
        seconds = literal.value * _SECONDS_PER_DAY if pat.is_date32(literal.type) else literal.value // 1000
        rest, ticks = 0, seconds * per_second
    else:
        ticks, rest = divmod(literal.value * per_second, _TICKS_PER_SECOND[literal.type.unit])
        # The zone is for the conversion to the type in which both are compared, which keeps the unit.
        target = pa.timestamp(target.unit, literal.type.tz)
    return None if rest or abs(ticks) >= 2**63 else Literal(ticks, target)


def exact_decimal(text: str) -> Literal | None:
    """Return a number as the decimal with the same digits; None if it needs more than 38."""
    with decimal.localcontext(_EXACT):
        value = decimal.Decimal(text)
        if not value.is_finite() or abs(value.adjusted()) > 38:
            return None
        scale = max(0, -int(value.as_tuple().exponent))
        value = value.quantize(decimal.Decimal(1).scaleb(-scale))
        precision = max(len(value.as_tuple().digits), scale, 1)
        return Literal(value, pa.decimal128(precision, scale)) if precision <= 38 else None
