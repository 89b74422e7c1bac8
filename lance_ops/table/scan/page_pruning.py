"""Page pruning: rows of a fragment that a filter can select, given the bounds of pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.arrow_arrays import to_numpy
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.filter.expression import Column, Expression, Literal
from lance_ops.filter.literals import to_scalar
from lance_ops.filter.predicates import And, Comparison, InList, Or

RowRange = tuple[int, int]
Mask = npt.NDArray[np.bool_]

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_VALUES = 256


def plan_row_ranges(
    expression: Expression, bounds: Mapping[tuple[str, ...], PageBounds], start: int, stop: int
) -> list[RowRange]:
    """Return the parts of rows `[start, stop)` in pages with a value that the filter can select.

    Args:
        expression: The filter.
        bounds: Known bounds, by column path.
        start: First row.
        stop: Row after the last.
    """
    kept = [(start, stop)]
    for starts, mask in _conditions(expression, bounds):
        kept = _intersect(kept, _rows_of(starts, mask))
    return kept


def _conditions(
    expression: Expression, bounds: Mapping[tuple[str, ...], PageBounds]
) -> list[tuple[npt.NDArray[np.int64], Mask]]:
    """Yield the pages that can match each known operand of the outermost AND."""
    operands = expression.operands if isinstance(expression, And) else (expression,)
    found = []
    for operand in operands:
        pages = {path: bounds[path] for path in column_paths(operand) if path in bounds}
        starts = [page.starts for page in pages.values()]
        # Data files of one fragment may have page boundaries at different rows.
        if not starts or any(not np.array_equal(starts[0], other) for other in starts):
            continue
        mask = can_match(operand, pages)
        if mask is not None:
            found.append((starts[0], mask))
    return found


def column_paths(expression: Expression) -> set[tuple[str, ...]]:
    """Return the columns that a filter names."""
    return {node.path for node in expression.walk() if isinstance(node, Column)}


def can_match(expression: Expression, bounds: Mapping[tuple[str, ...], PageBounds]) -> Mask | None:
    """Return a mask of pages that may have a matching row; None if it is unknown."""
    match expression:
        case And(operands):
            known = [mask for mask in (can_match(part, bounds) for part in operands) if mask is not None]
            return np.logical_and.reduce(known) if known else None
        case Or(operands):
            return _any_of([can_match(part, bounds) for part in operands])
        case Comparison(op, Column(path), Literal(value, data_type)) if path in bounds:
            return _compare(op, bounds[path], value, data_type)
        case Comparison(op, Literal(value, data_type), Column(path)) if path in bounds and op in _MIRRORED:
            return _compare(_MIRRORED[op], bounds[path], value, data_type)
        case InList(Column(path, data_type), values) if path in bounds and 0 < len(values) <= _MOST_VALUES:
            return _any_of([_compare("=", bounds[path], value, data_type) for value in values])
    return None


def _any_of(masks: Sequence[Mask | None]) -> Mask | None:
    """Return a mask of pages in which one of several conditions may hold; None if one of them is unknown."""
    known = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(known) if len(known) == len(masks) else None


_TESTS: dict[str, Callable[[pa.Array, pa.Array, pa.Scalar], pa.Array]] = {
    "=": lambda low, high, value: pc.and_kleene(pc.less_equal(low, value), pc.greater_equal(high, value)),
    "<": lambda low, _, value: pc.less(low, value),
    "<=": lambda low, _, value: pc.less_equal(low, value),
    ">": lambda _, high, value: pc.greater(high, value),
    ">=": lambda _, high, value: pc.greater_equal(high, value),
}


def _compare(op: str, bounds: PageBounds, value: Any, data_type: pa.DataType) -> Mask | None:
    if value is None or op not in _TESTS or not _is_ordered(op, data_type, value):
        return None
    scalar = to_scalar(value, data_type)
    if not bounds.low.type == bounds.high.type == scalar.type:
        return None
    # An unknown bound excludes nothing.
    mask = pc.fill_null(_TESTS[op](bounds.low, bounds.high, scalar), True)
    return np.asarray(to_numpy(mask), dtype=np.bool_)


def _is_ordered(op: str, data_type: pa.DataType, value: Any) -> bool:
    """Return whether bounds of a type are valid for comparisons."""
    if pat.is_floating(data_type):
        # Bounds exclude NaN, which a filter orders above (or, negative, below) all other numbers.
        return op == "=" and value == value
    return bool(
        pat.is_integer(data_type)
        or pat.is_temporal(data_type)
        or pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
    )


def _rows_of(starts: npt.NDArray[np.int64], mask: Mask) -> list[RowRange]:
    """Return the rows of the chosen pages, with adjacent ranges joined."""
    rows: list[RowRange] = []
    for first, last in zip(starts[:-1][mask].tolist(), starts[1:][mask].tolist(), strict=True):
        if rows and rows[-1][1] == first:
            rows[-1] = (rows[-1][0], last)
        else:
            rows.append((first, last))
    return rows


def _intersect(left: Sequence[RowRange], right: Sequence[RowRange]) -> list[RowRange]:
    """Return the intersection of ascending ranges."""
    common: list[RowRange] = []
    first = second = 0
    while first < len(left) and second < len(right):
        start = max(left[first][0], right[second][0])
        stop = min(left[first][1], right[second][1])
        if start < stop:
            common.append((start, stop))
        if left[first][1] <= right[second][1]:
            first += 1
        else:
            second += 1
    return common
