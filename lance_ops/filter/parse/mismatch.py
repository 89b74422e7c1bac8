"""Types that do not fit: what to write instead."""

import pyarrow as pa
import pyarrow.types as pat
from sqlglot import exp

from lance_ops.filter.expression import Expression, Literal
from lance_ops.filter.types.coercion import is_bytes, is_number, is_text
from lance_ops.filter.types.sql_names import sql_type

_LONGEST = 60
"""Characters of an expression that a hint repeats."""


def unfit(left: Expression, right: Expression) -> str:
    """Two values that have no comparison, in words."""
    return f"a value of type {left.type} cannot be compared with one of type {right.type}"


def remedy(left: Expression, right: Expression) -> str:
    """Return a hint for two values of incompatible types."""
    if pat.is_nested(left.type) or pat.is_nested(right.type):
        return "lists and structs have no comparisons"
    for one, other in ((left, right), (right, left)):
        if (quoted := _quoted(one.type)) is not None and is_number(other.type):
            ticks = None if pat.is_time(one.type) else _cast(one, pa.int64())
            number = "" if ticks is None else f", or {ticks} for its number"
            return f"{quoted}{number}; without quotes, 2024-05-01 is 2018"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and one.value is not None and not isinstance(other, Literal):
            return _beside_constant(one, other)
    for one, other in ((left, right), (right, left)):
        if (found := _cast(one, other.type)) is not None and is_text(one.type):
            return f"write {found}"
    return f"write {_cast(left, right.type) or _cast(right, left.type) or 'a CAST of one of them'}"


def _beside_constant(constant: Literal, other: Expression) -> str:
    if is_text(constant.type) and is_bytes(other.type):
        return "write the bytes in hexadecimal digits, such as x'00ff'"
    if is_text(constant.type) and is_number(other.type):
        return f"write the number without quotes, or {_cast(constant, other.type) or 'a CAST'}"
    found = _cast(other, constant.type)
    if is_text(other.type):
        return f"write the constant in quotes, or {found}" if found else "write the constant in quotes"
    return f"write {found or _cast(constant, other.type) or 'a CAST of one of them'}"


def _cast(expression: Expression, target: pa.DataType) -> str | None:
    name, text = sql_type(target), expression.to_sql()
    return None if name is None or len(text) > _LONGEST else f"CAST({text} AS {name})"


def _quoted(data_type: pa.DataType) -> str | None:
    if pat.is_date(data_type):
        return "write DATE 'YYYY-MM-DD'"
    if pat.is_timestamp(data_type):
        return "write TIMESTAMP 'YYYY-MM-DD HH:MM:SS'"
    return "write the time in quotes, 'HH:MM:SS'" if pat.is_time(data_type) else None


def bare_date(node: exp.Expr) -> str | None:
    """The text of a date that lacks its quotes, which is a subtraction: `2024-05-01`; None for all else."""
    numbers: list[str] = []
    rest = node.unnest()
    while isinstance(rest, exp.Sub):
        numbers.insert(0, rest.args["expression"].name if _is_number(rest.args["expression"]) else "")
        rest = rest.this.unnest()
    numbers.insert(0, rest.name if _is_number(rest) else "")
    if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
        return None
    year, month, day = numbers
    fits = len(year) == 4 and len(month) <= 2 and len(day) <= 2
    return f"{year}-{month:0>2}-{day:0>2}" if fits else None


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string
