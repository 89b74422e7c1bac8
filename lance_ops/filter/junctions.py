"""Junctions: how conditions are joined and negated, in canonical form."""

from typing import Any

from lance_ops.filter.expression import Column, Expression, Literal
from lance_ops.filter.predicates import OPPOSITES, And, Comparison, InList, Not, Or
from lance_ops.filter.types.coercion import BOOL

SHORTEST_LIST = 16
"""Number of equalities that become an IN list; fewer remain as written by the user."""


def all_of(operands: tuple[Expression, ...]) -> Expression:
    """Return the conjunction of `operands`, flat; the only operand itself if there is one."""
    flat = tuple(
        part
        for operand in operands
        for part in (operand.operands if isinstance(operand, And) else (operand,))
    )
    flat = _with_lists(flat, "<>")
    return flat[0] if len(flat) == 1 else And(flat)


def any_of(operands: tuple[Expression, ...]) -> Expression:
    """Return the disjunction of `operands`, flat; the only operand itself if there is one."""
    flat = tuple(
        part for operand in operands for part in (operand.operands if isinstance(operand, Or) else (operand,))
    )
    flat = _with_lists(flat, "=")
    return flat[0] if len(flat) == 1 else Or(flat)


def _with_lists(operands: tuple[Expression, ...], op: str) -> tuple[Expression, ...]:
    """Replace many equalities of one column by an IN list: one lookup instead of a comparison for each."""
    if len(operands) < SHORTEST_LIST:
        return operands
    columns = [_compared_column(operand, op) for operand in operands]
    values: dict[Column, list[Any]] = {}
    for column, value in filter(None, columns):
        values.setdefault(column, []).append(value)
    if all(len(found) < SHORTEST_LIST for found in values.values()):
        return operands
    kept: list[Expression] = []
    placed: set[Column] = set()
    for operand, compared in zip(operands, columns, strict=True):
        if compared is None or len(values[compared[0]]) < SHORTEST_LIST:
            kept.append(operand)
        elif compared[0] not in placed:
            # In the place of the first.
            placed.add(compared[0])
            listed = InList(compared[0], tuple(dict.fromkeys(values[compared[0]])))
            kept.append(listed if op == "=" else Not(listed))
    return tuple(kept)


def _compared_column(expression: Expression, op: str) -> tuple[Column, Any] | None:
    """The column that it compares with a constant by this operator, and the constant, if it is not null."""
    if not isinstance(expression, Comparison) or expression.op != op:
        return None
    left, right = expression.left, expression.right
    if not isinstance(left, Column) or not isinstance(right, Literal) or right.value is None:
        return None
    return left, right.value


def negated(expression: Expression) -> Expression:
    """Return the canonical negation in three-valued logic."""
    match expression:
        case Not(operand):
            return operand
        case Comparison(op, left, right):
            return Comparison(OPPOSITES[op], left, right)
        case And(operands):
            return any_of(tuple(negated(operand) for operand in operands))
        case Or(operands):
            return all_of(tuple(negated(operand) for operand in operands))
        case Literal(value, type) if type == BOOL:
            return Literal(None if value is None else not value, BOOL)
        case _:
            return Not(expression)


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of the outermost AND; the expression itself if there is none."""
    return expression.operands if isinstance(expression, And) else (expression,)
