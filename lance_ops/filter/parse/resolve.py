"""From the text of a filter to a typed expression."""

import re

import pyarrow as pa
from sqlglot import exp

from lance_ops.errors import PredicateError, check_type
from lance_ops.filter.expression import Expression
from lance_ops.filter.functions.registry import TODAY
from lance_ops.filter.parse import calls, conditions, constants, scalars
from lance_ops.filter.parse.scope import Handler, Scope
from lance_ops.filter.parse.syntax import parse_syntax


def parse_filter(sql: str, schema: pa.Schema) -> Expression:
    """Parse a filter and resolve it against a schema.

    Args:
        sql: An SQL condition; the documentation of the package says what it may contain.
        schema: The columns that it may name.

    Returns:
        A boolean expression.

    Raises:
        PredicateError: It does not parse, names an unknown column or function, or compares what cannot be
        compared.
    """
    check_type(sql, str, "an SQL condition", field="filter")
    scope = Scope(parse_syntax(sql), schema, _HANDLERS)
    try:
        return conditions.condition(scope, scope.syntax.root)
    except RecursionError:
        raise PredicateError("the filter is nested too deeply", hint="flatten it, or use IN") from None


def settled(sql: str, schema: pa.Schema) -> str:
    """The filter as it can be recorded: as it stands, unless it means another day when it is read again.

    Raises:
        PredicateError: See `parse_filter`.
    """
    check_type(sql, str, "an SQL condition", field="predicate")
    return parse_filter(sql, schema).to_sql() if depends_on_day(sql) else sql


def depends_on_day(sql: str) -> bool:
    """Whether a filter may mean something else when it is parsed on another day."""
    return _DAY.search(sql) is not None


_DAY = re.compile(rf"\b({'|'.join(sorted(TODAY))})\b", re.IGNORECASE)

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
