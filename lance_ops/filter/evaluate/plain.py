"""Plain conditions on few rows: compare columns with constants, without walking the tree.

The usual case of index queries. For a few thousand rows the tree costs more than the comparisons.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.filter.expression import Column, Expression, Literal
from lance_ops.filter.functions.compare import KERNELS
from lance_ops.filter.predicates import And, Comparison


def select_plain(expression: Expression, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray | None:
    """Result of `select`, where the expression is one comparison or an AND of such.

    Args:
        expression: As for `select`.
        batch: The rows.

    Returns:
        None where it is another expression, or the column is not one array of just the type that the
        expression was parsed for, or of a type whose values have an order of their own (as floats do).
    """
    parts = expression.operands if type(expression) is And else (expression,)
    result: pa.BooleanArray | None = None
    if (mask := _select_integers(parts, batch)) is not None:
        return pa.array(mask)
    for part in parts:
        if type(part) is not Comparison:
            return None
        column, constant, kernel = part.left, part.right, KERNELS.get(part.op)
        if type(column) is not Column or type(constant) is not Literal or kernel is None:
            return None
        if len(column.path) > 1 or constant.value is None or constant.type != column.type:
            return None
        values = _one_array(batch, column)
        if values is None:
            return None
        found = kernel(values, pa.scalar(constant.value, constant.type))
        result = found if result is None else pc.and_kleene(result, found)
    assert result is not None
    return result.fill_null(False) if result.null_count else result


_UFUNCS: dict[str, Callable[[Any, int], npt.NDArray[np.bool_]]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _select_integers(
    parts: Sequence[Expression], batch: pa.RecordBatch | pa.Table
) -> npt.NDArray[np.bool_] | None:
    """Select rows by integers without nulls; a call of Arrow takes several times as long."""
    mask: npt.NDArray[np.bool_] | None = None
    known: dict[Column, npt.NDArray[np.integer]] = {}
    for part in parts:
        if type(part) is not Comparison:
            return None
        column, constant, compare = part.left, part.right, _UFUNCS.get(part.op)
        if type(column) is not Column or type(constant) is not Literal or compare is None:
            return None
        if len(column.path) > 1 or type(constant.value) is not int or constant.type != column.type:
            return None
        if not pat.is_integer(column.type):
            return None
        numbers = known.get(column)
        if numbers is None:
            values = _one_array(batch, column)
            if values is None or values.null_count:
                return None
            numbers = known[column] = values.to_numpy()
        found = compare(numbers, constant.value)
        mask = found if mask is None else mask & found
    return mask


def _one_array(batch: pa.RecordBatch | pa.Table, column: Column) -> pa.Array | None:
    place = batch.schema.get_field_index(column.path[0])
    if place < 0:
        return None
    values = batch.column(place)
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks != 1:
            return None
        values = values.chunk(0)
    return values if values.type == column.type and _compares(column.type) else None


@lru_cache(maxsize=256)
def _compares(kind: pa.DataType) -> bool:
    """Return whether values of a type can be compared by Arrow directly."""
    return bool(
        pat.is_integer(kind)
        or pat.is_string(kind)
        or pat.is_large_string(kind)
        or (pat.is_temporal(kind) and not pat.is_interval(kind))
    )
