"""Resolve what has a value: columns, arithmetic, conversions, CASE."""

import pyarrow as pa
import pyarrow.types as pat
from sqlglot import exp

from lance_ops.filter.expression import (
    Arithmetic,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Negative,
)
from lance_ops.filter.literals import number_as
from lance_ops.filter.parse.calls import called
from lance_ops.filter.parse.conditions import compared, condition
from lance_ops.filter.parse.constants import number
from lance_ops.filter.parse.plain_conditions import named, resolve_aside
from lance_ops.filter.parse.scope import Scope
from lance_ops.filter.types.casting import can_cast
from lance_ops.filter.types.coercion import INT64, INTERVAL, NULL, arithmetic_types, is_number
from lance_ops.filter.types.sql_names import KNOWN, arrow_type

ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_TYPE_NAMES = {
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "UTINYINT": "TINYINT UNSIGNED",
    "USMALLINT": "SMALLINT UNSIGNED",
    "UINT": "INT UNSIGNED",
    "UBIGINT": "BIGINT UNSIGNED",
    "DATETIME": "TIMESTAMP",
}


def resolve_paren(scope: Scope, node: exp.Paren, hint: pa.DataType | None) -> Expression:
    """Parentheses."""
    return scope.expression(node.this, hint)


def resolve_column(scope: Scope, node: exp.Expr, _hint: pa.DataType | None) -> Expression:
    """A column name or a dotted path."""
    parts: list[exp.Expr] = []
    rest = node
    while isinstance(rest, exp.Dot):
        parts.append(rest.args["expression"])
        rest = rest.this
    parts.reverse()
    if isinstance(rest, exp.Column):
        parts[:0] = rest.parts
    if not isinstance(rest, exp.Column) or not all(isinstance(part, exp.Identifier) for part in parts):
        scope.fail("a column name is expected here", node)
    aside = scope.syntax.aside(rest)
    if aside is not None and not isinstance(aside, tuple):
        return resolve_aside(scope, aside)
    return named(scope, [(part.name, bool(part.args.get("quoted"))) for part in parts], node)


def resolve_subscript(scope: Scope, node: exp.Bracket, _hint: pa.DataType | None) -> Expression:
    """`list[1]` or `struct['field']`."""
    scope.only(node, "this", "expressions")
    if len(node.expressions) != 1:
        scope.fail("one position is expected in brackets", node)
    (index,) = node.expressions
    base = scope.expression(node.this)
    if isinstance(base, Column) and isinstance(index, exp.Literal) and index.is_string:
        return scope.column([*((part, True) for part in base.path), (index.name, True)], node)
    return called(scope, "array_element", [base, scope.expression(index)], node)


# --- arithmetic


