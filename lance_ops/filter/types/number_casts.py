"""Casts between numbers, with the limits and the rounding of pylance."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.arrays import number_dtype
from lance_ops.filter.types.coercion import (
    decimal_type,
    physical_type,
)

Cast = Callable[[pa.Array, pa.DataType, pa.DataType], pa.Array]
"""Converts values; the types are those of source and target."""


def to_float(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    """Return numbers as floats; what is too large for narrow ones becomes infinite."""
    narrowed = values.cast(target, safe=False)
    return narrowed.cast(physical_type(target))


def _bool_to_float(values: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array:
    return to_float(values.cast(pa.int8()), source, target)


def float_to_int(values: pa.Array, _source: pa.DataType, target: pa.DataType) -> pa.Array:
    """Floats as integers, their fractions cut off.

    Raises:
        ArrowInvalid: One is out of range.
    """
    whole = pc.trunc(values.cast(pa.float64()))
    limits = np.iinfo(number_dtype(target))
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
    return to_float(quotient, source, target)


def _relabel(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return the same bytes under another type of the same width."""
    return pa.Array.from_buffers(data_type, len(values), values.buffers(), offset=values.offset)


NUMBER_CASTS: Mapping[tuple[str, str], Cast] = {
    ("bool", "float"): _bool_to_float,
    ("int", "float"): to_float,
    ("int", "decimal"): _int_to_decimal,
    ("float", "int"): float_to_int,
    ("float", "float"): to_float,
    ("float", "decimal"): _float_to_decimal,
    ("decimal", "int"): _decimal_to_int,
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): _decimal_to_decimal,
}
"""Casts of numbers, by the kinds of source and target that `casting` distinguishes."""
