"""Ravelling (Dremel's shredding): from an array to levels and values; `levels.unravel` undoes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import decode_bitmap, validity_bitmap
from lance_ops.encoding.kernels.pages import ravel as loops
from lance_ops.encoding.memory import empty
from lance_ops.encoding.pages.levels import Integers, Layer, Levels, Mask, visible_below
from lance_ops.encoding.values.fixed_size_list import rebase_nested
from lance_ops.encoding.values.slots import blank_slots
from lance_ops.errors import UnsupportedError, UnsupportedTypeError

_HIDDEN = np.uint16(0x8000)


@dataclass(frozen=True, slots=True)
class Raveled:
    """One leaf of some rows.

    Attributes:
        layers: From the innermost outwards; emptyable only where something is empty, nullable only where
            something is null, or the struct around it is.
        rep: Repetition levels, None without lists.
        definition: Definition levels, None when nothing is null or empty.
        num_entries: Number of levels, also where there are none; a value or something without one.
        num_rows: Top-level rows.
        values: The slots of the leaf that are visible, in order, without validity and offset; those of nulls
            are blank. An entry is visible unless a list around it is null or empty.
        null: Which of the values are null, None without definition levels; follows from these when left out.
    """

    layers: tuple[Layer, ...]
    rep: Levels | None
    definition: Levels | None
    num_entries: int
    num_rows: int
    values: pa.Array
    null: Mask | None = None

    def __post_init__(self) -> None:
        if self.definition is not None and self.null is None:
            levels = self.definition
            if self.rep is not None:
                levels = levels[levels < self.visible_below]
            object.__setattr__(self, "null", levels != 0)

    @property
    def max_rep(self) -> int:
        """The repetition level of a new row, 0 without lists."""
        return sum(layer.is_list for layer in self.layers)

    @property
    def max_definition(self) -> int:
        """The highest definition level that the layers have."""
        return sum(layer.nullable + layer.emptyable for layer in self.layers)

    @property
    def visible_below(self) -> int:
        """The definition level below which an entry has a value or the slot of a null one."""
        return visible_below(self.layers)

    def row_starts(self) -> Integers:
        """Return the entry at which each row begins, and the number of all entries."""
        if self.rep is not None:
            return np.append(np.flatnonzero(self.rep == self.max_rep), self.num_entries)
        span = self.num_entries // max(self.num_rows, 1)
        return np.arange(self.num_rows + 1, dtype=np.int64) * span

    def visible_before(self, entries: Integers) -> Integers:
        """Return the number of the values before entries."""
        if self.rep is None or self.definition is None:
            return entries
        counts = np.zeros(self.num_entries + 1, dtype=np.int64)
        np.cumsum(self.definition < self.visible_below, out=counts[1:])
        return counts[entries]

    def slice(self, start: int, stop: int) -> "Raveled":
        """Return some of the rows, with the layers of all."""
        if start == 0 and stop == self.num_rows:
            return self
        entries = self.row_starts()[[start, stop]]
        first, last = self.visible_before(entries).tolist()
        low, high = entries.tolist()
        return replace(
            self,
            rep=None if self.rep is None else self.rep[low:high],
            definition=None if self.definition is None else self.definition[low:high],
            num_entries=high - low,
            num_rows=stop - start,
            values=blank_slots(self.values.slice(first, last - first), None),
            null=None if self.null is None else self.null[first:last],
        )


@dataclass(slots=True)
class _Entries:
    """Entries on the way from the rows to the leaf.

    Attributes:
        count: How many.
        array: What those that are not hidden are at the current layer.
        states: Of each, 0 or the number of what is null or empty around it, with the highest bit where it has
            no place in the array; None while all are 0.
        rep: Repetition levels.
    """

    count: int
    array: pa.Array
    states: Levels | None = None
    rep: Levels | None = None

    def mark_nulls(self, valid: Mask, number: int) -> bool:
        """Set the state of entries that are null at the current layer; return whether there are any."""
        if self.states is None:
            if bool(valid.all()):
                return False
            if not bool(valid.any()):
                self.states = np.full(len(valid), number, dtype=np.uint16)
                return True
            self.states = np.multiply(~valid, np.uint16(number), dtype=np.uint16)
            return True
        padded = np.append(valid, True).view(np.uint8)
        return loops.mark_nulls(states=self.states, valid=padded, level=number) > 0


def ravel(array: pa.Array, path: Sequence[int]) -> Raveled:
    """Take one leaf out of an array.

    Args:
        array: Of any type; may be a slice.
        path: The way from the array to the leaf: the number of the member of a struct, and 0 for the items of
            a list, the entries of a map, or the structs of a fixed-size list.

    Raises:
        UnsupportedError: Lists together with fixed-size lists of structs, which levels cannot express.
    """
    entries = _Entries(len(array), _storage(array))
    lists = _count_lists(array.type, path)
    layers: list[Layer] = []
    remaining = lists
    around = False
    for depth, step in enumerate((*path, None)):
        null_number, empty_number = 2 * depth + 1, 2 * depth + 2
        valid = _valid(entries.array)
        nullable = (valid is not None and entries.mark_nulls(valid, null_number)) or around
        # What is in a null struct is null itself: pylance looks at the member alone to filter by it.
        around = nullable
        data_type = entries.array.type
        if step is None or pa.types.is_struct(data_type):
            layers.append(Layer(is_list=False, nullable=nullable))
            if step is not None:
                entries.array = _storage(entries.array.field(step))
        elif pa.types.is_fixed_size_list(data_type):
            if lists:
                raise UnsupportedError("lists together with fixed-size lists of structs are not supported")
            layers.append(Layer(is_list=False, nullable=nullable))
            _multiply(entries, data_type.list_size)
        else:
            remaining -= 1
            around = False
            emptyable = _expand(entries, remaining, lists, empty_number)
            layers.append(Layer(is_list=True, nullable=nullable, emptyable=emptyable))
    layers.reverse()
    definition, null = _finish(entries, layers)
    values = blank_slots(entries.array, null)
    return Raveled(tuple(layers), entries.rep, definition, entries.count, len(array), values, null)


def _count_lists(data_type: pa.DataType, path: Sequence[int]) -> int:
    lists = 0
    for step in path:
        while isinstance(data_type, pa.BaseExtensionType):
            data_type = data_type.storage_type
        types = pa.types
        if types.is_struct(data_type):
            data_type = data_type.field(step).type
        elif types.is_map(data_type):
            lists += 1
            data_type = pa.struct([data_type.key_field, data_type.item_field])
        elif types.is_list(data_type) or types.is_large_list(data_type):
            lists += 1
            data_type = data_type.value_type
        elif types.is_fixed_size_list(data_type):
            data_type = data_type.value_type
        else:
            raise UnsupportedTypeError(f"{data_type} has no members")
    return lists


def _storage(array: pa.Array) -> pa.Array:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array


def _valid(array: pa.Array) -> Mask | None:
    validity = validity_bitmap(array)
    return None if validity is None else decode_bitmap(validity, len(array))


def _offsets(array: pa.Array) -> npt.NDArray[Any]:
    word = np.dtype(np.int64 if pa.types.is_large_list(array.type) else np.int32)
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        # Arrow allows empty arrays to lack their offsets.
        return np.zeros(1, dtype=word)
    return np.frombuffer(buffer, dtype=word, count=len(array) + 1, offset=array.offset * word.itemsize)


def _expand(entries: _Entries, remaining: int, lists: int, empty_number: int) -> bool:
    """Go from lists to their items; whether there were empty lists."""
    offsets = _offsets(entries.array)
    states = entries.states
    if states is None:
        lengths = np.diff(offsets)
        if bool((lengths > 0).all()):
            _expand_full(entries, offsets, remaining, lists)
            return False
        states = _filled(entries.count, 0)
    rep = _filled(entries.count, lists) if entries.rep is None else entries.rep
    # Loops look at the place behind the last one, too.
    padded = np.append(offsets, offsets[-1])
    count, shown = loops.count_entries(states=states, offsets=padded)
    entries.count = count
    entries.rep = _filled(count, remaining)
    entries.states = _filled(count, 0)
    empties = loops.expand(
        states=states,
        rep=rep,
        offsets=padded,
        empty=empty_number,
        new_states=entries.states,
        new_rep=entries.rep,
    )
    if shown == int(offsets[-1]) - int(offsets[0]):
        entries.array = _storage(entries.array.values.slice(int(offsets[0]), shown))
    else:
        own = states[states < _HIDDEN]
        entries.array = _storage(_items(entries.array, offsets, np.where(own == 0, np.diff(offsets), 0)))
    return empties > 0


def _filled(count: int, level: int) -> Levels:
    levels: Levels = empty(count, np.uint16)
    levels.fill(level)
    return levels


def _expand_full(entries: _Entries, offsets: npt.NDArray[Any], remaining: int, lists: int) -> None:
    """Go from lists to their items where no list is null or empty."""
    first, last = int(offsets[0]), int(offsets[-1])
    rep = _filled(last - first, remaining)
    rep[offsets[:-1] - first] = lists if entries.rep is None else entries.rep
    entries.rep = rep
    entries.count = last - first
    entries.array = _storage(entries.array.values.slice(first, last - first))


def _items(array: pa.Array, offsets: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> pa.Array:
    """Return the items of the lists, of which hidden ones have a length of zero."""
    values = array.values
    total = int(lengths.sum())
    if total == int(offsets[-1] - offsets[0]):
        return values.slice(int(offsets[0]), total)
    # Runs of lists between those whose items are hidden.
    gaps = np.flatnonzero(np.diff(offsets) != lengths)
    starts = offsets[np.append(0, gaps + 1)].astype(np.int64)
    runs = offsets[np.append(gaps, len(lengths))] - starts
    shown = np.flatnonzero(runs)
    if len(shown) <= 1:
        return values.slice(int(starts[shown].sum()), total)
    positions = np.arange(total, dtype=np.int64)
    positions += np.repeat(starts - (np.cumsum(runs) - runs), runs)
    return rebase_nested(values).take(pa.array(positions))


def _multiply(entries: _Entries, size: int) -> None:
    """Go from fixed-size lists to their items."""
    array = entries.array
    entries.array = _storage(array.values.slice(array.offset * size, len(array) * size))
    entries.count *= size
    if entries.states is not None:
        entries.states = np.repeat(entries.states, size)


def _finish(entries: _Entries, layers: Sequence[Layer]) -> tuple[Levels | None, Mask | None]:
    """Return the definition levels, and which values are null."""
    states = entries.states
    if states is None:
        return None, None
    levels = np.zeros(2 * len(layers) + 1, dtype=np.uint16)
    level = 0
    for depth, layer in zip(range(len(layers) - 1, -1, -1), layers, strict=True):
        if layer.nullable:
            level += 1
            levels[2 * depth + 1] = level
        if layer.emptyable:
            level += 1
            levels[2 * depth + 2] = level
    definition = empty(len(states), np.uint16)
    null = empty(len(entries.array) + 1, np.uint8)
    loops.finish(states=states, levels=levels, definition=definition, null=null)
    return definition, null[:-1].view(np.bool_)
