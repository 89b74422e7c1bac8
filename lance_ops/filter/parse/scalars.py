"""Resolve what has a value: columns, arithmetic, conversions, CASE.

Resolve plain conditions and chains of them, which sqlglot has not seen.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pat
from sqlglot import exp

from lance_ops.filter.expression import Arithmetic, Case, Cast, Column, Expression, Literal, Negative
from lance_ops.filter.functions.registry import TODAY, UNSTABLE
from lance_ops.filter.junctions import all_of, any_of, negated
from lance_ops.filter.literals import number_as
from lance_ops.filter.parse.calls import called, fail_unstable
from lance_ops.filter.parse.chains import Chain, Condition, ListTerm, Names, NullTerm, Term, TokenType
from lance_ops.filter.parse.conditions import compared, condition, in_list, liked, meeting, text_operand
from lance_ops.filter.parse.constants import number, resolve_constant
from lance_ops.filter.parse.scope import Scope
from lance_ops.filter.predicates import Comparison, IsNull
from lance_ops.filter.types.casting import can_cast
from lance_ops.filter.types.coercion import (
    INT64,
    INTERVAL,
    NULL,
    arithmetic_types,
    comparison_type,
    is_number,
)
from lance_ops.filter.types.sql_names import KNOWN, arrow_type


def named(scope: Scope, names: Sequence[tuple[str, bool]], at: exp.Expr | int) -> Expression:
    """Resolve a name or path: a column, or a value with the same syntax."""
    first, quoted = names[0]
    if len(names) == 1 and not quoted and first.lower() in TODAY | UNSTABLE:
        known = {name.lower() for name in scope.schema.names}
        if first.lower() in TODAY - known:
            return scope.today
        if first.lower() in UNSTABLE - known:
            # These functions are called without parentheses, too.
            fail_unstable(scope, first, at)
    return scope.column(names, at)


def resolve_aside(scope: Scope, condition: Condition) -> Expression:
    """Return a condition that was set aside."""
    return _Resolution(scope).of(condition)


class _Resolution:
    """Resolves many conditions on few columns."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        # Each with its type, if that can be compared with itself.
        self._operands: dict[Names, tuple[Expression, pa.DataType | None, pa.DataType | None]] = {}

    def of(self, condition: Condition) -> Expression:
        """Return the expression of a condition."""
        match condition:
            case Term():
                return self._term(condition)
            case Chain(joint, parts, _):
                resolved = tuple([self.of(part) for part in parts])
                return all_of(resolved) if joint is TokenType.AND else any_of(resolved)
            case ListTerm(names, constants, opposite, start):
                operand, hint, _ = self._operand(names, start)
                items = [resolve_constant(self._scope, constant, hint) for constant in constants]
                found = in_list(self._scope, operand, items, start)
                return negated(found) if opposite else found
            case NullTerm(names, opposite, start):
                result = self._scope.folded(IsNull(self._operand(names, start)[0]), start)
                return negated(result) if opposite else result

    def _operand(self, names: Names, start: int) -> tuple[Expression, pa.DataType | None, pa.DataType | None]:
        """Return a column, its type hint for constants, and its type if constants of it need no check."""
        found = self._operands.get(names)
        if found is None:
            operand = named(self._scope, names, start)
            plain = isinstance(operand, Column)
            same = plain and comparison_type(operand.type, operand.type) == operand.type
            found = (operand, operand.type if plain else None, operand.type if same else None)
            self._operands[names] = found
        return found

    def _term(self, term: Term) -> Expression:
        scope, start = self._scope, term.start
        left, hint, same = self._operand(term.names, start)
        if term.op in ("LIKE", "ILIKE"):
            text = text_operand(scope, left, start)
            pattern = resolve_constant(scope, term.constant, None)
            return liked(scope, text, pattern, start, ignore_case=term.op == "ILIKE")
        constant = resolve_constant(scope, term.constant, hint)
        if constant.type == same and constant.value is not None:
            return Comparison(term.op, left, constant)
        left, right = meeting(scope, left, constant, start)
        return scope.folded(Comparison(term.op, left, right), start)


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
    """Return a column name or a dotted path."""
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
    # Literals next to a float or decimal column have its type; integers keep 64 bits, to avoid overflow.
    passed = hint if hint is not None and (pat.is_floating(hint) or pat.is_decimal(hint)) else None
    sides = node.this, node.args["expression"]
    if scope.narrow and node is scope.syntax.root.unnest():
        left, right = _outermost(scope, *sides)
    else:
        left, right = (scope.expression(side, passed) for side in sides)
    return _computed(scope, ARITHMETIC[type(node)], left, right, node)


def _outermost(scope: Scope, left_node: exp.Expr, right_node: exp.Expr) -> tuple[Expression, Expression]:
    """Both sides of an expression, numbers in the type of the column that is the other side.

    As in pylance, numbers anywhere else have 64 bits: in `abs(2 * i)`, `(i + 1) / 2` and `i + (j * 2)`. A
    calculation with numbers alone counts as one behind a column, as in `i + (2 * 3)`, and not before it.
    """
    left = scope.expression(left_node)
    if isinstance(left, Column) and _is_of_numbers(right_node):
        return left, _counted_in(scope, right_node, left.type)
    right = scope.expression(right_node)
    if isinstance(right, Column) and _is_number_text(left_node.unnest()):
        left = _as_number(left, right.type)
    return left, right


def _is_of_numbers(node: exp.Expr) -> bool:
    """Return whether it is a number, or a calculation with numbers alone."""
    inner = node.unnest()
    if type(inner) in ARITHMETIC:
        return _is_of_numbers(inner.this) and _is_of_numbers(inner.args["expression"])
    return _is_number_text(inner)


def _counted_in(scope: Scope, node: exp.Expr, target: pa.DataType) -> Expression:
    """Return a number, or a calculation with numbers, in a type."""
    inner = node.unnest()
    if type(inner) in ARITHMETIC:
        left, right = (_counted_in(scope, side, target) for side in (inner.this, inner.args["expression"]))
        return _computed(scope, ARITHMETIC[type(inner)], left, right, inner)
    return _as_number(scope.expression(node), target)


def _is_number_text(node: exp.Expr) -> bool:
    """Return whether the expression is a number literal, with or without sign; casts are not."""
    digits = node.this if isinstance(node, exp.Neg) else node
    return isinstance(digits, exp.Literal) and not digits.is_string


def _as_number(expression: Expression, target: pa.DataType) -> Expression:
    """Return a number in a type, if that can hold it."""
    if not isinstance(expression, Literal) or not is_number(expression.type) or not is_number(target):
        return expression
    if pat.is_floating(expression.type) and pat.is_integer(target):
        # `i / 2.0` means fractions; pylance refuses such a number next to integers.
        return expression
    return number_as(str(expression.value), target) or expression


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
