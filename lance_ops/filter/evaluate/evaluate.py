"""Evaluate a filter on Arrow data.

Plain conditions on few rows: compare columns with constants, without walking the tree.

The usual case of index queries. For a few thousand rows the tree costs more than the comparisons.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.arrow_arrays import from_numpy, scalar, to_numpy
from lance_ops.errors import PredicateError
from lance_ops.filter.evaluate import arithmetic
from lance_ops.filter.expression import (
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Coerce,
    Column,
    Expression,
    Function,
    Literal,
    Negative,
    format_path,
)
from lance_ops.filter.functions.compare import KERNELS, compare, is_in
from lance_ops.filter.functions.registry import FUNCTIONS
from lance_ops.filter.functions.signature import Datum, as_array, plain
from lance_ops.filter.functions.text import match_like
from lance_ops.filter.literals import from_scalar, to_scalar
from lance_ops.filter.predicates import And, Comparison, InList, IsNull, IsTruth, Like, Not, Or
from lance_ops.filter.types.casting import cast_can_fail, cast_values
from lance_ops.filter.types.coercion import INT64, JSON, is_text, physical_type, plain_type


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
        return from_numpy(mask)
    for part in parts:
        if type(part) is not Comparison:
            return None
        column, constant, kernel = part.left, part.right, KERNELS.get(part.op)
        if type(column) is not Column or type(constant) is not Literal or kernel is None:
            return None
        if len(column.path) > 1 or constant.value is None or constant.type != column.type:
            return None
        values = _plain_array(batch, column)
        if values is None:
            return None
        found = kernel(values, scalar(constant.value, constant.type))
        result = found if result is None else pc.and_kleene(result, found)
    assert result is not None
    return result.fill_null(_FALSE) if result.null_count else result


_FALSE = scalar(False, pa.bool_())

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
            values = _plain_array(batch, column)
            if values is None or values.null_count:
                return None
            numbers = known[column] = to_numpy(values)
        found = compare(numbers, constant.value)
        mask = found if mask is None else mask & found
    return mask


def _plain_array(batch: pa.RecordBatch | pa.Table, column: Column) -> pa.Array | None:
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


_ARROW_ERRORS = (pa.ArrowException, OverflowError, ValueError)


def evaluate(expression: Expression, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Evaluate a predicate in three-valued logic.

    Args:
        expression: A boolean expression, parsed against a schema with the columns of `batch`.
        batch: The rows; only `expression.root_columns` have to be there.

    Returns:
        One of true, false and null for each row.

    Raises:
        PredicateError: A column is missing, or a value cannot be computed (division by zero, a text that does
        not read
            as the type that it is cast to).
    """
    return evaluate_values(expression, batch)


