"""Resolution of function calls, also those with special syntax, such as EXTRACT(year FROM day)."""

from collections.abc import Callable, Sequence
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Case, Cast, Coalesce, Column, Expression, Function, Literal
from lance_ops.filter.functions.registry import (
    AGGREGATES,
    ALIASES,
    STAMPS,
    TODAY,
    UNSTABLE,
    find_function,
    similar_names,
)
from lance_ops.filter.junctions import negated
from lance_ops.filter.parse.constants import list_of
from lance_ops.filter.parse.scope import Scope
from lance_ops.filter.predicates import IsNull
from lance_ops.filter.types.arrow_names import EXAMPLES, type_of_name
from lance_ops.filter.types.casting import can_cast
from lance_ops.filter.types.coercion import INT64, UTF8, is_bytes, is_list, plain_type


def resolve_call(scope: Scope, node: exp.Anonymous, _hint: pa.DataType | None) -> Expression:
    """`name(argument, ...)`."""
    name = node.name.lower()
    if name in AGGREGATES:
        scope.fail(
            f"{name.upper()} is an aggregate function, and a filter evaluates single rows",
            node,
            "write a condition on a column, or a SELECT with sql()",
        )
    if name in UNSTABLE:
        fail_unstable(scope, name, node)
    if name in TODAY and not node.expressions:
        return scope.today
    if is_regexp_match(node):
        scope.fail(
            "regexp_match() can only be a condition or be followed by IS NULL", node, "use regexp_like()"
        )
    arguments = [scope.expression(argument) for argument in node.expressions]
    _refuse_bare_dates(scope, name, node)
    if ALIASES.get(name, name) == "make_array":
        return list_of(scope, arguments, node)
    if name not in _SPECIAL:
        return called(scope, name, arguments, node)
    count, build = _SPECIAL[name]
    if not (len(arguments) == count if count else arguments):
        scope.fail(f"{name}() takes {count or 'at least 1'} arguments, not {len(arguments)}", node)
    return build(scope, arguments, node)


_DATE_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def called(scope: Scope, name: str, arguments: Sequence[Expression], node: exp.Expr) -> Expression:
    """Return the call of a function from the table of functions."""
    spec = find_function(name)
    if spec is None:
        similar = similar_names(name)
        hint = f"did you mean {' or '.join(similar)}?" if similar else None
        if name in _DATE_PARTS:
            hint = f"write date_part('{name}', ...)"
        scope.fail(f"unknown function {name}()", node, hint or "docs/filters.md lists the functions")
    if spec.kinds[:1] == ("word",) and arguments:
        arguments = [_lowered(arguments[0]), *arguments[1:]]
    if "same" in spec.kinds:
        arguments, _ = scope.together(arguments, node)
    if spec.name == "array_has" and len(arguments) == 2 and is_list(arguments[0].type):
        listed = plain_type(arguments[0].type.value_type)
        arguments = [arguments[0], scope.read(arguments[1], listed, node)]
    try:
        targets, result = spec.bind(arguments)
    except PredicateError as error:
        scope.fail(error.message, node, error.hint)
    pairs = zip(arguments, targets, strict=True)
    coerced = tuple(scope.coerced(argument, target, node) for argument, target in pairs)
    return scope.folded(Function(spec.name, coerced, result), node)


def _refuse_bare_dates(scope: Scope, name: str, node: exp.Anonymous) -> None:
    """Refuse dates without quotes where a function makes a date or a timestamp of a number."""
    spec = find_function(name)
    for argument in node.expressions if spec is not None and spec.name in STAMPS else ():
        scope.refuse_bare_date(argument, pa.date32())


def _lowered(word: Expression) -> Expression:
    if isinstance(word, Literal) and isinstance(word.value, str):
        return Literal(word.value.lower(), UTF8)
    return word


def fail_unstable(scope: Scope, name: str, node: exp.Expr | int) -> NoReturn:
    """Refuse a function whose value changes from call to call."""
    scope.fail(
        f"{name} is not allowed: its value changes from one evaluation to the next",
        node,
        "a filter may be recorded and evaluated again; write the value as a literal",
    )


