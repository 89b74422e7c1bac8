"""Expressions: the tree of a filter, of frozen, typed, hashable nodes.

Parsing resolves everything that depends on the schema (columns of names, types of literals, conversions), so
a tree is self-contained. It has a canonical form: negation occurs only without an opposite operator, BETWEEN
is two comparisons, nested AND and OR are flattened, and constant expressions are literals. Two filters that
differ only in spelling therefore compare equal, and the result of `to_sql` parses to the same tree.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lance_ops.filter.spelling import render_column, render_literal
from lance_ops.filter.types.arrow_names import name_of_type
from lance_ops.filter.types.coercion import BOOL
from lance_ops.filter.types.sql_names import sql_type

_BACKTICKED_FUNCTIONS = frozenset({"ceil", "floor", "substr"})


class Expression:
    """A node of the tree; only its kinds have instances.

    It is not an ABC: `isinstance` checks would cost several times as much, and a filter needs many.
    """

    __slots__ = ()

    type: Any
    """The Arrow type of the value (`pyarrow.DataType`)."""

    def children(self) -> "tuple[Expression, ...]":
        """Return the operands, in the order in which they are written."""
        return ()

    def walk(self) -> "Iterator[Expression]":
        """Yield this node and all nodes below it, depth first."""
        pending: list[Expression] = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children()))

    @property
    def columns(self) -> frozenset[str]:
        """The paths of all columns that are read: "a.b" is a field of a struct; see `format_path`."""
        return frozenset(format_path(node.path) for node in self.walk() if isinstance(node, Column))

    @property
    def root_columns(self) -> frozenset[str]:
        """The names of the top-level columns that hold `columns`."""
        return frozenset(node.path[0] for node in self.walk() if isinstance(node, Column))

    def to_sql(self) -> str:
        """Canonical SQL: it parses back to an equal tree on the same schema, and pylance reads it too.

        Only constants compared with types that SQL has no name for (half floats, 256-bit decimals) may be
        parsed to an equivalent instead of an equal form. For pylance, whose parser knows a few constructs
        only inside a function call, CASE and INTERVAL stand in a `coalesce` of one argument, and some
        function names stand in backticks.
        """
        return self._sql()

    @abstractmethod
    def _sql(self) -> str:
        """See `to_sql`."""

    def __str__(self) -> str:
        return self.to_sql()


def format_path(path: tuple[str, ...]) -> str:
    """Join a column path the way pylance writes it: backticks around a part that has a dot."""
    quoted = (f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in path)
    return ".".join(quoted)


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column, or a field inside a struct column; `path` runs from the top-level column to it."""

    path: tuple[str, ...]
    type: Any

    def _sql(self) -> str:
        return render_column(self.path)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant.

    `value` is None, a bool, int, float, str, bytes or Decimal; an int count of units since the epoch (or
    midnight) for the temporal types; a tuple for lists and for intervals (months, days, nanoseconds).
    """

    value: Any
    type: Any

    def _sql(self) -> str:
        return render_literal(self.value, self.type)


@dataclass(frozen=True, slots=True)
class Coerce(Expression):
    """A conversion that the types of the neighbours call for; it is not written in SQL."""

    operand: Expression
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)

    def _sql(self) -> str:
        return self.operand.to_sql()


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """CAST, or TRY_CAST when `lenient`."""

    operand: Expression
    type: Any
    lenient: bool = False

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)

    def _sql(self) -> str:
        name, operand = sql_type(self.type), self.operand.to_sql()
        if name is None and not self.lenient:
            return f"arrow_cast({operand}, '{name_of_type(self.type)}')"
        return f"{'TRY_CAST' if self.lenient else 'CAST'}({operand} AS {name})"


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """Unary minus."""

    operand: Expression
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """Return the operand."""
        return (self.operand,)

    def _sql(self) -> str:
        return f"- {operand_sql(self.operand)}"


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`left op right` for op in + - * / %; the operands have the types that the kernel takes."""

    op: str
    left: Expression
    right: Expression
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """Both operands."""
        return (self.left, self.right)

    def _sql(self) -> str:
        return f"{operand_sql(self.left)} {self.op} {operand_sql(self.right)}"


@dataclass(frozen=True, slots=True)
class Coalesce(Expression):
    """The first of at least two operands that is not null."""

    operands: tuple[Expression, ...]
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """Return the operands."""
        return self.operands

    def _sql(self) -> str:
        return f"coalesce({_listed(self.operands)})"


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """CASE WHEN condition THEN value ... ELSE otherwise END."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """Conditions and values alternately, then the default."""
        return (*(part for branch in self.branches for part in branch), self.otherwise)

    def _sql(self) -> str:
        branches = " ".join(f"WHEN {when.to_sql()} THEN {then.to_sql()}" for when, then in self.branches)
        return f"coalesce(CASE {branches} ELSE {self.otherwise.to_sql()} END)"


@dataclass(frozen=True, slots=True)
class Function(Expression):
    """A call of a scalar function, by its canonical name."""

    name: str
    arguments: tuple[Expression, ...]
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """Return the arguments."""
        return self.arguments

    def _sql(self) -> str:
        if self.name == "array_element":
            array, index = self.arguments
            return f"{operand_sql(array)}[{index.to_sql()}]"
        if self.name == "||":
            return " || ".join(operand_sql(side) for side in self.arguments)
        name = f"`{self.name}`" if self.name in _BACKTICKED_FUNCTIONS else self.name
        return f"{name}({_listed(self.arguments)})"


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """A node that is true, false or null."""

    type: Any = field(default=BOOL, init=False, repr=False, compare=False)

    def negated_sql(self) -> str:
        """SQL of the negation."""
        return f"NOT {operand_sql(self)}"


def operand_sql(expression: Expression) -> str:
    """Return an operand of an operator, in parentheses unless it is a single token or call."""
    inner = without_coercion(expression)
    text = inner.to_sql()
    whole = isinstance(inner, (Column, Literal, Function, Cast, Coalesce, Case))
    return f"({text})" if not whole or (isinstance(inner, Function) and inner.name == "||") else text


def without_coercion(expression: Expression) -> Expression:
    """Return the operand of an implicit conversion."""
    while isinstance(expression, Coerce):
        expression = expression.operand
    return expression


def _listed(parts: tuple[Expression, ...]) -> str:
    return ", ".join(part.to_sql() for part in parts)
