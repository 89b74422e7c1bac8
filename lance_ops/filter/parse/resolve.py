"""From the text of a filter to a typed expression."""

import pyarrow as pa
from sqlglot import exp

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Expression
from lance_ops.filter.parse import calls, conditions, constants, scalars
from lance_ops.filter.parse.scope import Handler, Scope
from lance_ops.filter.parse.syntax import parse_syntax


def resolve_filter(sql: str, schema: pa.Schema) -> Expression:
    """Return a filter against a schema; see `lance_ops.filter.parse_filter`."""
    scope = Scope(parse_syntax(sql), schema, _HANDLERS)
    try:
        return conditions.condition(scope, scope.syntax.root)
    except RecursionError:
        raise PredicateError("the filter is nested too deeply", hint="flatten it, or use IN") from None


def resolve_value(
    sql: str, schema: pa.Schema, hint: pa.DataType | None, *, narrow: bool = False
) -> Expression:
    """Return an expression of any type against a schema; see `lance_ops.filter.parse_value`."""
    scope = Scope(parse_syntax(sql), schema, _HANDLERS, narrow=narrow)
    try:
        root = scope.syntax.root
        # Numbers are independent of their context: 7 / 2 is 3, however the result is used.
        if hint is not None:
            scope.refuse_bare_date(root, hint)
        if hint is not None and constants.is_untyped(root):
            return constants.resolve_assigned(scope, root, hint)
        return scope.expression(root)
    except RecursionError:
        raise PredicateError("the expression is nested too deeply") from None


_HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.And: conditions.resolve_junction,
    exp.Or: conditions.resolve_junction,
    exp.Not: conditions.resolve_not,
    exp.Is: conditions.resolve_is,
    exp.Between: conditions.resolve_between,
    exp.In: conditions.resolve_in,
    exp.Like: conditions.resolve_like,
    exp.ILike: conditions.resolve_like,
    exp.Escape: conditions.resolve_like,
    **dict.fromkeys(conditions.COMPARISONS, conditions.resolve_comparison),
    exp.Literal: constants.resolve_literal,
    exp.HexString: constants.resolve_hex,
    exp.Boolean: constants.resolve_boolean,
    exp.Null: constants.resolve_null,
    exp.Interval: constants.resolve_interval,
    exp.Array: constants.resolve_list,
    exp.Paren: scalars.resolve_paren,
    exp.Column: scalars.resolve_column,
    exp.Dot: scalars.resolve_column,
    exp.Bracket: scalars.resolve_subscript,
    exp.Neg: scalars.resolve_negative,
    **dict.fromkeys(scalars.ARITHMETIC, scalars.resolve_arithmetic),
    exp.Cast: scalars.resolve_cast,
    exp.TryCast: scalars.resolve_cast,
    exp.Case: scalars.resolve_case,
    exp.Anonymous: calls.resolve_call,
    exp.Extract: calls.resolve_extract,
    exp.Trim: calls.resolve_trim,
    exp.Substring: calls.resolve_substring,
    exp.StrPosition: calls.resolve_position,
    exp.DPipe: calls.resolve_concatenation,
}
