"""Translation of Spark's pushed filters to filters of a dataset.

Both sides agree on nulls, on the two zeros and on the order of strings, so Spark need not evaluate a
translated filter again. For Spark all NaN are equal and above all numbers. Filters order NaN by their bits,
those with the sign bit below all numbers, so that translated comparisons handle NaN separately. Spark
compares the values that it reads: where those are rounded (`types`), the comparison uses the bounds of the
values rounded to it. Filters without an exact translation are left to Spark.
"""

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import datasource as spark

from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.junctions import all_of, any_of, negated
from lance_ops.filter.literals import nearest_float
from lance_ops.filter.predicates import Comparison, InList, IsNull
from lance_ops.filter.types.coercion import is_text, plain_type

_EPOCH_DAY = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_INT64 = range(-(2**63), 2**63)

_COMPARISONS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "=",
    spark.EqualNullSafe: "=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
}
_TEXT_FUNCTIONS: dict[type[spark.Filter], str] = {
    spark.StringStartsWith: "starts_with",
    spark.StringEndsWith: "ends_with",
    spark.StringContains: "contains",
}


class _NoTranslationError(Exception):
    """The filter is left to Spark."""


def push_filters(
    filters: Iterable[spark.Filter], schema: pa.Schema
) -> tuple[tuple[Expression, ...], tuple[spark.Filter, ...]]:
    """Translate filters where possible.

    Args:
        filters: From Spark; all of them must hold.
        schema: Schema of the dataset.

    Returns:
        The translated filters, and those that Spark must evaluate.
    """
    pushed, left = [], []
    for item in filters:
        try:
            pushed.append(_translate(item, schema))
        except _NoTranslationError:
            left.append(item)
    return tuple(pushed), tuple(left)


def _translate(item: Any, schema: pa.Schema) -> Expression:
    if isinstance(item, spark.Not):
        return negated(_translate(item.child, schema))
    column = _find_column(item.attribute, schema)
    if isinstance(item, spark.IsNull):
        return IsNull(column)
    if isinstance(item, spark.IsNotNull):
        return negated(IsNull(column))
    if isinstance(item, spark.In):
        return _translate_in(column, item.value)
    if type(item) in _TEXT_FUNCTIONS:
        if not is_text(column.type):
            raise _NoTranslationError
        return Function(_TEXT_FUNCTIONS[type(item)], (column, Literal(item.value, column.type)), pa.bool_())
    op = _COMPARISONS.get(type(item))
    if op is None:
        raise _NoTranslationError
    if isinstance(item, spark.EqualNullSafe):
        if item.value is None:
            return IsNull(column)
        # Never null, which a surrounding negation would show.
        return all_of((negated(IsNull(column)), _compare(column, op, item.value)))
    return _compare(column, op, item.value)


def _find_column(path: tuple[str, ...], schema: pa.Schema) -> Column:
    fields: Iterable[pa.Field] = schema
    kind = None
    for name in path:
        found = [field for field in fields if field.name == name]
        if len(found) != 1:
            raise _NoTranslationError
        kind = plain_type(found[0].type)
        fields = kind if pat.is_struct(kind) else ()
    return Column(tuple(path), kind)


def _translate_in(column: Column, values: tuple[Any, ...]) -> Expression:
    known = [value for value in values if value is not None]
    if not _is_rounded(column.type):
        numbers = [value for value in known if value == value]
        literals = dict.fromkeys(_literal(value, column.type) for value in numbers)
        listed = InList(column, tuple(literals), has_null=len(known) < len(values))
        if len(numbers) == len(known):
            return listed
        return any_of((listed, is_nan(column))) if numbers or listed.has_null else is_nan(column)
    if len(known) < len(values) or not known:
        raise _NoTranslationError
    return any_of(tuple(_compare(column, "=", value) for value in known))


