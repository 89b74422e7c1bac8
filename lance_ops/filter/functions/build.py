"""Functions that put values together: lists and structs, for what an update writes."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Expression, Literal
from lance_ops.filter.functions.signature import Datum, FunctionSpec, as_array


def _rows(data: Sequence[Datum]) -> int:
    return next(len(datum) for datum in data if isinstance(datum, pa.Array))


def _list_type(_arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    return pa.list_(targets[0])


def _make_list(*items: Datum) -> pa.Array:
    """Return a list of each row's values."""
    rows, width = _rows(items), len(items)
    behind = pa.concat_arrays([as_array(item, rows) for item in items])
    places = np.arange(rows)[:, None] + np.arange(width) * rows
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(offsets, behind.take(pa.array(places.ravel())))


def _struct_type(arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    names = [argument.value if isinstance(argument, Literal) else None for argument in arguments[::2]]
    if not names or len(arguments) % 2 or not all(isinstance(name, str) for name in names):
        raise PredicateError("named_struct() takes names in quotes, each with its value behind it")
    if len(set(names)) < len(names):
        raise PredicateError("named_struct() has the same field twice")
    return pa.struct(list(zip(names, targets[1::2], strict=True)))


def _make_struct(*parts: Datum) -> pa.Array:
    """Return a struct of each row's values; none is null."""
    rows = _rows(parts)
    names = [name[0].as_py() if isinstance(name, pa.Array) else name.as_py() for name in parts[::2]]
    return pa.StructArray.from_arrays([as_array(value, rows) for value in parts[1::2]], names)


BUILD_FUNCTIONS = (
    FunctionSpec("make_array", ("same", "same*"), _list_type, _make_list, stays=True),
    FunctionSpec("named_struct", ("any", "any", "any*"), _struct_type, _make_struct, subject=1, stays=True),
)
