"""Comparisons of values of one type.

Floating-point numbers stand in the total order of IEEE 754, as they do in pylance and in its indices: NaN is
above infinity, or below -infinity if its sign bit is set, and equal to itself. Between two columns -0.0 is
below 0.0, but the constant zero means both.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.arrow_arrays import scalar
from lance_ops.filter.functions.signature import Datum
from lance_ops.filter.types.coercion import BOOL, physical_type

KERNELS: dict[str, Callable[[Datum, Datum], Datum]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
"""Types compared in Arrow order: neither floats nor untyped nulls."""
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def compare(op: str, left: Datum, right: Datum) -> Datum:
    """`left op right` for any operator of `expression.OPPOSITES`; null where an operand is null."""
    if op == "IS NOT DISTINCT FROM":
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both_null, pc.fill_null(compare("=", left, right), scalar(False, pa.bool_())))
    if op == "IS DISTINCT FROM":
        return pc.invert(compare("IS NOT DISTINCT FROM", left, right))
    if pat.is_null(left.type):
        arrays = [side for side in (left, right) if isinstance(side, pa.Array)]
        return pa.nulls(len(arrays[0]), BOOL) if arrays else pa.scalar(None, BOOL)
    if pat.is_float16(left.type):
        # Arrow compares no half floats; single ones hold all of them, in their order.
        left, right = left.cast(pa.float32()), right.cast(pa.float32())
    if pat.is_floating(left.type):
        return _compare_floats(op, left, right)
    return KERNELS[op](left, right)


def _compare_floats(op: str, left: Datum, right: Datum) -> Datum:
    if isinstance(left, pa.Scalar):
        if isinstance(right, pa.Scalar):
            return _compare_floats(op, pa.repeat(left, 1), right)[0]
        return _compare_floats(_MIRRORED[op], right, left)
    number = right.as_py() if isinstance(right, pa.Scalar) else None
    if isinstance(right, pa.Array) or (number is not None and np.isnan(number)):
        return KERNELS[op](order_keys(left), order_keys(right))
    if op in ("=", "<>"):
        return KERNELS[op](left, right)
    if op in ("<=", ">="):
        return pc.invert(_compare_floats({"<=": ">", ">=": "<"}[op], left, right))
    plain = KERNELS[op](left, right)
    nan = pc.is_nan(left)
    if not pc.any(nan).as_py():
        return plain
    return pc.or_(plain, pc.and_(nan, KERNELS[op](order_keys(left), pa.scalar(0, _INTEGERS[left.type]))))


def order_keys(values: Datum) -> Datum:
    """Map floating-point numbers to integers of the same order, each bit pattern distinct."""
    integer = _INTEGERS[values.type]
    if isinstance(values, pa.Scalar):
        return order_keys(pa.repeat(values, 1))[0]
    bits = values.view(integer)
    # The order of negative numbers is that of their bits without the sign, reversed.
    all_but_sign = pa.scalar((1 << (integer.bit_width - 1)) - 1, integer)
    return pc.if_else(pc.less(bits, 0), pc.bit_wise_xor(bits, all_but_sign), bits)


def is_in(operand: Datum, values: tuple[Any, ...], data_type: pa.DataType, *, has_null: bool) -> Datum:
    """IN with constants: null where the operand is null, and instead of false if the list has a null."""
    known = order_keys(operand) if pat.is_floating(operand.type) else operand
    found = pc.is_in(known, value_set=_value_set(values, data_type))
    unknown = pa.scalar(None, BOOL)
    return pc.if_else(found if has_null else pc.is_valid(operand), found, unknown)


@lru_cache(maxsize=8)
def _value_set(values: tuple[Any, ...], data_type: pa.DataType) -> pa.Array:
    """Return the Arrow array of an IN list, cached because a scan needs it for each batch."""
    if not pat.is_floating(data_type):
        return pa.array(values, data_type)
    zeros = (0.0, -0.0) if 0.0 in values else ()
    return order_keys(pa.array((*values, *zeros), physical_type(data_type)))
