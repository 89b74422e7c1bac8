"""Type coercion: the common Arrow type of two operands.

The rules are those of pylance's query engine, because a predicate that both libraries may evaluate has to
select the same rows in both. A `None` result means that the operands have no common type; the caller raises
the error.
"""

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.types as pat

BOOL = pa.bool_()
INT64 = pa.int64()
UINT64 = pa.uint64()
FLOAT64 = pa.float64()
UTF8 = pa.utf8()
NULL = pa.null()
INTERVAL = pa.month_day_nano_interval()
JSON = pa.json_(pa.utf8())
"""JSON documents: text while they are computed with, but only functions of JSON take them."""

_MAX_DECIMAL128 = 38
_MAX_DECIMAL256 = 76
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNITS = ("s", "ms", "us", "ns")
# Decimal digits that hold every value of the type, and its scale; the floating-point rows are pylance's
# choice.
_AS_DECIMAL = {
    pa.int8(): (3, 0),
    pa.uint8(): (3, 0),
    pa.int16(): (5, 0),
    pa.uint16(): (5, 0),
    pa.int32(): (10, 0),
    pa.uint32(): (10, 0),
    pa.int64(): (20, 0),
    pa.uint64(): (20, 0),
    pa.float16(): (6, 3),
    pa.float32(): (14, 7),
    pa.float64(): (30, 15),
}


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Strip what only concerns storage: dictionaries, run-ends, views, extension types, narrow decimals."""
    if isinstance(data_type, pa.JsonType):
        return JSON
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    if pat.is_string_view(data_type):
        return pa.utf8()
    if pat.is_binary_view(data_type):
        return pa.binary()
    if pat.is_decimal(data_type) and not pat.is_decimal256(data_type):
        return pa.decimal128(data_type.precision, data_type.scale)
    return data_type


def physical_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type that values have while they are computed with: Arrow computes with no half floats."""
    if data_type == JSON:
        return UTF8
    return pa.float32() if data_type == pa.float16() else data_type


def is_text(data_type: pa.DataType) -> bool:
    """Return whether it is a string type, of either offset width."""
    return bool(pat.is_string(data_type) or pat.is_large_string(data_type))


def is_bytes(data_type: pa.DataType) -> bool:
    """Return whether it is a binary type, of any layout."""
    return bool(
        pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_fixed_size_binary(data_type)
    )


def is_number(data_type: pa.DataType) -> bool:
    """Return whether it is an integer, floating-point or decimal type."""
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type))


def is_list(data_type: pa.DataType) -> bool:
    """Return whether it is a list type of any layout."""
    return bool(pat.is_list(data_type) or pat.is_large_list(data_type) or pat.is_fixed_size_list(data_type))


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Return the narrower of the two wide decimal types that has `precision` digits, capped at 76."""
    if precision <= _MAX_DECIMAL128:
        return pa.decimal128(precision, scale)
    return pa.decimal256(min(precision, _MAX_DECIMAL256), scale)


def as_decimal(data_type: pa.DataType) -> pa.DataType | None:
    """Return the decimal type of a number type that is combined with a decimal."""
    if pat.is_decimal(data_type):
        return data_type
    digits = _AS_DECIMAL.get(data_type)
    return None if digits is None else pa.decimal128(*digits)


def common_number_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which two numbers are compared, and in which non-decimals are computed with."""
    if left == right:
        return left
    if pat.is_decimal(left) or pat.is_decimal(right):
        return _common_decimal(as_decimal(left), as_decimal(right))
    for wider in (FLOAT64, pa.float32(), pa.float16()):
        if wider in (left, right):
            return wider
    return _common_integer(left, right)


def _common_decimal(left: pa.DataType | None, right: pa.DataType | None) -> pa.DataType | None:
    if left is None or right is None:
        return None
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _capped(left, right, whole + scale, scale)


def _capped(left: pa.DataType, right: pa.DataType, precision: int, scale: int) -> pa.DataType:
    """Return a decimal as wide as the operands can be; a value beyond it is an error, as in pylance."""
    if pat.is_decimal256(left) or pat.is_decimal256(right):
        return pa.decimal256(min(precision, _MAX_DECIMAL256), min(scale, _MAX_DECIMAL256))
    return pa.decimal128(min(precision, _MAX_DECIMAL128), min(scale, _MAX_DECIMAL128))


def _common_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the narrowest common integer type; 64-bit unsigned and signed need a decimal."""
    if pat.is_signed_integer(left) == pat.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    signed, unsigned = (left, right) if pat.is_signed_integer(left) else (right, left)
    if unsigned == UINT64:
        return pa.decimal128(20, 0)
    width = max(signed.bit_width, 2 * unsigned.bit_width)
    return next(candidate for candidate in _SIGNED if candidate.bit_width == width)


def _finer_unit(*units: str) -> str:
    return max(units, key=_UNITS.index)


def _common_time(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the common type of two temporal types, with the coarser unit, as in pylance."""
    if pat.is_timestamp(left) and pat.is_timestamp(right):
        return pa.timestamp(min(left.unit, right.unit, key=_UNITS.index), left.tz or right.tz)
    if pat.is_timestamp(left) and pat.is_date(right):
        return pa.timestamp(left.unit)
    if pat.is_date(left) and pat.is_timestamp(right):
        return pa.timestamp(right.unit)
    if pat.is_date(left) and pat.is_date(right):
        return pa.date64()
    if pat.is_time(left) and pat.is_time(right):
        return pa.time64(_finer_unit(left.unit, right.unit, "us"))
    durations = (pat.is_duration(left), pat.is_duration(right))
    if all(durations):
        return pa.duration(_finer_unit(left.unit, right.unit))
    if any(durations) and INTERVAL in (left, right):
        return left if durations[0] else right
    return None


