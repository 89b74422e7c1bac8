"""Arithmetic: integers wrap around or fail, and divide towards zero; only floats can be divided by zero."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.arrays import number_dtype
from lance_ops.filter.functions.signature import Datum
from lance_ops.filter.functions.time import add_interval
from lance_ops.filter.types.coercion import INTERVAL, decimal_type, physical_type


def compute(op: str, left: Datum, right: Datum, result: pa.DataType, *, wraps: bool = True) -> Datum:
    """`left op right`, where at least one side is an array, in the physical type of `result`.

    Raises:
        pyarrow.ArrowInvalid: Division by zero, or a decimal or timestamp that is out of range; unless
            integers wrap, one of them as well.
    """
    if right.type == INTERVAL:
        return add_interval(left, right.as_py(), -1 if op == "-" else 1)
    if pat.is_decimal(result):
        return _decimals(op, left, right, result)
    if pat.is_floating(result):
        return _rounded(_floats(op, left, right), result)
    if pat.is_integer(result) and pat.is_date(left.type):
        return pc.subtract(*(side.cast(pa.int32()).cast(pa.int64()) for side in (left, right)))
    if pat.is_date(result):
        return _move_days(op, left, right, result)
    if pat.is_temporal(result):
        return {"+": pc.add_checked, "-": pc.subtract_checked}[op](left, right)
    return _integers(op, left, right, wraps=wraps)


def can_divide_by_zero(op: str, result: pa.DataType) -> bool:
    """Return whether a divisor of zero is an error."""
    return op in "/%" and not pat.is_floating(result)


def negate(values: Datum, *, wraps: bool = True) -> Datum:
    """Negate numbers; the lowest integer is unchanged, or an error where integers do not wrap."""
    return pc.negate(values) if wraps else pc.negate_checked(values)


_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "/": pc.divide_checked}


def _integers(op: str, left: Datum, right: Datum, *, wraps: bool) -> Datum:
    if op != "%" and not wraps:
        return _CHECKED[op](left, right)
    if op != "%":
        return {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}[op](left, right)
    quotient = pc.divide(left, right)
    return pc.subtract(left, pc.multiply(quotient, right))


def _floats(op: str, left: Datum, right: Datum) -> Datum:
    if op == "%":
        return _with_numpy(np.fmod, left, right)
    return {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}[op](left, right)


def _with_numpy(function: Any, left: Datum, right: Datum) -> pa.Array:
    """Return a function of two float arrays that Arrow lacks."""
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    sides = [pc.fill_null(side, 1.0) for side in (left, right)]
    arrays = [
        side.to_numpy(zero_copy_only=False)
        if isinstance(side, pa.Array)
        else number_dtype(side.type).type(side.as_py())
        for side in sides
    ]
    with np.errstate(all="ignore"):
        values = pa.array(function(*arrays))
    return pc.if_else(valid, values, pa.scalar(None, values.type))


def _rounded(values: Datum, result: pa.DataType) -> Datum:
    """Half floats are computed as single floats; each result is then rounded to a half."""
    return values.cast(result, safe=False).cast(physical_type(result)) if pat.is_float16(result) else values


def _move_days(op: str, left: Datum, right: Datum, result: pa.DataType) -> Datum:
    if not pat.is_date(left.type):
        left, right = right, left
    days = left.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    moved = {"+": pc.add_checked, "-": pc.subtract_checked}[op](days, right)
    return moved.cast(pa.int32()).cast(pa.date32()).cast(result)


def _decimals(op: str, left: Datum, right: Datum, result: pa.DataType) -> Datum:
    if op == "/":
        quotient = pc.divide(_wide(left), _wide(right))
        return pc.round(quotient, ndigits=result.scale, round_mode="towards_zero").cast(result)
    if op == "%":
        return _decimal_remainder(left, right).cast(result)
    kernel = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[op]
    return kernel(_wide(left), _wide(right)).cast(result)


def _wide(side: Datum) -> Datum:
    """Room for the digits that a result needs before it is cut to its type."""
    return side.cast(pa.decimal256(min(side.type.precision, 37), side.type.scale))


def _decimal_remainder(left: Datum, right: Datum) -> Datum:
    """Return the remainder of two decimals, which has the sign of the dividend."""
    scale = max(left.type.scale, right.type.scale)
    units = [
        side.cast(decimal_type(side.type.precision + scale - side.type.scale, scale))
        for side in (left, right)
    ]
    quotient = pc.trunc(pc.divide(*(_wide(side) for side in units)))
    whole = quotient.cast(pa.decimal256(quotient.type.precision - quotient.type.scale, 0))
    product = pc.multiply(whole, _wide(units[1]))
    return pc.subtract(_wide(units[0]), product.cast(pa.decimal256(75, scale)))