def _compare(column: Column, op: str, value: Any) -> Expression:
    if not _is_rounded(column.type):
        literal = Literal(_literal(value, column.type), column.type)
        if pat.is_floating(column.type):
            return compare_floats(column, op, literal)
        return Comparison(op, column, literal)
    ticks = _spark_ticks(value)
    # Spark reads `ticks` from every stored value from `first` to before `after`.
    first, after = (_first_stored(column.type, number) for number in (ticks, ticks + 1))
    low = Comparison(">=", column, Literal(first, column.type))
    below = Comparison("<", column, Literal(first, column.type))
    high = Comparison(">=", column, Literal(after, column.type))
    up_to = Comparison("<", column, Literal(after, column.type))
    if op == "=":
        return all_of((low, up_to))
    return {"<": below, "<=": up_to, ">": high, ">=": low}[op]


def compare_floats(column: Column, op: str, literal: Literal) -> Expression:
    """Return a comparison in which every NaN is equal to NaN and above all numbers."""
    nan = is_nan(column)
    if literal.value == literal.value:
        compared = Comparison(op, column, literal)
        if op in ("<", "<="):
            return all_of((compared, negated(nan)))
        return any_of((compared, nan)) if op in (">", ">=") else compared
    if op in ("=", ">="):
        return nan
    if op == "<":
        return negated(nan)
    # Constant, but null for null.
    both = (nan, negated(nan))
    return any_of(both) if op == "<=" else all_of(both)


def is_nan(column: Column) -> Expression:
    """Return the condition that a number is NaN; null for null."""
    return Function("isnan", (column,), pa.bool_())


# Values


def _is_rounded(kind: pa.DataType) -> bool:
    """Return whether Spark's value comes from the stored one by a change of unit, perhaps rounded down."""
    return bool(pat.is_date64(kind) or (pat.is_timestamp(kind) and kind.unit != "us"))


def _first_stored(kind: pa.DataType, ticks: int) -> int:
    """Return the least stored value that Spark reads as `ticks` or more: days of dates, or microseconds."""
    stored, shown = (86_400_000, 1) if pat.is_date64(kind) else (_TICKS_PER_SECOND[kind.unit], 1_000_000)
    first = -(-ticks * stored // shown)
    if first not in _INT64:
        raise _NoTranslationError
    return first


def _spark_ticks(value: Any) -> int:
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(value, dt.date):
        return (value - _EPOCH_DAY).days
    raise _NoTranslationError


def _literal(value: Any, kind: pa.DataType) -> Any:
    """Return a value from Spark as a `Literal` of the column's type, if that is exact."""
    if pat.is_boolean(kind) and isinstance(value, bool):
        return value
    if pat.is_integer(kind) and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _integer(value, kind)
    if (pat.is_float32(kind) or pat.is_float64(kind)) and isinstance(value, float):
        if nearest_float(value, kind) == value or value != value:
            return value
    elif pat.is_decimal(kind) and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _decimal(Decimal(value), kind)
    elif is_text(kind) and isinstance(value, str):
        return value
    elif (pat.is_binary(kind) or pat.is_large_binary(kind)) and isinstance(value, bytes | bytearray):
        return bytes(value)
    elif (pat.is_timestamp(kind) and isinstance(value, dt.datetime)) or (
        pat.is_date32(kind) and isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    ):
        return _spark_ticks(value)
    raise _NoTranslationError


def _integer(value: int | Decimal, kind: pa.DataType) -> int:
    number = int(value)
    signed = pat.is_signed_integer(kind)
    low, high = (
        (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1)) if signed else (0, 2**kind.bit_width)
    )
    if number != value or not low <= number < high:
        raise _NoTranslationError
    return number


def _decimal(value: Decimal, kind: pa.DataType) -> Decimal:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent > kind.scale:
        raise _NoTranslationError
    digits += (0,) * (exponent + kind.scale)
    if len(digits) > kind.precision:
        raise _NoTranslationError
    return Decimal((sign, digits, -kind.scale))
