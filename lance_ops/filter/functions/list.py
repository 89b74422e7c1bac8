"""Functions of lists. Positions count from 1, or from -1 at the end."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Expression
from lance_ops.filter.functions.compare import compare
from lance_ops.filter.functions.signature import TRUTH, Datum, FunctionSpec, always, as_array
from lance_ops.filter.types.casting import cast_values
from lance_ops.filter.types.coercion import BOOL, INT64, UINT64, comparison_type, plain_type


def _lengths(lists: pa.Array) -> pa.Array:
    return pc.list_value_length(lists)


def _length(lists: pa.Array, dimension: Datum | None = None) -> pa.Array:
    if dimension is not None and not (isinstance(dimension, pa.Scalar) and dimension.as_py() == 1):
        raise PredicateError("array_length() counts the first dimension only")
    return _lengths(lists)


def _empty(lists: pa.Array) -> pa.Array:
    return pc.equal(_lengths(lists), 0)


# --- membership


def _element_match(arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    del arguments
    _meeting_type(targets[0], targets[1])
    return BOOL


def _list_match(arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    del arguments
    if targets[1].value_type != pa.null():
        _meeting_type(targets[0], targets[1].value_type)
    return BOOL


def _meeting_type(list_type: pa.DataType, other: pa.DataType) -> pa.DataType:
    common = comparison_type(plain_type(list_type.value_type), other)
    if common is None:
        raise PredicateError(f"elements of {list_type} cannot be compared with {other}")
    return common


def _has(lists: pa.Array, value: Datum) -> pa.Array:
    """Return whether an element is equal to the value; null if the list or the value is null."""
    elements, rows = _elements(lists)
    common = _meeting_type(lists.type, value.type)
    if isinstance(value, pa.Scalar):
        wanted: Datum = cast_values(pa.repeat(value, 1), value.type, common)[0]
    else:
        wanted = cast_values(value, value.type, common).take(rows)
    found = compare("=", cast_values(elements, elements.type, common), wanted)
    known = pc.and_(pc.is_valid(lists), pc.is_valid(value))
    return pc.if_else(known, _any_by_row(found, rows, len(lists)), pa.scalar(None, BOOL))


def _has_null(lists: pa.Array) -> pa.Array:
    elements, rows = _elements(lists)
    return _any_by_row(pc.is_null(elements), rows, len(lists))


def _has_each(
    junction: Callable[[Datum, Datum], Datum], start: bool
) -> Callable[[pa.Array, Datum], pa.Array]:
    """Evaluate array_has_any and array_has_all with a constant second list, whose nulls match nulls."""

    def kernel(lists: pa.Array, wanted: Datum) -> pa.Array:
        if not isinstance(wanted, pa.Scalar):
            raise PredicateError("array_has_any() and array_has_all() take only a constant second list")
        if not wanted.is_valid:
            return pa.nulls(len(lists), BOOL)
        result: Datum = pa.repeat(pa.scalar(start), len(lists))
        if not len(wanted.values):
            # Pylance does not even evaluate the first list.
            return result
        for value in wanted.values:
            found = pc.fill_null(_has(lists, value), False) if value.is_valid else _has_null(lists)
            result = junction(result, found)
        return pc.if_else(pc.is_valid(lists), result, pa.scalar(None, BOOL))

    return kernel


def _elements(lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return all elements in sequence in their plain type, and the row of each."""
    values = pc.list_flatten(lists)
    plain = plain_type(values.type)
    if pat.is_float16(plain):
        plain = pa.float32()
    return (values if values.type == plain else values.cast(plain)), pc.list_parent_indices(lists)


def _any_by_row(found: pa.Array, rows: pa.Array, count: int) -> pa.Array:
    hits = np.zeros(count, dtype=bool)
    hits[pc.filter(rows, found, null_selection_behavior="drop").to_numpy(zero_copy_only=False)] = True
    return pa.array(hits)


# --- elements


def _element_type(arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    del arguments
    return plain_type(targets[0].value_type)


def _element(lists: pa.Array, position: Datum) -> pa.Array:
    """Return the element at a position; null if there is none."""
    lengths = pc.fill_null(_lengths(lists), 0).cast(INT64)
    places = pc.fill_null(as_array(position, len(lists)), 0)
    offset = pc.if_else(pc.greater(places, 0), pc.subtract(places, 1), pc.add(places, lengths))
    inside = pc.and_(pc.not_equal(places, 0), pc.and_(pc.greater_equal(offset, 0), pc.less(offset, lengths)))
    elements, _ = _elements(lists)
    # The flattened elements leave out null lists, whose length counts as none here.
    starts = pc.subtract(pc.cumulative_sum(lengths), lengths) if len(lists) else lengths
    indices = pc.if_else(inside, pc.add(starts, offset), pa.scalar(None, INT64))
    return elements.take(indices)


LIST_FUNCTIONS = (
    FunctionSpec("array_length", ("list", "int?"), always(UINT64), _length),
    FunctionSpec("cardinality", ("list",), always(UINT64), _lengths),
    FunctionSpec("empty", ("list",), TRUTH, _empty),
    FunctionSpec("array_has", ("list", "any"), _element_match, _has),
    FunctionSpec("array_has_any", ("list", "list"), _list_match, _has_each(pc.or_, start=False)),
    FunctionSpec("array_has_all", ("list", "list"), _list_match, _has_each(pc.and_, start=True)),
    FunctionSpec("array_element", ("list", "int"), _element_type, _element),
)
