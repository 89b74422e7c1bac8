"""Functions of numbers, and NaN in them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.arrow_arrays import scalar
from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Expression
from lance_ops.filter.functions.compare import compare
from lance_ops.filter.functions.signature import (
    TRUTH,
    Datum,
    FunctionSpec,
    always,
    if_null,
    like_first,
)
from lance_ops.filter.types.coercion import FLOAT64, decimal_type

_MAX_DIGITS = 300


def _whole_type(_arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of a rounded number: integers become doubles, as in pylance, decimals gain a digit."""
    number = targets[0]
    if pat.is_decimal(number):
        return decimal_type(number.precision + 1, number.scale)
    return FLOAT64 if pat.is_integer(number) else number


def _rounding(mode: str) -> Callable[..., Datum]:
    """round() or trunc(): to a number of decimal places, which may be negative."""

    def kernel(numbers: Datum, places: Datum | None = None) -> Datum:
        if pat.is_decimal(numbers.type):
            return _round_decimal(numbers, places, mode)
        if pat.is_integer(numbers.type):
            numbers = numbers.cast(FLOAT64, safe=False)
        if places is None:
            return pc.round(numbers, round_mode=mode)
        exponents = pc.max_element_wise(places, -_MAX_DIGITS, skip_nulls=False)
        exponents = pc.min_element_wise(exponents, _MAX_DIGITS, skip_nulls=False)
        # Two steps in binary floating point, like pylance: 1.005 to two places is 1.0.
        scale = pc.power(10.0, exponents).cast(numbers.type)
        return pc.divide(pc.round(pc.multiply(numbers, scale), round_mode=mode), scale)

    return kernel


def _round_decimal(numbers: Datum, places: Datum | None, mode: str) -> Datum:
    if isinstance(places, pa.Array):
        raise PredicateError("a decimal is rounded to a constant number of places only")
    digits = 0 if places is None else places.as_py()
    if digits is None:
        return pa.nulls(len(numbers), numbers.type)
    roomy = numbers.cast(decimal_type(numbers.type.precision + 1, numbers.type.scale))
    return pc.round(roomy, ndigits=max(min(digits, numbers.type.scale), -_MAX_DIGITS), round_mode=mode)


def _towards(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """Evaluate ceil() or floor(); for an integer the double of the same value."""

    def whole(numbers: Datum) -> Datum:
        if pat.is_decimal(numbers.type):
            numbers = numbers.cast(decimal_type(numbers.type.precision + 1, numbers.type.scale))
        return kernel(numbers)

    return whole


def _log(first: Datum, second: Datum | None = None) -> Datum:
    """log(x) to the base 10, log(base, x)."""
    return pc.log10(first) if second is None else pc.logb(second, first)


def _sqrt(numbers: Datum) -> Datum:
    """Return the square root; of a negative number the NaN that the processor makes, like pylance's."""
    valid = pc.is_valid(numbers)
    with np.errstate(invalid="ignore"):
        roots = np.sqrt(pc.fill_null(numbers, 0.0).to_numpy(zero_copy_only=False))
    return pc.if_else(valid, pa.array(roots), pa.scalar(None, numbers.type))


def _nanvl(numbers: Datum, otherwise: Datum) -> Datum:
    return pc.if_else(pc.is_nan(numbers), otherwise, numbers)


def _is_zero(numbers: Datum) -> Datum:
    return pc.equal(numbers, pa.scalar(0, numbers.type))


def _extreme(op: str) -> Callable[..., Datum]:
    """greatest() or least(): nulls are left out, NaN is the greatest number."""

    def kernel(first: Datum, *others: Datum) -> Datum:
        best = first
        for other in others:
            better = compare(op, other, best)
            best = if_null(pc.if_else(better, other, best), if_null(best, other))
        return best

    return kernel


def _nullif(value: Datum, other: Datum) -> Datum:
    same = pc.fill_null(compare("=", value, other), scalar(False, pa.bool_()))
    return pc.if_else(same, pa.scalar(None, value.type), value)


def _real(name: str, kernel: Callable[..., Any]) -> FunctionSpec:
    return FunctionSpec(name, ("real",), like_first, kernel)


NUMBER_FUNCTIONS = (
    FunctionSpec("abs", ("number",), like_first, pc.abs_checked, can_fail=True),
    FunctionSpec("round", ("number", "int?"), _whole_type, _rounding("half_towards_infinity"), can_fail=True),
    FunctionSpec("trunc", ("number", "int?"), _whole_type, _rounding("towards_zero"), can_fail=True),
    FunctionSpec("ceil", ("number",), _whole_type, _towards(pc.ceil)),
    FunctionSpec("floor", ("number",), _whole_type, _towards(pc.floor)),
    FunctionSpec("power", ("double", "double"), always(FLOAT64), pc.power),
    FunctionSpec("log", ("real", "real?"), like_first, _log),
    FunctionSpec("atan2", ("double", "double"), always(FLOAT64), pc.atan2),
    FunctionSpec("pi", (), always(FLOAT64), lambda: pa.array([math.pi])),
    FunctionSpec("isnan", ("real",), TRUTH, pc.is_nan),
    FunctionSpec("iszero", ("number",), TRUTH, _is_zero),
    FunctionSpec("nanvl", ("double", "double"), always(FLOAT64), _nanvl),
    FunctionSpec("greatest", ("same", "same*"), like_first, _extreme(">")),
    FunctionSpec("least", ("same", "same*"), like_first, _extreme("<")),
    FunctionSpec("nullif", ("same", "same"), like_first, _nullif),
    _real("sqrt", _sqrt),
    _real("exp", pc.exp),
    _real("ln", pc.ln),
    _real("log2", pc.log2),
    _real("log10", pc.log10),
    _real("signum", pc.sign),
    _real("sin", pc.sin),
    _real("cos", pc.cos),
    _real("tan", pc.tan),
    _real("asin", pc.asin),
    _real("acos", pc.acos),
    _real("atan", pc.atan),
)