def is_regexp_match(node: exp.Expr) -> bool:
    """Return whether the node calls regexp_match, of whose result only the presence is used."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "regexp_match"


def resolve_regexp_like(scope: Scope, node: exp.Expr) -> Expression:
    """Return the call of regexp_match as one of regexp_like."""
    return called(scope, "regexp_like", [scope.expression(argument) for argument in node.expressions], node)


# --- functions that have nodes of their own


def _coalesce(scope: Scope, arguments: Sequence[Expression], node: exp.Expr) -> Expression:
    operands, common = scope.together(arguments, node)
    return operands[0] if len(operands) == 1 else scope.folded(Coalesce(tuple(operands), common), node)


def _nvl2(scope: Scope, arguments: Sequence[Expression], node: exp.Expr) -> Expression:
    tested, present, absent = arguments
    values, common = scope.together([present, absent], node, as_text=True)
    condition = negated(scope.folded(IsNull(tested), node))
    return scope.folded(Case(((condition, values[0]),), values[1], common), node)


def _is_valid(scope: Scope, arguments: Sequence[Expression], node: exp.Expr) -> Expression:
    return negated(scope.folded(IsNull(arguments[0]), node))


def _get_field(scope: Scope, arguments: Sequence[Expression], node: exp.Expr) -> Expression:
    base, name = arguments
    if not (isinstance(base, Column) and isinstance(name, Literal) and isinstance(name.value, str)):
        scope.fail("get_field() takes a column and the name of a field", node)
    return scope.column([*((part, True) for part in base.path), (name.value, True)], node)


def _arrow_cast(scope: Scope, arguments: Sequence[Expression], node: exp.Expr) -> Expression:
    operand, name = arguments
    if not (isinstance(name, Literal) and isinstance(name.value, str)):
        scope.fail("arrow_cast() takes a value and the name of a type in quotes", node)
    target = type_of_name(name.value)
    if target is None:
        scope.fail(f"a filter cannot cast to {name.value!r}", node, f"types are {EXAMPLES} ...")
    scope.refuse_bare_date(node.expressions[0], target)
    if not can_cast(operand.type, target):
        scope.fail(f"a value of type {operand.type} cannot be cast to {target}", node)
    if operand.type == target and not (scope.narrow and isinstance(operand, Column)):
        return operand
    return scope.folded(Cast(operand, target), node)


_SPECIAL: dict[str, tuple[int, Callable[[Scope, Sequence[Expression], exp.Expr], Expression]]] = {
    "coalesce": (0, _coalesce),
    "nvl": (2, _coalesce),
    "ifnull": (2, _coalesce),
    "nvl2": (3, _nvl2),
    "is_valid": (1, _is_valid),
    "get_field": (2, _get_field),
    "arrow_cast": (2, _arrow_cast),
}


# --- functions with special syntax


def resolve_extract(scope: Scope, node: exp.Extract, _hint: pa.DataType | None) -> Expression:
    """EXTRACT(part FROM value)."""
    part = Literal(node.this.name, UTF8)
    return called(scope, "date_part", [part, scope.expression(node.args["expression"])], node)


def resolve_trim(scope: Scope, node: exp.Trim, _hint: pa.DataType | None) -> Expression:
    """Resolve TRIM([LEADING | TRAILING | BOTH] [characters FROM] text)."""
    scope.only(node, "this", "position", "expression")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "btrim")
    letters = node.args.get("expression")
    arguments = [scope.expression(part) for part in (node.this, letters) if part is not None]
    return called(scope, name, arguments, node)


def resolve_substring(scope: Scope, node: exp.Substring, _hint: pa.DataType | None) -> Expression:
    """SUBSTRING(text FROM start FOR length), SUBSTRING(text, start, length)."""
    scope.only(node, "this", "start", "length")
    start, length = node.args.get("start"), node.args.get("length")
    begin = Literal(1, INT64) if start is None else scope.expression(start)
    rest = [] if length is None else [scope.expression(length)]
    return called(scope, "substr", [scope.expression(node.this), begin, *rest], node)


def resolve_position(scope: Scope, node: exp.StrPosition, _hint: pa.DataType | None) -> Expression:
    """POSITION(part IN text)."""
    scope.only(node, "this", "substr")
    return called(scope, "strpos", [scope.expression(node.this), scope.expression(node.args["substr"])], node)


def resolve_concatenation(scope: Scope, node: exp.DPipe, _hint: pa.DataType | None) -> Expression:
    """`text || text`."""
    sides = [scope.expression(node.this), scope.expression(node.args["expression"])]
    if any(is_bytes(side.type) for side in sides):
        scope.fail("|| joins text, not binary", node)
    return called(scope, "||", sides, node)
