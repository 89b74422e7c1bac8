"""Column query: what a filter says about one column, as indices are asked it."""

from dataclasses import dataclass

import pyarrow as pa

from lance_ops.filter.evaluate.evaluate import select
from lance_ops.filter.expression import Column, Expression
from lance_ops.filter.junctions import all_of, conjuncts
from lance_ops.index.sargable import Range, value_range


@dataclass(frozen=True, slots=True)
class ColumnQuery:
    """A condition that is on one column alone.

    Attributes:
        path: Path of the column.
        condition: What a row has to meet; part of the filter's conjunction.
        ranges: Where the values lie that meet it, one for each part of the condition; a value that meets it
            lies in all of them. None when the condition does not say it in this way.
        conjuncts: How many operands of the filter's outermost AND it stands for.
    """

    path: tuple[str, ...]
    condition: Expression
    ranges: tuple[Range, ...] | None
    conjuncts: int = 1

    def matches(self, values: pa.ChunkedArray) -> pa.BooleanArray:
        """Which of `values`, values of the column, meet the condition; null counts as no."""
        column = values.combine_chunks()
        for name in reversed(self.path[1:]):
            column = pa.StructArray.from_arrays([column], [name])
        return select(self.condition, pa.record_batch([column], [self.path[0]]))


def column_query(condition: Expression) -> ColumnQuery:
    """The query of a condition that is on one column alone."""
    (path,) = {node.path for node in condition.walk() if isinstance(node, Column)}
    place = value_range(condition)
    return ColumnQuery(path, condition, None if place is None else (place[1],))


def column_queries(expression: Expression) -> tuple[ColumnQuery, ...]:
    """What the conjuncts of a filter say about single columns, in the order of their first mention.

    Those that say where the values lie are put together by column, each of the others stands alone.
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
