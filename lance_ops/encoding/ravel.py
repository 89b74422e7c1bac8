"""Ravelling: from an array to the levels and the values of one of its leaves; `levels.unravel` goes back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bitmap import decode_bitmap, validity_bitmap
from lance_ops.encoding.fixed_size_list import rebase_nested
from lance_ops.encoding.levels import Integers, Layer, Levels, Mask, visible_below
from lance_ops.encoding.slots import blank_slots
from lance_ops.errors import UnsupportedError, UnsupportedTypeError


@dataclass(frozen=True, slots=True)
class Raveled:
    """One leaf of some rows.

    Attributes:
        layers: From the innermost outwards; nullable and emptyable only where something is null or empty.
        rep: Repetition levels, None without lists.
        definition: Definition levels, None when nothing is null or empty.
        num_entries: Number of levels, also where there are none; a value or something without one.
        num_rows: Top-level rows.
        values: The slots of the leaf that are visible, in order, without validity and offset; those of nulls
            are blank. An entry is visible unless a list around it is null or empty.
    """

    layers: tuple[Layer, ...]
    rep: Levels | None
    definition: Levels | None
    num_entries: int
    num_rows: int
    values: pa.Array

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
        """The entry at which each row begins, and the number of all entries."""
        if self.rep is not None:
            return np.append(np.flatnonzero(self.rep == self.max_rep), self.num_entries)
        span = self.num_entries // max(self.num_rows, 1)
        return np.arange(self.num_rows + 1, dtype=np.int64) * span

    def visible_before(self, entries: Integers) -> Integers:
        """Number of the values before entries."""
        if self.rep is None or self.definition is None:
            return entries
        counts = np.zeros(self.num_entries + 1, dtype=np.int64)
        np.cumsum(self.definition < self.visible_below, out=counts[1:])
        return counts[entries]

    def slice(self, start: int, stop: int) -> "Raveled":
        """Some of the rows, with the layers of all."""
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
        )


@dataclass(slots=True)
class _Entries:
    """Entries on the way from the rows to the leaf.

    Attributes:
        count: How many.
        array: What the visible ones are at the current layer.
        state: Of each, 0 or the provisional level of what hides it; None while nothing does.
        rep: Repetition levels.
        visible: Which have a place in the array; None for all.
    """

    count: int
    array: pa.Array
    state: Levels | None = None
    rep: Levels | None = None
    visible: Mask | None = None

    def own_state(self) -> Levels:
        """The states of the visible entries."""
        assert self.state is not None
        return self.state if self.visible is None else self.state[self.visible]

    def mark(self, chosen: Mask, level: int) -> bool:
        """Give visible entries that nothing hides yet a level; whether there were any."""
        if self.state is None:
            if not bool(chosen.any()):
                return False
            self.state = np.zeros(self.count, dtype=np.uint16)
        own = self.own_state()
        chosen = chosen & (own == 0)
        if not bool(chosen.any()):
            return False
        if self.visible is None:
            self.state[chosen] = level
        else:
            self.state[np.flatnonzero(self.visible)[chosen]] = level
        return True


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
    for depth, step in enumerate((*path, None)):
        null_level, empty_level = 2 * depth + 1, 2 * depth + 2
        valid = _valid(entries.array)
        nullable = valid is not None and entries.mark(~valid, null_level)
        data_type = entries.array.type
        if step is None or pa.types.is_struct(data_type):
            layers.append(Layer(is_list=False, nullable=nullable))
            if step is not None:
                entries.array = _storage(entries.array.field(step))
            continue
        if pa.types.is_fixed_size_list(data_type):
            if lists:
                raise UnsupportedError("lists together with fixed-size lists of structs are not supported")
            layers.append(Layer(is_list=False, nullable=nullable))
            _multiply(entries, data_type.list_size)
            continue
        remaining -= 1
        emptyable = _expand(entries, valid, remaining, lists, empty_level)
        layers.append(Layer(is_list=True, nullable=nullable, emptyable=emptyable))
    layers.reverse()
    definition = _final_levels(entries.state, layers)
    null = None
    if entries.state is not None:
        null = entries.own_state() != 0
    values = blank_slots(entries.array, null)
    return Raveled(tuple(layers), entries.rep, definition, entries.count, len(array), values)


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
    large = pa.types.is_large_list(array.type)
    buffer = array.buffers()[1]
    word = np.int64 if large else np.int32
    if buffer is None or buffer.size == 0:
        # Arrow allows empty arrays to lack their offsets.
        return np.zeros(1, dtype=word)
    return np.frombuffer(buffer, dtype=word)[array.offset : array.offset + len(array) + 1]


def _expand(entries: _Entries, valid: Mask | None, remaining: int, lists: int, empty_level: int) -> bool:
    """Go from lists to their items; whether there were empty lists."""
    offsets = _offsets(entries.array).astype(np.int64, copy=False)
    lengths = np.diff(offsets)
    emptyable = entries.mark(lengths == 0 if valid is None else (lengths == 0) & valid, empty_level)
    if entries.state is not None:
        # Items of hidden lists are no data.
        lengths = np.where(entries.own_state() == 0, lengths, 0)
    repeats = lengths
    if entries.visible is not None:
        repeats = np.zeros(entries.count, dtype=np.int64)
        repeats[entries.visible] = lengths
    shown = repeats > 0
    repeats = np.maximum(repeats, 1)
    ends = np.cumsum(repeats)
    count = int(ends[-1]) if len(ends) else 0
    rep = np.full(count, remaining, dtype=np.uint16)
    rep[ends - repeats] = lists if entries.rep is None else entries.rep
    entries.rep = rep
    if entries.state is not None:
        entries.state = np.repeat(entries.state, repeats)
    entries.visible = None if bool(shown.all()) else np.repeat(shown, repeats)
    entries.count = count
    entries.array = _storage(_items(entries.array, offsets, lengths))
    return emptyable


def _items(array: pa.Array, offsets: Integers, lengths: Integers) -> pa.Array:
    """The items of the lists, of which hidden ones have a length of zero."""
    values = array.values
    total = int(lengths.sum())
    if total == int(offsets[-1] - offsets[0]):
        return values.slice(int(offsets[0]), total)
    starts = np.repeat(offsets[:-1], lengths)
    firsts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    positions = starts + (np.arange(total, dtype=np.int64) - firsts)
    if total and int(positions[-1] - positions[0]) == total - 1:
        return values.slice(int(positions[0]), total)
    return rebase_nested(values).take(pa.array(positions))


def _multiply(entries: _Entries, size: int) -> None:
    """Go from fixed-size lists to their items."""
    array = entries.array
    entries.array = _storage(array.values.slice(array.offset * size, len(array) * size))
    entries.count *= size
    if entries.state is not None:
        entries.state = np.repeat(entries.state, size)


def _final_levels(state: Levels | None, layers: Sequence[Layer]) -> Levels | None:
    if state is None:
        return None
    numbers = np.zeros(2 * len(layers) + 1, dtype=np.uint16)
    level = 0
    for depth, layer in zip(range(len(layers) - 1, -1, -1), layers, strict=True):
        if layer.nullable:
            level += 1
            numbers[2 * depth + 1] = level
        if layer.emptyable:
            level += 1
            numbers[2 * depth + 2] = level
    return numbers[state]
