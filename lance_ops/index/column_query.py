"""Column query: the part of a filter on one column, as passed to indices."""

from dataclasses import dataclass

import pyarrow as pa

from lance_ops.filter.evaluate.evaluate import select
from lance_ops.filter.expression import Column, Expression
from lance_ops.filter.junctions import all_of, conjuncts
from lance_ops.index.sargable import Range, value_range


@dataclass(frozen=True, slots=True)
class ColumnQuery:
    """A condition on one column.

    Attributes:
        path: Path of the column.
        condition: Condition on a row; part of the filter's conjunction.
        ranges: Value ranges, one for each part of the condition; matching values are in all of them. None for
            other conditions.
        conjuncts: Number of operands of the filter's outermost AND that it covers.
    """

    path: tuple[str, ...]
    condition: Expression
    ranges: tuple[Range, ...] | None
    conjuncts: int = 1

    def matches(self, values: pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of `values`, values of the column, meet the condition; null counts as no."""
        column = values.combine_chunks()
        for name in reversed(self.path[1:]):
            column = pa.StructArray.from_arrays([column], [name])
        return select(self.condition, pa.record_batch([column], [self.path[0]]))


def column_query(condition: Expression) -> ColumnQuery:
    """Return the query of a condition that is on one column alone."""
    (path,) = {node.path for node in condition.walk() if isinstance(node, Column)}
    place = value_range(condition)
    return ColumnQuery(path, condition, None if place is None else (place[1],))


def column_queries(expression: Expression) -> tuple[ColumnQuery, ...]:
    """Return the conjuncts of a filter on single columns, in the order of their first occurrence.

    Conjuncts with value ranges are merged by column, others are separate.
    """
    ranged: dict[tuple[str, ...], list[tuple[Expression, Range]]] = {}
    found: list[ColumnQuery | tuple[str, ...]] = []
    for conjunct in conjuncts(expression):
        paths = {node.path for node in conjunct.walk() if isinstance(node, Column)}
        if len(paths) != 1:
            continue
        (path,) = paths
        place = value_range(conjunct)
        if place is None:
            found.append(ColumnQuery(path, conjunct, None))
            continue
        if path not in ranged:
            found.append(path)
        ranged.setdefault(path, []).append((conjunct, place[1]))
    return tuple(item if isinstance(item, ColumnQuery) else _together(item, ranged[item]) for item in found)


def _together(path: tuple[str, ...], parts: list[tuple[Expression, Range]]) -> ColumnQuery:
    condition = all_of(tuple(condition for condition, _ in parts))
    return ColumnQuery(path, condition, tuple(values for _, values in parts), len(parts))
