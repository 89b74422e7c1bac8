"""List items: the items of a column for a build, and conditions on lists as conditions on items."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.filter.evaluate.evaluate import select
from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.predicates import IsNull, Not
from lance_ops.index.sorted_runs import one_array
from lance_ops.table.manifest.row_set import RowSet

_JOINED = ("array_has", "array_has_any")
_MET = "array_has_all"


class ItemRows:
    """Flattens lists, and collects the rows without items.

    Args:
        lists: Tables (`values`, `ids`) of lists.
    """

    def __init__(self, lists: Iterable[pa.Table]) -> None:
        self._lists = lists
        self.nulls = RowSet()
        """Rows whose list is null, of the tables that were taken so far."""

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield tables (`values`, `ids`) of items."""
        for table in self._lists:
            lists, ids = one_array(table["values"]), one_array(table["ids"])
            if lists.null_count:
                self.nulls |= RowSet.of(ids.filter(lists.is_null()).to_numpy())
            yield pa.table({"values": pc.list_flatten(lists), "ids": ids.take(pc.list_parent_indices(lists))})


def list_conditions(condition: Expression) -> tuple[tuple[Function, ...], bool] | None:
    """Return a condition on lists as conditions on their items.

    Returns:
        Functions, such that the lists that have an item for each of them meet the condition (and all of these
        are found so), and whether it is the others that do; None when it is not of that kind. No function at
        all stands for the lists that are not null.
    """
    match condition:
        case Not(operand) if (found := list_conditions(operand)) is not None:
            return found[0], not found[1]
        case IsNull(Column()):
            return (), True
        case Function(name, (Column() as column, Literal(value, data_type))) if value is not None:
            if name == _MET and value:
                wanted = (Literal((item,), data_type) for item in value)
                return tuple(Function(name, (column, item), condition.type) for item in wanted), False
            if name in _JOINED and value != ():
                return (condition,), False
    return None


def matching_items(function: Function, items: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the items for which a function is true of a list with that item only."""
    column = function.arguments[0]
    assert isinstance(column, Column)
    wanted = _plain_value(function, column, items)
    if wanted is not None:
        found = pc.equal(items, wanted)
        return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    offsets = pa.array(np.arange(len(items) + 1, dtype=np.int32))
    lists: pa.Array = pa.ListArray.from_arrays(offsets, items).cast(column.type)
    for name in reversed(column.path[1:]):
        lists = pa.StructArray.from_arrays([lists], [name])
    found = select(function, pa.record_batch([lists], [column.path[0]]))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _plain_value(function: Function, column: Column, items: pa.Array) -> pa.Scalar | None:
    """The one value that the lists have to hold, where items that are it are found without lists of them."""
    wanted = function.arguments[1]
    if not isinstance(wanted, Literal) or items.type != column.type.value_type:
        return None
    # The order and the equality of other types are not always Arrow's.
    if not (pa.types.is_string(items.type) or pa.types.is_integer(items.type)):
        return None
    value = wanted.value
    if wanted.type == column.type and len(value) == 1:
        (value,) = value
    elif wanted.type != items.type:
        return None
    return None if value is None else pa.scalar(value, items.type)
