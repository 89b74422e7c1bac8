"""SQL filters: parsing, and evaluation on Arrow data.

A filter is one SQL condition. It is parsed once against a schema into a tree of frozen nodes
(`parse_filter`), which the scan evaluates (`evaluate`, `select`), from which the indices take the conditions
that they can answer, and which a transaction records (`Expression.to_sql`).

What a filter may contain, and where its meaning differs from pylance's, is in `docs/filters.md`.
"""

from lance_ops.filter.computed import computed_field
from lance_ops.filter.evaluate.evaluate import evaluate, evaluate_values, select
from lance_ops.filter.expression import Column, Expression, Literal, format_path
from lance_ops.filter.functions.registry import ALIASES, FUNCTIONS
from lance_ops.filter.junctions import conjuncts
from lance_ops.filter.parsing import depends_on_day, parse_filter, parse_value, settled
from lance_ops.filter.spelling import render_column as column_sql

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "Column",
    "Expression",
    "Literal",
    "column_sql",
    "computed_field",
    "conjuncts",
    "depends_on_day",
    "evaluate",
    "evaluate_values",
    "format_path",
    "parse_filter",
    "parse_value",
    "select",
    "settled",
]