def select(expression: Expression, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Evaluate a filter, with false instead of null: true for exactly the selected rows."""
    plain_answer = select_plain(expression, batch)
    return evaluate(expression, batch).fill_null(_FALSE) if plain_answer is None else plain_answer


def evaluate_values(
    expression: Expression, batch: pa.RecordBatch | pa.Table, *, wraps: bool = True
) -> pa.Array:
    """Return the value of any expression for each row; half floats are returned as single floats.

    Args:
        expression: As for `evaluate`, of any type.
        batch: The rows.
        wraps: Integers wrap around, as they do in filters. Otherwise an overflow is an error, as needed for
            stored values.

    Raises:
        PredicateError: As `evaluate`.
    """
    if isinstance(batch, pa.Table):
        roots = expression.root_columns
        needed = batch.select([name for name in batch.column_names if name in roots])
        if not needed.num_columns:
            rows = _Rows(None, batch.num_rows, wraps=wraps)
            return as_array(_value(expression, rows), batch.num_rows)
        parts = [evaluate_values(expression, part, wraps=wraps) for part in needed.to_batches()]
        return pa.concat_arrays(parts) if parts else pa.nulls(0, physical_type(expression.type))
    return as_array(_value(expression, _Rows(batch, batch.num_rows, wraps=wraps)), batch.num_rows)


def constant(expression: Expression) -> Literal:
    """Return the value of an expression without columns.

    Raises:
        PredicateError: It has none, like 1 / 0.
    """
    datum = as_array(_value(expression, _Rows(None, 1)), 1)
    return Literal(from_scalar(datum[0]), expression.type)


class _Rows:
    """The rows that an expression is evaluated on: a batch, or some rows of others."""

    __slots__ = ("_batch", "_columns", "_mask", "_parent", "count", "wraps")

    def __init__(
        self,
        batch: pa.RecordBatch | None,
        count: int,
        parent: "_Rows | None" = None,
        mask: pa.Array | None = None,
        *,
        wraps: bool = True,
    ) -> None:
        self._batch = batch
        self._parent = parent
        self._mask = mask
        self._columns: dict[tuple[str, ...], pa.Array] = {}
        self.count = count
        self.wraps = wraps

    def column(self, node: Column) -> pa.Array:
        """Return the values of a column, freed of encodings."""
        if node.path not in self._columns:
            loaded = (
                self._load(node) if self._parent is None else self._parent.column(node).filter(self._mask)
            )
            self._columns[node.path] = loaded
        return self._columns[node.path]

    def _load(self, node: Column) -> pa.Array:
        index = -1 if self._batch is None else self._batch.schema.get_field_index(node.path[0])
        if self._batch is None or index < 0:
            raise PredicateError("the data have no such column", field=format_path(node.path))
        array = self._batch.column(index)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        for part in node.path[1:]:
            array = pc.struct_field(array, [part])
        return _decoded(array, node)

    def where(self, mask: pa.Array) -> "_Rows":
        """Only the rows where `mask` is true."""
        return _Rows(None, mask.true_count, self, mask, wraps=self.wraps)


def _decoded(array: pa.Array, node: Column) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pat.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pat.is_dictionary(array.type):
        array = plain(array.cast(array.type.value_type))
    found, wanted = plain_type(array.type), physical_type(node.type)
    if pat.is_struct(found) and pat.is_struct(node.type) and all(one in list(node.type) for one in found):
        # Of a struct that is only tested for null, a scan need not read all members.
        return array
    if found != node.type and not (node.type == JSON and is_text(found)):
        raise PredicateError(
            f"the filter was parsed for a column of type {node.type}, the data have {array.type}",
            field=format_path(node.path),
        )
    return array if array.type == wanted else array.cast(wanted)


# --- nodes


def _value(node: Expression, rows: _Rows) -> Datum:
    return _EVALUATORS[type(node)](node, rows)


def _computed(node: Expression, rows: _Rows, compute: Callable[[], Datum]) -> Datum:
    """Run a kernel; give its errors the words of the filter, its result the type of the node."""
    try:
        result = plain(compute())
        wanted = physical_type(node.type)
        if result.type != wanted:
            result = result.cast(wanted)
    except _ARROW_ERRORS as error:
        if isinstance(error, PredicateError) and error.field is not None:
            raise
        raise PredicateError(_reason(error), field=node.to_sql()) from error
    if isinstance(result, pa.Array) and len(result) == 1 != rows.count:
        return result[0]
    return result


def _reason(error: Exception) -> str:
    if isinstance(error, PredicateError):
        return error.message
    text = str(error)
    return "division by zero" if "divide by zero" in text else f"the value cannot be computed: {text}"


def _one_array(datums: list[Datum], at: int = 0) -> list[Datum]:
    """Arrow's kernels of constants are less complete: make one of them an array of one value."""
    if datums and all(isinstance(datum, pa.Scalar) for datum in datums):
        datums[at] = pa.repeat(datums[at], 1)
    return datums


def _cast(node: Cast | Coerce, rows: _Rows) -> Datum:
    (operand,) = _one_array([_value(node.operand, rows)])
    lenient = isinstance(node, Cast) and node.lenient
    return _computed(node, rows, lambda: cast_values(operand, node.operand.type, node.type, lenient=lenient))


def _negative(node: Negative, rows: _Rows) -> Datum:
    return _computed(node, rows, lambda: arithmetic.negate(_value(node.operand, rows), wraps=rows.wraps))


def _arithmetic(node: Arithmetic, rows: _Rows) -> Datum:
    left, right = _one_array([_value(node.left, rows), _value(node.right, rows)])
    return _computed(
        node, rows, lambda: arithmetic.compute(node.op, left, right, node.type, wraps=rows.wraps)
    )


def _function(node: Function, rows: _Rows) -> Datum:
    spec = FUNCTIONS[node.name]
    arguments = _one_array([_value(argument, rows) for argument in node.arguments], spec.subject)
    return _computed(node, rows, lambda: spec.kernel(*arguments))


def _comparison(node: Comparison, rows: _Rows) -> Datum:
    left, right = _value(node.left, rows), _value(node.right, rows)
    return _computed(node, rows, lambda: compare(node.op, left, right))


def _in_list(node: InList, rows: _Rows) -> Datum:
    operand, data_type = _value(node.operand, rows), node.operand.type
    return _computed(node, rows, lambda: is_in(operand, node.values, data_type, has_null=node.has_null))


def _like(node: Like, rows: _Rows) -> Datum:
    texts, pattern = _one_array([_value(node.operand, rows), _value(node.pattern, rows)])
    return _computed(node, rows, lambda: match_like(texts, pattern, ignore_case=node.ignore_case))


def _is_truth(node: IsTruth, rows: _Rows) -> Datum:
    datum = _value(node.operand, rows)
    return pc.fill_null(datum if node.value else pc.invert(datum), _FALSE)


# --- nodes that need not evaluate every row


def can_fail(expression: Expression, *, wraps: bool = True) -> bool:
    """Return whether some row may make the expression an error instead of a value; see `evaluate_values`."""
    if type(expression) is Comparison and type(expression.left) is Column:
        # Most of what long filters consist of.
        return can_fail(expression.right, wraps=wraps) if expression.right.children() else False
    return any(_fails_itself(node, wraps) for node in expression.walk())


def _fails_itself(node: Expression, wraps: bool) -> bool:
    match node:
        case Cast(lenient=True):
            return False
        case Cast() | Coerce():
            return cast_can_fail(node.operand.type, node.type)
        case Arithmetic(op, _, _, result):
            exact = pat.is_decimal(result) or pat.is_temporal(result)
            exact = exact or (pat.is_integer(result) and not wraps)
            return exact or arithmetic.can_divide_by_zero(op, result)
        case Negative():
            return pat.is_integer(node.type) and not wraps
        case Function(name):
            return FUNCTIONS[name].can_fail
        case _:
            return False


def _on(node: Expression, rows: _Rows, mask: pa.Array) -> Datum:
    """The value where `mask` is true, null elsewhere; the other rows are not computed if they could fail."""
    if not can_fail(node, wraps=rows.wraps):
        return _value(node, rows)
    chosen = rows.where(mask)
    found = as_array(_value(node, chosen), chosen.count)
    places = pc.subtract(pc.cumulative_sum(mask.cast(INT64)), scalar(1, INT64))
    # Arrow's replace_with_mask supports neither durations nor lists.
    return found.take(pc.if_else(mask, places, scalar(None, INT64)))


def _junction(operands: Iterable[Expression], rows: _Rows, *, stop: bool) -> Datum:
    """AND (`stop` is false) or OR (`stop` is true).

    What can fail is evaluated last, and only where the rest leaves the answer open: `n <> 0 AND 10 / n > 1`
    needs no care about the zeros, whatever the order.
    """
    kernel = pc.or_kleene if stop else pc.and_kleene
    result: Datum = None
    judged = [(can_fail(operand, wraps=rows.wraps), operand) for operand in operands]
    for fails, operand in sorted(judged, key=itemgetter(0)):
        if result is None:
            result = _value(operand, rows)
        elif fails:
            decided = pc.fill_null(pc.equal(result, scalar(stop, pa.bool_())), _FALSE)
            open_rows = as_array(pc.invert(decided), rows.count)
            result = kernel(result, _on(operand, rows, open_rows))
        else:
            result = kernel(result, _value(operand, rows))
    return result


def _coalesce(node: Coalesce, rows: _Rows) -> Datum:
    result = _value(node.operands[0], rows)
    for operand in node.operands[1:]:
        missing = as_array(pc.is_null(result), rows.count)
        result = pc.coalesce(result, _on(operand, rows, missing))
    return result


def _case(node: Case, rows: _Rows) -> Datum:
    undecided = pa.repeat(scalar(True, pa.bool_()), rows.count)
    result: Datum = pa.nulls(rows.count, physical_type(node.type))
    for condition, value in node.branches:
        met = as_array(pc.fill_null(_on(condition, rows, undecided), _FALSE), rows.count)
        chosen = pc.and_(undecided, met)
        result = pc.if_else(chosen, _on(value, rows, chosen), result)
        undecided = pc.and_not(undecided, chosen)
    return pc.if_else(undecided, _on(node.otherwise, rows, undecided), result)


_EVALUATORS: dict[type[Expression], Callable[[Any, _Rows], Datum]] = {
    Column: lambda node, rows: rows.column(node),
    Literal: lambda node, _rows: to_scalar(node.value, node.type),
    Coerce: _cast,
    Cast: _cast,
    Negative: _negative,
    Arithmetic: _arithmetic,
    Coalesce: _coalesce,
    Case: _case,
    Function: _function,
    Comparison: _comparison,
    InList: _in_list,
    Like: _like,
    IsNull: lambda node, rows: pc.is_null(_value(node.operand, rows)),
    IsTruth: _is_truth,
    Not: lambda node, rows: pc.invert(_value(node.operand, rows)),
    And: lambda node, rows: _junction(node.operands, rows, stop=False),
    Or: lambda node, rows: _junction(node.operands, rows, stop=True),
}