def resolve_negative(scope: Scope, node: exp.Neg, hint: pa.DataType | None) -> Expression:
    """Unary minus."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        # Sign and digits together, since the lowest integer has no positive counterpart.
        return number(scope, f"-{node.this.name}", hint, node.this.meta.get("start"))
    operand = scope.expression(node.this)
    if pat.is_unsigned_integer(operand.type):
        return _computed(scope, "-", Literal(0, INT64), operand, node)
    if not is_number(operand.type):
        scope.fail(f"a value of type {operand.type} has no negative", node)
    return scope.folded(Negative(operand, operand.type), node)


def resolve_arithmetic(scope: Scope, node: exp.Expr, hint: pa.DataType | None) -> Expression:
    """`+ - * / %`."""
    # Literals beside a float or decimal column count in its type; integers keep 64 bits, lest they overflow.
    passed = hint if hint is not None and (pat.is_floating(hint) or pat.is_decimal(hint)) else None
    left, right = (scope.expression(side, passed) for side in (node.this, node.args["expression"]))
    if scope.narrow:
        left, right = _beside(left, right), _beside(right, left)
    return _computed(scope, ARITHMETIC[type(node)], left, right, node)


def _beside(expression: Expression, neighbour: Expression) -> Expression:
    """A number in the type of the column beside it, if that can hold it."""
    if not isinstance(expression, Literal) or not isinstance(neighbour, Column):
        return expression
    if not is_number(expression.type) or not is_number(neighbour.type) or expression.value is None:
        return expression
    if pat.is_floating(expression.type) and pat.is_integer(neighbour.type):
        # `i / 2.0` asks for fractions; the peer refuses such a number beside whole ones.
        return expression
    return number_as(str(expression.value), neighbour.type) or expression


def _computed(scope: Scope, op: str, left: Expression, right: Expression, node: exp.Expr) -> Expression:
    if left.type == right.type == INTERVAL and op in "+-":
        return _joined_intervals(scope, op, left, right, node)
    types = arithmetic_types(op, left.type, right.type)
    if types is None:
        scope.fail(f"{op} is not defined for {left.type} and {right.type}", node)
    left, right = scope.coerced(left, types[0], node), scope.coerced(right, types[1], node)
    if left.type == INTERVAL:
        left, right = right, left
    if right.type == INTERVAL and not isinstance(right, Literal):
        scope.fail("only a constant interval can be added", node)
    return scope.folded(Arithmetic(op, left, right, types[2]), node)


def _joined_intervals(
    scope: Scope, op: str, left: Expression, right: Expression, node: exp.Expr
) -> Expression:
    if not (isinstance(left, Literal) and isinstance(right, Literal) and left.value and right.value):
        scope.fail("only constant intervals can be added", node)
    sign = -1 if op == "-" else 1
    return Literal(tuple(a + sign * b for a, b in zip(left.value, right.value, strict=True)), INTERVAL)


# --- conversions


def resolve_cast(scope: Scope, node: exp.Cast, _hint: pa.DataType | None) -> Expression:
    """CAST, TRY_CAST, `::`, and literals with a type such as DATE '2024-01-01'."""
    scope.only(node, "this", "to", "safe")
    target = _target_type(scope, node.args["to"], node)
    operand = scope.expression(node.this)
    scope.refuse_bare_date(node.this, target)
    if not can_cast(operand.type, target):
        scope.fail(f"a value of type {operand.type} cannot be cast to {target}", node)
    # A column of a result keeps its dictionary, and a cast of it does not; see `computed_field`.
    if operand.type == target and not (scope.narrow and isinstance(operand, Column)):
        return operand
    return scope.folded(Cast(operand, target, isinstance(node, exp.TryCast)), node)


def _target_type(scope: Scope, node: exp.DataType, at: exp.Expr) -> pa.DataType:
    kind = getattr(node.this, "value", str(node.this))
    sizes = [
        part.this for part in node.expressions if isinstance(part, exp.DataTypeParam) and part.this.is_int
    ]
    found = None
    if len(sizes) == len(node.expressions) and not node.args.get("nested"):
        found = arrow_type(_TYPE_NAMES.get(kind, kind), tuple(int(size.name) for size in sizes))
    if found is None:
        scope.fail(f"a filter cannot cast to {node.sql()}", at, f"the types are {', '.join(KNOWN)}")
    return found


def resolve_case(scope: Scope, node: exp.Case, _hint: pa.DataType | None) -> Expression:
    """CASE WHEN condition THEN ..., CASE value WHEN other THEN ..."""
    scope.only(node, "this", "ifs", "default")
    conditions, results = [], []
    for branch in node.args["ifs"]:
        test = (
            condition(scope, branch.this)
            if node.this is None
            else compared(scope, "=", node.this, branch.this)
        )
        conditions.append(test)
        results.append(scope.expression(branch.args["true"]))
    default = node.args.get("default")
    results.append(Literal(None, NULL) if default is None else scope.expression(default))
    (*values, otherwise), common = scope.together(results, node, as_text=True)
    return scope.folded(Case(tuple(zip(conditions, values, strict=True)), otherwise, common), node)
