"""Expressions: the tree of a filter, of frozen, typed, hashable nodes.

Parsing settles everything that depends on the schema (which column a name means, which type a literal takes,
where a value is converted), so that a tree says by itself what it selects. It keeps a canonical form:
negation stands only where there is no opposite operator, BETWEEN is two comparisons, nested AND and OR are
flat, and what needs no column is a literal. Two filters that differ only in spelling therefore compare equal,
and `to_sql` reads back as the same tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

from lance_ops.filter.types.coercion import BOOL

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


class Expression:
    """A node of the tree."""

    __slots__ = ()

    type: Any
    """The Arrow type of the value (`pyarrow.DataType`)."""

    def children(self) -> "tuple[Expression, ...]":
        """The operands, in the order in which they are written."""
        return ()

    def walk(self) -> "Iterator[Expression]":
        """This node and everything below it, depth first."""
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
        """Canonical SQL: it parses back to an equal tree on the same schema, and the peer reads it too.

        Only constants beside numbers of types that SQL has no name for (half floats, 256-bit decimals) may
        come back in an equivalent form instead of an equal one.
        """
        return sql_of(self)

    def __str__(self) -> str:
        return self.to_sql()


@singledispatch
def sql_of(expression: Expression) -> str:
    """See `Expression.to_sql`. `render` registers what does it, since that needs the nodes of this module."""
    raise NotImplementedError(type(expression).__name__)


def format_path(path: tuple[str, ...]) -> str:
    """Join a column path the way the peer writes it: backticks around a part that has a dot."""
    quoted = (f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in path)
    return ".".join(quoted)


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column, or a field inside a struct column; `path` runs from the top-level column to it."""

    path: tuple[str, ...]
    type: Any


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant.

    `value` is None, a bool, int, float, str, bytes or Decimal; an int count of units since the epoch (or
    midnight) for the temporal types; a tuple for lists and for intervals (months, days, nanoseconds).
    """

    value: Any
    type: Any


@dataclass(frozen=True, slots=True)
class Coerce(Expression):
    """A conversion that the types of the neighbours call for; it is not written in SQL."""

    operand: Expression
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """CAST, or TRY_CAST when `lenient`."""

    operand: Expression
    type: Any
    lenient: bool = False

    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """Unary minus."""

    operand: Expression
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


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


@dataclass(frozen=True, slots=True)
class Coalesce(Expression):
    """The first of at least two operands that is not null."""

    operands: tuple[Expression, ...]
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """The operands."""
        return self.operands


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """CASE WHEN condition THEN value ... ELSE otherwise END."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """Conditions and values in turn, then the last resort."""
        return (*(part for branch in self.branches for part in branch), self.otherwise)


@dataclass(frozen=True, slots=True)
class Function(Expression):
    """A call of a scalar function, by its canonical name."""

    name: str
    arguments: tuple[Expression, ...]
    type: Any

    def children(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """A node that is true, false or null."""

    type: Any = field(default=BOOL, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`left op right` for the keys of `OPPOSITES`; both operands have one type."""

    op: str
    left: Expression
    right: Expression

    def children(self) -> tuple[Expression, ...]:
        """Both operands."""
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class InList(Predicate):
    """IN with constants: `values` without nulls and doubles, as in `Literal`, of the operand's type.

    `has_null` says that NULL was in the list, so that the answer is never false.
    """

    operand: Expression
    values: tuple[Any, ...]
    has_null: bool = False

    def children(self) -> tuple[Expression, ...]:
        """The operand; the values are no nodes, since there may be very many."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """LIKE, or ILIKE when `ignore_case`; the escape character of the pattern is the backslash."""

    operand: Expression
    pattern: Expression
    ignore_case: bool = False

    def children(self) -> tuple[Expression, ...]:
        """The text and the pattern."""
        return (self.operand, self.pattern)


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """IS NULL."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class IsTruth(Predicate):
    """IS TRUE or IS FALSE."""

    operand: Expression
    value: bool

    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The negation of what has no opposite of its own."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """At least two operands, none of them an And."""

    operands: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        """The operands."""
        return self.operands


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """At least two operands, none of them an Or."""

    operands: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        """The operands."""
        return self.operands


SHORTEST_LIST = 16
"""Equalities from which on a list stands for them; what people write themselves stays as they wrote it."""


def all_of(operands: tuple[Expression, ...]) -> Expression:
    """The conjunction of `operands`, flat; the only operand itself if there is one."""
    flat = tuple(
        part
        for operand in operands
        for part in (operand.operands if isinstance(operand, And) else (operand,))
    )
    flat = _with_lists(flat, "<>")
    return flat[0] if len(flat) == 1 else And(flat)


def any_of(operands: tuple[Expression, ...]) -> Expression:
    """The disjunction of `operands`, flat; the only operand itself if there is one."""
    flat = tuple(
        part for operand in operands for part in (operand.operands if isinstance(operand, Or) else (operand,))
    )
    flat = _with_lists(flat, "=")
    return flat[0] if len(flat) == 1 else Or(flat)


def _with_lists(operands: tuple[Expression, ...], op: str) -> tuple[Expression, ...]:
    """Make a list of the many equalities of one column: one look-up instead of one comparison for each."""
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
    """The canonical negation in three-valued logic."""
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
    """The operands of the outermost AND; the expression itself if there is none."""
    return expression.operands if isinstance(expression, And) else (expression,)
