"""Predicates: nodes of the tree that are true, false or null."""

from dataclasses import dataclass
from typing import Any

from lance_ops.filter.expression import Column, Expression, Literal, Predicate, operand_sql, without_coercion
from lance_ops.filter.spelling import render_bare, render_literal
from lance_ops.filter.types.sql_names import sql_type

OPPOSITES = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "IS DISTINCT FROM": "IS NOT DISTINCT FROM",
    "IS NOT DISTINCT FROM": "IS DISTINCT FROM",
}
"""Each comparison and its negation; these hold for NaN too, which has its place in the order of numbers."""


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`left op right` for the keys of `OPPOSITES`; both operands have one type."""

    op: str
    left: Expression
    right: Expression

    def children(self) -> tuple[Expression, ...]:
        """Both operands."""
        return (self.left, self.right)

    def _sql(self) -> str:
        return f"{_side(self.left, self.right)} {self.op} {_side(self.right, self.left)}"


@dataclass(frozen=True, slots=True)
class InList(Predicate):
    """IN with constants: `values` without nulls and doubles, as in `Literal`, of the operand's type.

    `has_null` says that NULL was in the list, so that the answer is never false.
    """

    operand: Expression
    values: tuple[Any, ...]
    has_null: bool = False

    def children(self) -> tuple[Expression, ...]:
        """Return the operand; the values are not nodes, because there may be very many."""
        return (self.operand,)

    def _sql(self) -> str:
        return self._with("IN")

    def negated_sql(self) -> str:
        """SQL of the negation."""
        return self._with("NOT IN")

    def _with(self, word: str) -> str:
        values = [_beside(self.operand, value, self.operand.type) for value in self.values]
        if self.has_null:
            values.append("NULL")
        return f"{operand_sql(self.operand)} {word} ({', '.join(values)})"


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """LIKE, or ILIKE when `ignore_case`; the escape character of the pattern is the backslash."""

    operand: Expression
    pattern: Expression
    ignore_case: bool = False

    def children(self) -> tuple[Expression, ...]:
        """Return the text and the pattern."""
        return (self.operand, self.pattern)

    def _sql(self) -> str:
        return self._with("")

    def negated_sql(self) -> str:
        """SQL of the negation."""
        return self._with("NOT ")

    def _with(self, word: str) -> str:
        operator = "ILIKE" if self.ignore_case else "LIKE"
        return f"{operand_sql(self.operand)} {word}{operator} {operand_sql(self.pattern)}"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """IS NULL."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)

    def _sql(self) -> str:
        return f"{operand_sql(self.operand)} IS NULL"

    def negated_sql(self) -> str:
        """SQL of the negation."""
        return f"{operand_sql(self.operand)} IS NOT NULL"


@dataclass(frozen=True, slots=True)
class IsTruth(Predicate):
    """IS TRUE or IS FALSE."""

    operand: Expression
    value: bool

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)

    def _sql(self) -> str:
        return self._with("")

    def negated_sql(self) -> str:
        """SQL of the negation."""
        return self._with("NOT ")

    def _with(self, word: str) -> str:
        return f"{operand_sql(self.operand)} IS {word}{'TRUE' if self.value else 'FALSE'}"


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """Negation of a node without an opposite."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)

    def _sql(self) -> str:
        inner = self.operand
        return inner.negated_sql() if isinstance(inner, Predicate) else f"NOT {operand_sql(inner)}"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """Conjunction of at least two operands, none of them an And."""

    operands: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        """Return the operands."""
        return self.operands

    def _sql(self) -> str:
        return _junction(self.operands, "AND")


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """Disjunction of at least two operands, none of them an Or."""

    operands: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        """Return the operands."""
        return self.operands

    def _sql(self) -> str:
        return _junction(self.operands, "OR")


def _beside(neighbour: Expression, value: Any, data_type: Any) -> str:
    """A constant compared with `neighbour`, in the spelling that takes `data_type` when it is read again."""
    if isinstance(neighbour, Column):
        return render_bare(value, data_type)
    text = render_literal(value, data_type)
    typed = text.startswith(("CAST", "DATE", "TIMESTAMP", "NULL", "coalesce", "arrow_cast"))
    if not isinstance(without_coercion(neighbour), Column) or typed or sql_type(data_type) is None:
        return text
    # A bare constant would take the type of the column, or be refused by pylance.
    return f"CAST({text} AS {sql_type(data_type)})"


def _side(expression: Expression, neighbour: Expression) -> str:
    if isinstance(expression, Literal):
        return _beside(neighbour, expression.value, expression.type)
    return operand_sql(expression)


def _junction(operands: tuple[Expression, ...], word: str) -> str:
    return f" {word} ".join(f"({part.to_sql()})" if _is_open(part) else part.to_sql() for part in operands)


def _is_open(part: Expression) -> bool:
    """Return whether an operand of AND or OR needs parentheses."""
    # Pylance reads everything behind IS DISTINCT FROM as its right side.
    return isinstance(part, (And, Or)) or (isinstance(part, Comparison) and part.op.startswith("IS"))
