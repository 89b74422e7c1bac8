"""Levels: nesting and nulls of a column in two small integers per entry.

Layers are the places on the way from a row to a value where there is a list, a struct, or the value itself.
The definition level says which layer, counted from the innermost outwards, is null or empty, 0 if none. The
repetition level says which list goes on: 0 the innermost, the number of lists for a new row (the other way
round than in Parquet).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError, UnsupportedError

Levels = npt.NDArray[np.uint16]
Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer of a page can hold.

    Attributes:
        is_list: Whether it is a list; otherwise a struct, a fixed-size list, or the value.
        nullable: Whether it can be null.
        emptyable: Whether it can be an empty list.
    """

    is_list: bool
    nullable: bool = False
    emptyable: bool = False


@dataclass(frozen=True, slots=True)
class Nest:
    """One layer of some rows.

    Attributes:
        length: Number of lists, structs or values.
        valid: Which are not null; None when all are.
        offsets: Of a list, where the items of each start, with the end of the last.
    """

    length: int
    valid: Mask | None
    offsets: Integers | None = None

    def slice(self, start: int, stop: int) -> "Nest":
        """Some of them, with offsets that count from the first."""
        offsets = None
        if self.offsets is not None:
            offsets = self.offsets[start : stop + 1] - self.offsets[start]
        return Nest(stop - start, None if self.valid is None else self.valid[start:stop], offsets)


def find_row_starts(rep: Levels, layers: Sequence[Layer]) -> Integers:
    """Entries at which a row begins."""
    return np.flatnonzero(rep == sum(layer.is_list for layer in layers))


def find_first_row(rep: Levels, definition: Levels | None, layers: Sequence[Layer]) -> tuple[int, int]:
    """Where the first row begins in levels that may begin within a row.

    Args:
        rep: Repetition levels.
        definition: Definition levels, None when nothing is null or empty.
        layers: From the innermost outwards.

    Returns:
        Number of the entry, and number of the values before it.

    Raises:
        CorruptFileError: No row begins.
    """
    starts = find_row_starts(rep, layers)
    if not len(starts):
        raise CorruptFileError("no row begins in the levels of a chunk that should have one")
    entry = int(starts[0])
    if definition is None:
        return entry, entry
    lists = [number for number, layer in enumerate(layers) if layer.is_list]
    return entry, int((definition[:entry] < _thresholds(layers)[lists[0]]).sum())


def unravel(
    rep: Levels | None,
    definition: Levels | None,
    layers: Sequence[Layer],
    items: Sequence[int],
    num_entries: int,
) -> tuple[list[Nest], int]:
    """Turn levels into the validity and offsets of each layer.

    Args:
        rep: Repetition levels, None without lists.
        definition: Definition levels, None when nothing is null or empty.
        layers: From the innermost outwards, as pages list them.
        items: Of each layer from the outermost inwards, the slots below one of its own: 1 but for fixed-size
            lists of structs.
        num_entries: Number of levels.

    Returns:
        The layers from the outermost inwards, and the number of values.

    Raises:
        CorruptFileError: A level is too high, or the first entry does not begin a row.
    """
    lists = sum(layer.is_list for layer in layers)
    thresholds = _thresholds(layers)
    for levels, highest, what in ((rep, lists, "repetition"), (definition, thresholds[-1] - 1, "definition")):
        if levels is not None and len(levels) != num_entries:
            raise CorruptFileError(f"{len(levels)} {what} levels where there are {num_entries} entries")
        if levels is not None and len(levels) and int(levels.max()) > highest:
            raise CorruptFileError(f"a {what} level of {int(levels.max())} where {highest} is the highest")
    if (rep is not None) != (lists > 0):
        raise CorruptFileError(f"a page with {lists} layers of lists and unfitting repetition levels")
    span = int(np.prod(np.asarray(items, dtype=np.int64)))
    if span > 1:
        if lists:
            raise UnsupportedError("fixed-size lists of structs within lists are not supported")
        if num_entries % span:
            raise CorruptFileError(f"{num_entries} levels do not make rows of {span}")
    found: list[Nest] = []
    # None stands for all entries.
    slots: Integers | None = None
    if rep is not None:
        slots = find_row_starts(rep, layers)
        if num_entries and (not len(slots) or slots[0] != 0):
            raise CorruptFileError("the first level does not begin a row")
    elif span > 1:
        slots = np.arange(0, num_entries, span)
    remaining_lists = lists
    for layer, low, width in zip(reversed(layers), reversed(thresholds[:-1]), items, strict=True):
        length = num_entries if slots is None else len(slots)
        state = None
        if definition is not None:
            state = definition if slots is None else definition[slots]
        valid = None if state is None or not layer.nullable else _valid(state, low, layer)
        if not layer.is_list:
            found.append(Nest(length, valid))
            if width > 1:
                span //= width
                assert slots is not None
                slots = (slots[:, np.newaxis] + np.arange(width) * span).reshape(-1)
            continue
        assert rep is not None
        assert slots is not None
        child = rep >= remaining_lists - 1
        if definition is not None:
            child &= definition < low
        counts = np.zeros(num_entries + 1, dtype=np.int64)
        np.cumsum(child, out=counts[1:])
        found.append(Nest(length, valid, np.append(counts[slots], counts[-1])))
        slots = np.flatnonzero(child)
        remaining_lists -= 1
    return found, num_entries if slots is None else len(slots)


def _thresholds(layers: Sequence[Layer]) -> list[int]:
    # The lowest definition level of each layer, with the lowest of none at the end.
    levels = [1]
    for layer in layers:
        levels.append(levels[-1] + layer.nullable + layer.emptyable)
    return levels


def _valid(state: Levels, low: int, layer: Layer) -> Mask | None:
    valid = state < low
    if layer.is_list and layer.emptyable:
        valid |= state == low + 1
    return None if bool(valid.all()) else valid


def visible_below(layers: Sequence[Layer]) -> int:
    """The definition level below which an entry has a value or the slot of a null one.

    Args:
        layers: From the innermost outwards.
    """
    thresholds = _thresholds(layers)
    lists = [number for number, layer in enumerate(layers) if layer.is_list]
    return thresholds[lists[0]] if lists else thresholds[-1]