def _common_text(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    return pa.large_utf8() if pa.large_utf8() in (left, right) else UTF8


def _common_bytes(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    large = any(pat.is_large_binary(side) or pat.is_large_string(side) for side in (left, right))
    return pa.large_binary() if large else pa.binary()


def comparison_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which `left` and `right` are compared, or None if they cannot be."""
    if left == right:
        # Arrow compares neither lists nor structs, and two strings may be the same document.
        return None if pat.is_nested(left) or left == JSON else left
    if left == NULL or right == NULL:
        return comparison_type(right, right) if left == NULL else comparison_type(left, left)
    kinds: list[
        tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, pa.DataType], pa.DataType | None]]
    ]
    kinds = [(is_number, common_number_type), (is_text, _common_text), (_is_temporal, _common_time)]
    for belongs, common in kinds:
        if belongs(left) and belongs(right):
            return common(left, right)
    if (is_bytes(left) or is_bytes(right)) and all(is_bytes(side) or is_text(side) for side in (left, right)):
        return _common_bytes(left, right)
    return None


def reads_as(data_type: pa.DataType) -> bool:
    """Return whether strings are parsed beside a value of this type: dates, timestamps and times."""
    return bool(pat.is_date(data_type) or pat.is_timestamp(data_type) or pat.is_time(data_type))


def _is_temporal(data_type: pa.DataType) -> bool:
    return bool(pat.is_temporal(data_type) or pat.is_interval(data_type))


def union_type(types: Iterable[pa.DataType], *, as_text: bool = False) -> pa.DataType | None:
    """The type that the branches of CASE, COALESCE and the like share; it holds the values of all of them.

    Args:
        types: Of the branches.
        as_text: Numbers beside text become text.
    """
    result = NULL
    for data_type in types:
        if result == NULL:
            result = data_type
        elif data_type not in (NULL, result):
            common = _common_value(result, data_type, as_text=as_text)
            if common is None:
                return None
            result = common
    return result


def _common_value(left: pa.DataType, right: pa.DataType, *, as_text: bool) -> pa.DataType | None:
    if pat.is_timestamp(left) and pat.is_timestamp(right):
        # Pylance cuts the values to the coarser unit.
        return pa.timestamp(_finer_unit(left.unit, right.unit), left.tz or right.tz)
    for one, other in ((left, right), (right, left)):
        if as_text and is_text(one) and is_number(other):
            return one
    return comparison_type(left, right)


def arithmetic_types(
    op: str, left: pa.DataType, right: pa.DataType
) -> tuple[pa.DataType, pa.DataType, pa.DataType] | None:
    """Return the operand type and the result type of an arithmetic operator."""
    if NULL in (left, right):
        known = INT64 if left == right else (right if left == NULL else left)
        return arithmetic_types(op, known, known) if is_number(known) else None
    if is_number(left) and is_number(right):
        return _number_arithmetic(op, left, right)
    return _time_arithmetic(op, left, right)


def _number_arithmetic(
    op: str, left: pa.DataType, right: pa.DataType
) -> tuple[pa.DataType, pa.DataType, pa.DataType] | None:
    decimals = pat.is_decimal(left) or pat.is_decimal(right)
    if decimals and (pat.is_floating(left) or pat.is_floating(right)):
        common = left if pat.is_floating(left) else right
        return common, common, common
    if not decimals:
        common = common_number_type(left, right)
        if not pat.is_decimal(common):
            return common, common, common
        # Signed and unsigned 64 bits: both have the width of the wider one.
        left = right = common
    left, right = as_decimal(left), as_decimal(right)
    return left, right, _decimal_result(op, left, right)


def _decimal_result(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if op in "+-":
        scale = max(s1, s2)
        return _capped(left, right, scale + max(p1 - s1, p2 - s2) + 1, scale)
    if op == "*":
        return _capped(left, right, p1 + p2 + 1, s1 + s2)
    if op == "/":
        # Four digits more than the dividend, the rest cut off: pylance's rule.
        scale = min(s1 + 4, _MAX_DECIMAL128)
        return _capped(left, right, max(p1 - s1 + s2 + scale, 1), scale)
    scale = max(s1, s2)
    return _capped(left, right, max(min(p1 - s1, p2 - s2) + scale, 1), scale)


def _time_arithmetic(
    op: str, left: pa.DataType, right: pa.DataType
) -> tuple[pa.DataType, pa.DataType, pa.DataType] | None:
    if op == "+" and not _is_moment(left) and _is_moment(right):
        flipped = _time_arithmetic(op, right, left)
        return None if flipped is None else (flipped[1], flipped[0], flipped[2])
    if op not in "+-":
        return None
    if _is_moment(left) and right == INTERVAL:
        return left, right, left
    if pat.is_date(left) and pat.is_integer(right):
        return left, INT64, left
    if pat.is_timestamp(left) and pat.is_duration(right):
        return left, pa.duration(left.unit), left
    if pat.is_duration(left) and pat.is_duration(right):
        common = _common_time(left, right)
        return common, common, common
    if op == "-" and pat.is_date(left) and pat.is_date(right):
        return pa.date32(), pa.date32(), INT64
    if op == "-" and _is_moment(left) and _is_moment(right):
        if pat.is_timestamp(left) and pat.is_timestamp(right) and bool(left.tz) != bool(right.tz):
            return None
        common = _common_time(left, right)
        return None if common is None else (common, common, pa.duration(common.unit))
    return None


def _is_moment(data_type: pa.DataType) -> bool:
    return bool(pat.is_timestamp(data_type) or pat.is_date(data_type))
