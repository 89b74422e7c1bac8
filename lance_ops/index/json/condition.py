"""Conditions on documents as conditions on the values at one path of them."""

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.functions.json import MEMBER_FUNCTIONS, member_value
from lance_ops.filter.functions.json_path import member_names
from lance_ops.filter.predicates import Comparison, InList


def value_condition(
    condition: Expression, path: str, value_type: pa.DataType
) -> tuple[Expression, bool] | None:
    """Translate a condition on a column of documents to the values at a path.

    Args:
        condition: A condition on that column.
        path: Of the values.
        value_type: Of the values.

    Returns:
        A condition on a column of these values, and whether it is equivalent rather than weaker; None without
        one.
    """
    try:
        names = member_names(path)
    except PredicateError:
        return None
    extracted = _extracted(condition, path, names, value_type)
    if extracted is not None:
        return extracted, False
    if not names or any(name.isdigit() for name in names):
        # To the functions of members a number is a position, too.
        return None
    rewritten = _rewrite(condition, names, value_type)
    columns = [node for node in rewritten.walk() if isinstance(node, Column)]
    return (rewritten, True) if all(column.type == value_type for column in columns) else None


def _rewrite(expression: Any, names: tuple[str, ...], value_type: pa.DataType) -> Any:
    """With a column of values for every function that gives the values."""
    if isinstance(expression, tuple):
        return tuple(_rewrite(part, names, value_type) for part in expression)
    if not isinstance(expression, Expression):
        return expression
    column = _member(expression, names, MEMBER_FUNCTIONS[value_type])
    if column is not None:
        return Column(column.path, value_type)
    parts = {field.name: getattr(expression, field.name) for field in fields(expression) if field.init}  # type: ignore[arg-type]
    changed = {
        name: _rewrite(part, names, value_type)
        for name, part in parts.items()
        if isinstance(part, Expression) or (isinstance(part, tuple) and name != "values")
    }
    return replace(expression, **changed)  # type: ignore[type-var]


def _member(expression: Expression, names: tuple[str, ...], function: str) -> Column | None:
    """Return the column of documents of which a function gives the member that is reached by some names."""
    match expression:
        case Function(name, (inner, Literal(str(key)))) if name == function and key == names[-1]:
            if len(names) > 1:
                return _member(inner, names[:-1], "json_get")
            return inner if isinstance(inner, Column) else None
    return None


def _extracted(
    condition: Expression, path: str, names: tuple[str, ...] | None, value_type: pa.DataType
) -> Expression | None:
    """Filter for compared values as strings: equal strings are equal values, but not vice versa."""
    match condition:
        case Comparison("=", Function() as function, Literal(str(text))):
            texts: tuple[str, ...] = (text,)
        case InList(Function() as function, texts):
            pass
        case _:
            return None
    if function.name != "json_extract":
        return None
    match function.arguments:
        case (Column() as column, Literal(str(asked))):
            pass
        case _:
            return None
    same = asked == path or (names is not None and names == member_names(asked))
    if not same:
        return None
    try:
        found = [member_value(text, value_type) for text in texts]
    except (ValueError, RecursionError):
        return None
    values = tuple(dict.fromkeys(value for value in found if value is not None))
    return InList(Column(column.path, value_type), values) if values else None
