"""Conditions of Spark's planner, sent as JSON by the classes in Java (`Conditions.java`).

Java sends a condition only if all its columns are exact (`facts`) and all its constants have the type of
their column; Spark does not evaluate it again. So each one is translated, or the query fails.
"""

import base64
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from lance_ops.errors import UnsupportedError
from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.junctions import all_of, any_of, negated
from lance_ops.filter.predicates import Comparison, InList, IsNull
from lance_ops.filter.types.coercion import plain_type
from lance_ops.spark.pushdown import compare_floats, is_nan

_TEXT = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}
_COMPARISONS = frozenset({"=", "<", "<=", ">", ">="})


def parse_conditions(conditions: Sequence[Any], schema: pa.Schema) -> tuple[Expression, ...]:
    """Translate conditions.

    Args:
        conditions: Lists of an operator and its operands: conditions, or the path of a column and constants
            as strings.
        schema: Schema of the dataset.

    Raises:
        UnsupportedError: An operator is unknown.

    Examples:
        >>> schema = pa.schema({"id": pa.int64()})
        >>> [str(found) for found in parse_conditions([["NOT", ["IN", ["id"], "1", "2"]]], schema)]
        ['id NOT IN (1, 2)']
    """
    return tuple(_parse(item, schema) for item in conditions)


def _parse(item: Sequence[Any], schema: pa.Schema) -> Expression:
    op, *parts = item
    if op in ("AND", "OR"):
        both = tuple(_parse(part, schema) for part in parts)
        return all_of(both) if op == "AND" else any_of(both)
    if op == "NOT":
        return negated(_parse(parts[0], schema))
    column = _column(parts[0], schema)
    values = [None if text is None else _value(text, column.type) for text in parts[1:]]
    if op in ("IS_NULL", "IS_NOT_NULL"):
        return IsNull(column) if op == "IS_NULL" else negated(IsNull(column))
    if op == "IN":
        return _in_list(column, values)
    literal = Literal(values[0], column.type)
    if op in _TEXT:
        return Function(_TEXT[op], (column, literal), pa.bool_())
    if op == "<=>":
        # Never null, which a surrounding negation would show.
        return all_of((negated(IsNull(column)), _compared("=", column, literal)))
    if op in _COMPARISONS:
        return _compared(op, column, literal)
    raise UnsupportedError(
        f"unknown operator {op!r} in a condition from Spark",
        field="filter",
        hint="the driver and the class path of Spark have different versions of lance_ops: install one",
    )


def _column(path: Sequence[str], schema: pa.Schema) -> Column:
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    return Column(tuple(path), plain_type(field.type))


def _compared(op: str, column: Column, literal: Literal) -> Expression:
    is_float = pat.is_floating(column.type)
    return compare_floats(column, op, literal) if is_float else Comparison(op, column, literal)


def _in_list(column: Column, values: Sequence[Any]) -> Expression:
    known = [value for value in values if value is not None]
    # No float is equal to NaN in a list.
    numbers = [value for value in known if value == value]
    listed = InList(column, tuple(dict.fromkeys(numbers)), has_null=len(known) < len(values))
    if len(numbers) == len(known):
        return listed
    return any_of((listed, is_nan(column))) if numbers or listed.has_null else is_nan(column)


def _value(text: str, kind: pa.DataType) -> Any:
    """Return a constant as the value of a `Literal`: dates as days, timestamps as microseconds."""
    if pat.is_boolean(kind):
        return text == "true"
    if pat.is_float32(kind):
        return float(np.float32(text))
    if pat.is_floating(kind):
        return float(text)
    if pat.is_decimal(kind):
        return Decimal(text).quantize(Decimal((0, (1,), -kind.scale)), context=_DIGITS)
    if pat.is_string(kind) or pat.is_large_string(kind):
        return text
    if pat.is_binary(kind) or pat.is_large_binary(kind):
        return base64.b64decode(text)
    return int(text)


_DIGITS = Context(prec=80)
