"""Rendering: canonical SQL of a filter tree.

The text serves three readers: a person, this package (the text parses back to an equal tree) and the peer.
For the last one a few constructs take an unusual form, since its parser knows them only inside a function
call: CASE and INTERVAL stand in a `coalesce` of one argument, and some function names stand in backticks.
"""

import re
from collections.abc import Callable
from typing import Any

from sqlglot.tokens import Tokenizer

from lance_ops.filter.expression import (
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Coerce,
    Column,
    Comparison,
    Expression,
    Function,
    InList,
    IsNull,
    IsTruth,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    sql_of,
)
from lance_ops.filter.literals import render_bare, render_literal
from lance_ops.filter.types.arrow_names import name_of_type
from lance_ops.filter.types.sql_names import sql_type

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_KEYWORDS = {word for word in Tokenizer.KEYWORDS if word.isalpha()} | {
    "ARRAY",
    "EXISTS",
    "INTERVAL",
    "POSITION",
}
_BACKTICKED_FUNCTIONS = frozenset({"ceil", "floor", "substr"})


@sql_of.register
def render(expression: Expression) -> str:
    """SQL of `expression`; see `Expression.to_sql`."""
    return _RENDERERS[type(expression)](expression)


def render_column(path: tuple[str, ...]) -> str:
    """A column reference, in backticks where the name is not a plain word."""
    return ".".join(_name(part) for part in path)


def _name(part: str) -> str:
    if _PLAIN_NAME.fullmatch(part) and part.upper() not in _KEYWORDS:
        return part
    return f"`{part.replace('`', '``')}`"


def _operand(expression: Expression) -> str:
    """An operand of an operator, in parentheses unless it is one word or one call."""
    inner = _uncoerced(expression)
    text = render(inner)
    whole = isinstance(inner, (Column, Literal, Function, Cast, Coalesce, Case))
    return f"({text})" if not whole or (isinstance(inner, Function) and inner.name == "||") else text


def _uncoerced(expression: Expression) -> Expression:
    while isinstance(expression, Coerce):
        expression = expression.operand
    return expression


def _beside(neighbour: Expression, value: Any, data_type: Any) -> str:
    """A constant compared with `neighbour`, in the spelling that takes `data_type` when it is read again."""
    if isinstance(neighbour, Column):
        return render_bare(value, data_type)
    text = render_literal(value, data_type)
    typed = text.startswith(("CAST", "DATE", "TIMESTAMP", "NULL", "coalesce", "arrow_cast"))
    if not isinstance(_uncoerced(neighbour), Column) or typed or sql_type(data_type) is None:
        return text
    # A bare constant would take the type of the column, or be refused by the peer.
    return f"CAST({text} AS {sql_type(data_type)})"


def _side(expression: Expression, neighbour: Expression) -> str:
    if isinstance(expression, Literal):
        return _beside(neighbour, expression.value, expression.type)
    return _operand(expression)


def _comparison(node: Comparison) -> str:
    return f"{_side(node.left, node.right)} {node.op} {_side(node.right, node.left)}"


def _in_list(node: InList, word: str = "IN") -> str:
    values = [_beside(node.operand, value, node.operand.type) for value in node.values]
    if node.has_null:
        values.append("NULL")
    return f"{_operand(node.operand)} {word} ({', '.join(values)})"


def _like(node: Like, word: str = "") -> str:
    operator = "ILIKE" if node.ignore_case else "LIKE"
    return f"{_operand(node.operand)} {word}{operator} {_operand(node.pattern)}"


def _is_truth(node: IsTruth, word: str = "") -> str:
    return f"{_operand(node.operand)} IS {word}{'TRUE' if node.value else 'FALSE'}"


def _not(node: Not) -> str:
    match node.operand:
        case InList() as inner:
            return _in_list(inner, "NOT IN")
        case Like() as inner:
            return _like(inner, "NOT ")
        case IsNull(operand):
            return f"{_operand(operand)} IS NOT NULL"
        case IsTruth() as inner:
            return _is_truth(inner, "NOT ")
        case inner:
            return f"NOT {_operand(inner)}"


def _junction(operands: tuple[Expression, ...], word: str) -> str:
    return f" {word} ".join(f"({render(part)})" if _is_open(part) else render(part) for part in operands)


def _is_open(part: Expression) -> bool:
    """Whether an operand of AND or OR needs parentheses."""
    # The peer reads everything behind IS DISTINCT FROM as its right side.
    return isinstance(part, (And, Or)) or (isinstance(part, Comparison) and part.op.startswith("IS"))


def _case(node: Case) -> str:
    branches = " ".join(f"WHEN {render(when)} THEN {render(then)}" for when, then in node.branches)
    return f"coalesce(CASE {branches} ELSE {render(node.otherwise)} END)"


def _function(node: Function) -> str:
    if node.name == "array_element":
        array, index = node.arguments
        return f"{_operand(array)}[{render(index)}]"
    if node.name == "||":
        return " || ".join(_operand(side) for side in node.arguments)
    name = f"`{node.name}`" if node.name in _BACKTICKED_FUNCTIONS else node.name
    return f"{name}({', '.join(render(argument) for argument in node.arguments)})"


def _cast(node: Cast) -> str:
    name = sql_type(node.type)
    if name is None and not node.lenient:
        return f"arrow_cast({render(node.operand)}, '{name_of_type(node.type)}')"
    return f"{'TRY_CAST' if node.lenient else 'CAST'}({render(node.operand)} AS {name})"


_RENDERERS: dict[type[Expression], Callable[[Any], str]] = {
    Column: lambda node: render_column(node.path),
    Literal: lambda node: render_literal(node.value, node.type),
    Coerce: lambda node: render(node.operand),
    Cast: _cast,
    Negative: lambda node: f"- {_operand(node.operand)}",
    Arithmetic: lambda node: f"{_operand(node.left)} {node.op} {_operand(node.right)}",
    Coalesce: lambda node: f"coalesce({', '.join(render(operand) for operand in node.operands)})",
    Case: _case,
    Function: _function,
    Comparison: _comparison,
    InList: _in_list,
    Like: _like,
    IsNull: lambda node: f"{_operand(node.operand)} IS NULL",
    IsTruth: _is_truth,
    Not: _not,
    And: lambda node: _junction(node.operands, "AND"),
    Or: lambda node: _junction(node.operands, "OR"),
}
