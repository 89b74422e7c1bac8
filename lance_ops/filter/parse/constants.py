"""Resolve the constants of a filter: numbers, strings, binary, intervals, lists.

An untyped number or string gets the type of the column that it is compared with, if possible: `price = 0.1`
on a float32 column selects the float32 nearest to 0.1, and `day = '2024-01-01'` compares dates.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pat
from sqlglot import exp

from lance_ops.errors import PredicateError
from lance_ops.filter.evaluate.evaluate import constant
from lance_ops.filter.expression import Coerce, Expression, Function, Literal
from lance_ops.filter.literals import exact_decimal, number_as, number_literal
from lance_ops.filter.parse.chains import Constant, TokenType
from lance_ops.filter.parse.scope import Scope
from lance_ops.filter.types.casting import can_cast
from lance_ops.filter.types.coercion import BOOL, INTERVAL, NULL, UTF8, reads_as
from lance_ops.filter.types.texts import loses_digits, read_interval


def is_untyped(node: exp.Expr) -> bool:
    """Return whether the node is an untyped number or string."""
    inner = node.unnest()
    return isinstance(inner.this if isinstance(inner, exp.Neg) else inner, exp.Literal)


def resolve_literal(scope: Scope, node: exp.Literal, hint: pa.DataType | None) -> Expression:
    """Return a number or a text."""
    read = _text if node.is_string else number
    return read(scope, node.name, hint, node.meta.get("start"))


def resolve_constant(scope: Scope, item: Constant, hint: pa.DataType | None) -> Literal:
    """Return a constant of an IN list."""
    kind = item.kind
    if kind is TokenType.NUMBER:
        return number(scope, item.text, hint, item.start)
    if kind is TokenType.STRING:
        return _text(scope, item.text, hint, item.start)
    if kind is TokenType.HEX_STRING:
        return _bytes(scope, item.text, item.start)
    return Literal(None, NULL) if kind is TokenType.NULL else Literal(kind is TokenType.TRUE, BOOL)


def number(scope: Scope, text: str, hint: pa.DataType | None, start: int | None) -> Literal:
    """Return a number, with its sign."""
    try:
        found = None if hint is None else number_as(text, hint)
        if found is None and hint is not None and pat.is_decimal(hint):
            found = exact_decimal(text)
        return found or number_literal(text)
    except (ValueError, ArithmeticError):
        scope.fail(f"{text!r} is not a number", start, "write a number without quotes, or NULL")


def _text(scope: Scope, text: str, hint: pa.DataType | None, start: int | None) -> Literal:
    if start is not None and scope.syntax.sql[start] == '"' and text in scope.schema.names:
        scope.fail(
            f'"{text}" in double quotes is a string, and there is a column of this name',
            start,
            f"write `{text}` for the column, '{text}' for the string",
        )
    literal = Literal(text, UTF8)
    return literal if hint is None or not reads_as(hint) else _read(scope, literal, hint, start)


def _read(scope: Scope, literal: Literal, target: pa.DataType, start: int | None) -> Literal:
    try:
        return constant(Coerce(literal, target))
    except PredicateError:
        is_time = pat.is_date(target) or pat.is_timestamp(target)
        hint = "write 'YYYY-MM-DD' or 'YYYY-MM-DD HH:MM:SS', a day of the calendar" if is_time else None
        scope.fail(f"{literal.value!r} does not read as {target}", start, hint)


def resolve_assigned(scope: Scope, node: exp.Expr, target: pa.DataType) -> Expression:
    """Return a constant that a column of type `target` is set to; text is read as a value of any type."""
    inner = node.unnest()
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return scope.expression(node, target)
    text, start = inner.name, inner.meta.get("start")
    literal = scope.expression(node)
    if not isinstance(literal, Literal) or target in (UTF8, NULL) or not can_cast(UTF8, target):
        return literal
    if pat.is_integer(target) or pat.is_decimal(target):
        # As if it stood without quotes: nothing is rounded.
        return number(scope, text, target, start)
    found = _read(scope, literal, target, start)
    if loses_digits(text, target):
        scope.fail(
            f"{text!r} does not fit {target}: digits of its time would be cut off",
            start,
            "write no more digits than the type of the column has",
        )
    return found


def resolve_hex(scope: Scope, node: exp.HexString, _hint: pa.DataType | None) -> Expression:
    """`x'6162'`."""
    return _bytes(scope, node.name, node.meta.get("start"))


def _bytes(scope: Scope, digits: str, start: int | None) -> Literal:
    try:
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"), pa.binary())
    except ValueError:
        scope.fail(f"{digits!r} are not hexadecimal digits", start)


def resolve_boolean(_scope: Scope, node: exp.Boolean, _hint: pa.DataType | None) -> Expression:
    """TRUE or FALSE."""
    return Literal(bool(node.this), BOOL)


def resolve_null(_scope: Scope, _node: exp.Null, _hint: pa.DataType | None) -> Expression:
    """NULL."""
    return Literal(None, NULL)


def resolve_interval(scope: Scope, node: exp.Interval, _hint: pa.DataType | None) -> Expression:
    """`INTERVAL '1 day'`."""
    unit = node.args.get("unit")
    text = f"{node.this.name} {unit.name}" if unit is not None else node.this.name
    try:
        return Literal(read_interval(text), INTERVAL)
    except ValueError as error:
        scope.fail(str(error), node)


def resolve_list(scope: Scope, node: exp.Array, _hint: pa.DataType | None) -> Expression:
    """`[1, 2]`."""
    return list_of(scope, [scope.expression(item) for item in node.expressions], node)


def list_of(scope: Scope, items: Sequence[Expression], node: exp.Expr) -> Expression:
    """Return a list of values that have a type in common: a constant, where they are constants."""
    coerced, common = scope.together(items, node)
    values = tuple(item.value for item in coerced if isinstance(item, Literal))
    if len(values) < len(coerced):
        return Function("make_array", tuple(coerced), pa.list_(common))
    return Literal(values, pa.list_(common))
