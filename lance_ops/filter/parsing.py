"""Parsing: from the text of a filter to a typed expression.

The parser is imported with the first text that is parsed: scans without a filter do without.
"""

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_ops.errors import check_type
from lance_ops.filter.expression import Column, Expression
from lance_ops.filter.functions.registry import TODAY
from lance_ops.filter.types.coercion import plain_type

if TYPE_CHECKING:
    import pyarrow.compute as pc


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
    from lance_ops.filter.parse.resolve import resolve_filter

    return resolve_filter(sql, schema)


def parse_value(
    sql: str, schema: pa.Schema, hint: pa.DataType | None = None, *, narrow: bool = False
) -> Expression:
    """Parse an expression of any type and resolve it against a schema.

    Args:
        sql: The expression, of any type. A string that is exactly the name of a column, such as `0` or `unit
            price`, means that column, as in pylance.
        schema: The columns.
        hint: Type of untyped numbers and strings.
        narrow: Where the whole expression is a column and a number, compute in the type of the column, as
             pylance does: `i + 1` of an int32 column is an int32. Else numbers have 64 bits.

    Raises:
        PredicateError: See `parse_filter`.
    """
    check_type(sql, str, "an SQL expression", field="expression")
    # Subclasses of str are translated from another dialect, in which names like these are quoted.
    if type(sql) is str and (column := _column_named(sql, schema)) is not None:
        return column
    from lance_ops.filter.parse.resolve import resolve_value

    return resolve_value(sql, schema, hint, narrow=narrow)


def _column_named(name: str, schema: pa.Schema) -> Expression | None:
    """Return the only column of a name, in another case where none has this one."""
    if "`" in name:
        return None
    found = [one for one in schema.names if one == name] or [
        one for one in schema.names if one.lower() == name.lower()
    ]
    return Column((found[0],), plain_type(schema.field(found[0]).type)) if len(found) == 1 else None


def settled(sql: "str | pc.Expression", schema: pa.Schema) -> str:
    """Return the filter in a form that can be recorded: SQL, with relative dates replaced by fixed ones.

    Raises:
        PredicateError: See `parse_filter`.
        UnsupportedError: An expression of pyarrow cannot be translated.
    """
    if not isinstance(sql, str):
        # Only callers with expressions of pyarrow load the module.
        from lance_ops.filter.arrow_expression import arrow_expression_sql

        sql = arrow_expression_sql(sql, schema)
    check_type(sql, str, "an SQL condition", field="predicate")
    return parse_filter(sql, schema).to_sql() if depends_on_day(sql) else sql


def depends_on_day(sql: str) -> bool:
    """Return whether a filter may mean something else when it is parsed on another day."""
    return _DAY.search(sql) is not None


_DAY = re.compile(rf"\b({'|'.join(sorted(TODAY))})\b", re.IGNORECASE)
