"""Resolve what is true or false: AND, OR, NOT, IS, comparisons, BETWEEN, IN, LIKE."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pat
from sqlglot import exp

from lance_ops.filter.expression import Column, Expression, Literal
from lance_ops.filter.junctions import all_of, any_of, negated
from lance_ops.filter.literals import narrowed
from lance_ops.filter.parse.calls import is_regexp_match, resolve_regexp_like
from lance_ops.filter.parse.constants import is_untyped, resolve_constant
from lance_ops.filter.parse.mismatch import remedy, unfit
from lance_ops.filter.parse.scope import Scope
from lance_ops.filter.predicates import Comparison, InList, IsNull, IsTruth, Like
from lance_ops.filter.types.coercion import BOOL, NULL, UTF8, comparison_type, is_bytes, is_text

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_PREDICATES: tuple[type[exp.Expr], ...] = (
    *COMPARISONS,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.Escape,
)


def condition(scope: Scope, node: exp.Expr) -> Expression:
    """Resolve a node that must be a condition."""
    inner = node.unnest()
    if is_regexp_match(inner):
        return IsTruth(resolve_regexp_like(scope, inner), value=True)
    expression = scope.expression(node)
    if expression.type == NULL:
        return Literal(None, BOOL)
    if expression.type != BOOL:
        scope.fail(f"a condition is expected here, not a value of type {expression.type}", node)
    return expression


def resolve_junction(scope: Scope, node: exp.Expr, _hint: pa.DataType | None) -> Expression:
    """AND or OR."""
    # sqlglot nests a chain to the left as deep as it is long.
    kind: type[exp.Expr] = type(node)
    operands: list[exp.Expr] = []
    rest: exp.Expr = node
    while type(rest) is kind:
        operands.append(rest.args["expression"])
        rest = rest.this
    operands.append(rest)
    resolved = tuple(condition(scope, operand) for operand in reversed(operands))
    return all_of(resolved) if kind is exp.And else any_of(resolved)


def resolve_not(scope: Scope, node: exp.Not, _hint: pa.DataType | None) -> Expression:
    """NOT."""
    return negated(condition(scope, node.this))


def resolve_is(scope: Scope, node: exp.Is, _hint: pa.DataType | None) -> Expression:
    """IS NULL, IS UNKNOWN, IS TRUE, IS FALSE and their negations."""
    scope.only(node, "this", "expression", "negate")
    what: exp.Expr = node.args["expression"]
    inner = node.this.unnest()
    unknown = isinstance(what, exp.Column) and len(what.parts) == 1 and what.name.upper() == "UNKNOWN"
    result: Expression
    if isinstance(what, exp.Null) and is_regexp_match(inner):
        result = negated(condition(scope, inner))
    elif isinstance(what, exp.Null) or unknown:
        result = scope.folded(IsNull(scope.expression(node.this)), node)
    elif isinstance(what, exp.Boolean):
        result = scope.folded(IsTruth(condition(scope, node.this), value=bool(what.this)), node)
    else:
        scope.fail("IS is followed by NULL, TRUE, FALSE or DISTINCT FROM", what)
    return negated(result) if node.args.get("negate") else result


# --- comparisons


def resolve_comparison(scope: Scope, node: exp.Expr, _hint: pa.DataType | None) -> Expression:
    """`left op right`."""
    scope.only(node, "this", "expression")
    left, right = node.this, node.args["expression"]
    if isinstance(right, _PREDICATES):
        # Pylance reads `a = b IN (c)` as `(a = b) IN (c)`, which is seldom meant.
        scope.fail("comparisons do not chain", right, "put one of them in parentheses")
    return compared(scope, COMPARISONS[type(node)], left, right)


def compared(
    scope: Scope, op: str, left_node: exp.Expr, right_node: exp.Expr, *, is_bound: bool = False
) -> Expression:
    """Return the comparison of two nodes.

    Args:
        scope: What names mean.
        op: The sign.
        left_node: The left side.
        right_node: The right side.
        is_bound: It comes from a BETWEEN, whose bounds pylance reads in the type of the column in any case.
    """
    if is_untyped(left_node):
        right = scope.expression(right_node)
        left = scope.expression(left_node, _column_type(right))
    else:
        left = scope.expression(left_node)
        hint = None if not is_bound and _counts_with_columns(right_node) else _column_type(left)
        right = scope.expression(right_node, hint)
    left, right = meeting(scope, left, right, left_node)
    return scope.folded(Comparison(op, left, right), left_node)


def _counts_with_columns(node: exp.Expr) -> bool:
    """Return whether its literals are combined with columns, which makes them integers: `f = i / 2`."""
    inner = node.unnest()
    return isinstance(inner, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod) and bool(inner.find(exp.Column))


def _column_type(expression: Expression) -> pa.DataType | None:
    return expression.type if isinstance(expression, Column) else None


def meeting(
    scope: Scope, left: Expression, right: Expression, at: exp.Expr | int
) -> tuple[Expression, Expression]:
    """Both sides in one type."""
    left, right = _narrowed(left, right), _narrowed(right, left)
    left, right = scope.read(left, right.type, at), scope.read(right, left.type, at)
    common = comparison_type(left.type, right.type)
    if common is None or _mixes_bytes(left, right):
        scope.fail(unfit(left, right), at, remedy(left, right))
    return scope.coerced(left, common, at), scope.coerced(right, common, at)


def _mixes_bytes(left: Expression, right: Expression) -> bool:
    """Return whether a string constant is compared with bytes, or hexadecimal bytes with a string."""
    constant = isinstance(left, Literal) != isinstance(right, Literal)
    return constant and is_bytes(left.type) != is_bytes(right.type) and NULL not in (left.type, right.type)


def _narrowed(expression: Expression, neighbour: Expression) -> Expression:
    """Return a constant in the type of the other operand, if that changes nothing."""
    if not isinstance(expression, Literal) or isinstance(neighbour, Literal):
        return expression
    if expression.value is None:
        return Literal(None, neighbour.type)
    if isinstance(neighbour, Column) or pat.is_timestamp(expression.type) or pat.is_date(expression.type):
        return narrowed(expression, neighbour.type) or expression
    return expression


def resolve_between(scope: Scope, node: exp.Between, _hint: pa.DataType | None) -> Expression:
    """BETWEEN: two comparisons."""
    scope.only(node, "this", "low", "high")
    low = compared(scope, ">=", node.this, node.args["low"], is_bound=True)
    return all_of((low, compared(scope, "<=", node.this, node.args["high"], is_bound=True)))


# --- IN


def resolve_in(scope: Scope, node: exp.In, _hint: pa.DataType | None) -> Expression:
    """IN with a list: of constants, or else a comparison with each item."""
    scope.only(node, "this", "expressions")
    constants = scope.syntax.constants(node)
    if constants is None and not node.expressions:
        scope.fail("IN needs at least one value", node.this)
    operand = scope.expression(node.this)
    hint = _column_type(operand)
    items: Sequence[Expression]
    if constants is not None:
        items = [resolve_constant(scope, item, hint) for item in constants]
    else:
        items = [scope.expression(item, hint) for item in node.expressions]
    literals = [item for item in items if isinstance(item, Literal)]
    if len(literals) == len(items):
        return in_list(scope, operand, literals, node.this)
    tests = []
    for item in items:
        left, right = meeting(scope, operand, item, node)
        tests.append(scope.folded(Comparison("=", left, right), node))
    return any_of(tuple(tests))


def in_list(scope: Scope, operand: Expression, items: Sequence[Literal], at: exp.Expr | int) -> Expression:
    """IN with constants."""
    known = [item for item in items if item.value is not None]
    common = comparison_type(operand.type, NULL)
    if common is None:
        scope.fail(f"a value of type {operand.type} cannot be compared", at)
    if any(item.type != common for item in known):
        fitted = (scope.read(_narrowed(item, operand), operand.type, at) for item in known)
        known = [item for item in fitted if isinstance(item, Literal)]
    for item in {item.type: item for item in known}.values():
        both = comparison_type(common, item.type)
        if both is None or _mixes_bytes(operand, item):
            scope.fail(unfit(operand, item), at, remedy(operand, item))
        common = both
    coerced = [item if item.type == common else scope.coerced(item, common, at) for item in known]
    operand = scope.coerced(operand, common, at)
    values = [item.value for item in coerced if isinstance(item, Literal)]
    if len(values) < len(known):
        nulls = [Literal(None, common)] * (len(known) < len(items))
        return any_of(tuple(Comparison("=", operand, item) for item in (*coerced, *nulls)))
    result = InList(operand, tuple(dict.fromkeys(values)), len(known) < len(items))
    return scope.folded(result, at)


# --- LIKE


def resolve_like(scope: Scope, node: exp.Expr, _hint: pa.DataType | None) -> Expression:
    """LIKE or ILIKE, with or without ESCAPE."""
    escape = None
    if isinstance(node, exp.Escape):
        escape, node = node.args["expression"], node.this
    if not isinstance(node, (exp.Like, exp.ILike)):
        scope.fail("ESCAPE belongs to LIKE", node)
    scope.only(node, "this", "expression", "negate")
    text = text_operand(scope, scope.expression(node.this), node.this)
    pattern = text_operand(scope, scope.expression(node.args["expression"]), node)
    if escape is not None:
        pattern = _with_backslash(scope, pattern, escape, node)
    result = liked(scope, text, pattern, node, ignore_case=isinstance(node, exp.ILike))
    return negated(result) if node.args.get("negate") else result


def liked(
    scope: Scope, text: Expression, pattern: Expression, at: exp.Expr | int, *, ignore_case: bool
) -> Expression:
    """`text LIKE pattern`, both from `text_operand`."""
    common = comparison_type(text.type, pattern.type)
    text, pattern = scope.coerced(text, common, at), scope.coerced(pattern, common, at)
    return scope.folded(Like(text, pattern, ignore_case), at)


def text_operand(scope: Scope, expression: Expression, at: exp.Expr | int) -> Expression:
    """Return an operand of LIKE as text."""
    if is_bytes(expression.type):
        return scope.coerced(expression, UTF8, at)
    if expression.type == NULL:
        return Literal(None, UTF8)
    if not is_text(expression.type):
        scope.fail(f"LIKE compares text, not {expression.type}", at, "convert it with CAST(... AS STRING)")
    return expression


def _with_backslash(scope: Scope, pattern: Expression, escape: exp.Expr, node: exp.Expr) -> Expression:
    """Return the pattern with the backslash for its escape character."""
    letter = escape.name if isinstance(escape, exp.Literal) else ""
    if len(letter) != 1:
        scope.fail("ESCAPE takes one character", node)
    if letter == "\\":
        return pattern
    if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
        scope.fail("ESCAPE with another character than the backslash needs a constant pattern", node)
    parts, letters = [], iter(pattern.value)
    for found in letters:
        if found == letter:
            parts.append("\\" + next(letters, ""))
        else:
            parts.append("\\\\" if found == "\\" else found)
    return Literal("".join(parts), pattern.type)
