"""Levels: nesting and nulls of a column in two small integers per entry.

Layers are the places on the way from a row to a value where there is a list, a struct, or the value itself.
The definition level says which layer, counted from the innermost outwards, is null or empty, 0 if none. The
repetition level says which list goes on: 0 the innermost, the number of lists for a new row (the other way
round than in Parquet).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import align_bitmap, encode_bitmap
from lance_ops.encoding.kernels.pages import levels as loops
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError, UnsupportedError

Levels = npt.NDArray[np.uint16]
Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

# Layers whose validity fits into one code.
_CODE_BITS = 8


@dataclass(frozen=True, slots=True)
class Layer:
    """Properties of one layer of a page.

    Attributes:
        is_list: True if it is a list; otherwise a struct, a fixed-size list, or the value.
        nullable: True if it can be null.
        emptyable: True if it can be an empty list.
    """

    is_list: bool
    nullable: bool = False
    emptyable: bool = False


@dataclass(frozen=True, slots=True)
class Nest:
    """One layer of some rows.

    Attributes:
        length: Number of lists, structs or values.
        validity: Bitmap of which are not null; None when all are.
        offsets: Of a list, where the items of each start, with the end of the last; of 32 bits unless there
            are too many items.
    """

    length: int
    validity: pa.Buffer | None
    offsets: Offsets | None = None

    def slice(self, start: int, stop: int) -> "Nest":
        """Return some of them, with offsets that count from the first."""
        offsets = None
        if self.offsets is not None:
            offsets = self.offsets[start : stop + 1] - self.offsets[start]
        validity = self.validity
        if validity is not None:
            validity = align_bitmap(validity, start, stop - start)
        return Nest(stop - start, validity, offsets)


def find_row_starts(rep: Levels, layers: Sequence[Layer]) -> Integers:
    """Entries at which a row begins."""
    return np.flatnonzero(rep == sum(layer.is_list for layer in layers))


def count_rows(rep: Levels, layers: Sequence[Layer]) -> int:
    """Return rows that begin in some repetition levels."""
    return int(np.count_nonzero(rep == sum(layer.is_list for layer in layers)))


def find_first_row(rep: Levels, definition: Levels | None, layers: Sequence[Layer]) -> tuple[int, int]:
    """Find the first row in levels that may begin within a row.

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
        items: Of each layer from the outermost inwards, the slots below one of its own: 1 except for
            fixed-size lists of structs.
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
    span = prod(items)
    if span > 1:
        if lists:
            raise UnsupportedError("fixed-size lists of structs within lists are not supported")
        if num_entries % span:
            raise CorruptFileError(f"{num_entries} levels do not make rows of {span}")
    if rep is None or not num_entries:
        return _unravel_slots(definition, layers, items, span, num_entries), num_entries
    if int(rep[0]) != lists:
        raise CorruptFileError("the first level does not begin a row")
    return _unravel_lists(rep, definition, layers, lists)


def _unravel_slots(
    definition: Levels | None, layers: Sequence[Layer], items: Sequence[int], span: int, num_entries: int
) -> list[Nest]:
    """Layers of which each has a slot for every entry, or for every so many."""
    found = []
    for layer, low, width in zip(reversed(layers), reversed(_thresholds(layers)[:-1]), items, strict=True):
        validity = None
        if definition is not None and layer.nullable:
            valid = definition[::span] < low
            validity = None if bool(valid.all()) else encode_bitmap(valid)
        offsets = np.zeros(1, dtype=np.int32) if layer.is_list else None
        found.append(Nest(num_entries // span, validity, offsets))
        span //= width
    return found


@dataclass(frozen=True, slots=True)
class _CodeTable:
    """A bit for each of some layers: whether that is not null.

    Attributes:
        numbers: Of the layers in their segment, in the order of the bits.
        codes: Of each definition level.
    """

    numbers: tuple[int, ...]
    codes: Codes


@dataclass(frozen=True, slots=True)
class _Segment:
    """Layers that have slots for the same entries: what lies between two lists, and the inner list.

    Attributes:
        layers: From the outermost inwards; none but the last is a list.
        lowest: Entries of a repetition level from here on have slots.
        below: Those of a definition level from here on have none.
        hidden: Those of a definition level from here on have no item of the list.
        tables: For the layers that can be null.
    """

    layers: tuple[Layer, ...]
    lowest: int
    below: int
    hidden: int
    tables: tuple[_CodeTable, ...]

    @property
    def is_list(self) -> bool:
        """Return whether it ends with a list."""
        return bool(self.layers) and self.layers[-1].is_list


@lru_cache(maxsize=256)
def _segments(layers: tuple[Layer, ...]) -> tuple[_Segment, ...]:
    # The pages of a column have few kinds of layers between them.
    thresholds = _thresholds(layers)
    highest = below = thresholds[-1]
    lists = sum(layer.is_list for layer in layers)
    found = []
    members: list[Layer] = []
    lows: list[int] = []
    for layer, low in zip(reversed(layers), reversed(thresholds[:-1]), strict=True):
        members.append(layer)
        lows.append(low)
        if layer.is_list:
            found.append(_Segment(tuple(members), lists, below, low, _code_tables(members, lows, highest)))
            members, lows, lists, below = [], [], lists - 1, low
    found.append(_Segment(tuple(members), lists, below, below, _code_tables(members, lows, highest)))
    return tuple(found)


def _code_tables(layers: Sequence[Layer], lows: Sequence[int], highest: int) -> tuple[_CodeTable, ...]:
    levels = np.arange(highest)
    nullable = [number for number, layer in enumerate(layers) if layer.nullable]
    found = []
    for first in range(0, len(nullable), _CODE_BITS):
        numbers = nullable[first : first + _CODE_BITS]
        codes = np.zeros(highest, dtype=np.uint8)
        for bit, number in enumerate(numbers):
            valid = levels < lows[number]
            if layers[number].emptyable:
                valid |= levels == lows[number] + 1
            codes |= valid.astype(np.uint8) << np.uint8(bit)
        found.append(_CodeTable(tuple(numbers), codes))
    return tuple(found)


def _unravel_lists(
    rep: Levels, definition: Levels | None, layers: Sequence[Layer], lists: int
) -> tuple[list[Nest], int]:
    rep = np.ascontiguousarray(rep)
    definition = None if definition is None else np.ascontiguousarray(definition)
    found: list[Nest] = []
    length = int(np.count_nonzero(rep == lists))
    for segment in _segments(tuple(layers)):
        tables = segment.tables if definition is not None else ()
        offsets: Offsets | None = None
        bitmaps: dict[int, pa.Buffer] = {}
        if segment.is_list:
            first = tables[0].codes if tables else None
            offsets, picked = _find_items(rep, definition, segment, length, first)
            if picked is not None:
                bitmaps.update(_bitmaps(tables[0], picked))
                tables = tables[1:]
        for table in tables:
            assert definition is not None
            bitmaps.update(_bitmaps(table, _pick_codes(rep, definition, segment, length, table.codes)))
        for number, layer in enumerate(segment.layers):
            found.append(Nest(length, bitmaps.get(number), offsets if layer.is_list else None))
        if offsets is not None:
            if int(offsets[0]):
                raise CorruptFileError("an item without a list around it")
            length = int(offsets[-1])
    return found, length


def _find_items(
    rep: Levels, definition: Levels | None, segment: _Segment, length: int, codes: Codes | None
) -> tuple[Offsets, Codes | None]:
    """Return item offsets of lists, with the end of the last; and the code of each list, if wanted."""
    if len(rep) >= 2**31:
        picked = None
        if codes is not None and definition is not None:
            picked = _pick_codes(rep, definition, segment, length, codes)
        return _find_many_items(rep, definition, segment), picked
    offsets = empty(length + 1, np.int32)
    if definition is None:
        find = loops.find_starts if segment.lowest == 1 else loops.count_starts
        find(rep=rep, lowest=segment.lowest, offsets=offsets)
        return offsets, None
    lowest, below, hidden = segment.lowest, segment.below, segment.hidden
    if codes is None:
        loops.count_items(
            rep=rep, definition=definition, lowest=lowest, below=below, hidden=hidden, offsets=offsets
        )
        return offsets, None
    picked = empty(length + 1, np.uint8)
    loops.count_and_pick(
        rep=rep,
        definition=definition,
        lowest=lowest,
        below=below,
        hidden=hidden,
        codes=codes,
        offsets=offsets,
        found=picked,
    )
    return offsets, picked[:-1]


def _find_many_items(rep: Levels, definition: Levels | None, segment: _Segment) -> Offsets:
    """Return item offsets among entries that may exceed 32 bits."""
    lists = rep >= segment.lowest
    items = rep >= segment.lowest - 1
    if definition is not None:
        lists &= definition < segment.below
        items &= definition < segment.hidden
    counts = np.zeros(len(rep) + 1, dtype=np.int64)
    np.cumsum(items, out=counts[1:])
    return _narrow(np.append(counts[:-1][lists], counts[-1]))


def _narrow(offsets: Integers) -> Offsets:
    return offsets.astype(np.int32) if int(offsets[-1]) < 2**31 else offsets


def _bitmaps(table: _CodeTable, picked: Codes) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield the validity of each layer that has nulls, with its number."""
    everywhere = int(np.bitwise_and.reduce(picked)) if len(picked) else -1
    for bit, number in enumerate(table.numbers):
        if not everywhere & 1 << bit:
            yield number, encode_bitmap(picked if len(table.numbers) == 1 else picked & np.uint8(1 << bit))


def _pick_codes(rep: Levels, definition: Levels, segment: _Segment, length: int, codes: Codes) -> Codes:
    """Return the code of each slot of a segment."""
    picked = empty(length + 1, np.uint8)
    lowest, below = segment.lowest, segment.below
    if lowest:
        loops.pick_codes(
            rep=rep, definition=definition, lowest=lowest, below=below, codes=codes, found=picked
        )
    else:
        loops.pick_visible_codes(definition=definition, below=below, codes=codes, found=picked)
    return picked[:-1]


def _thresholds(layers: Sequence[Layer]) -> list[int]:
    # The lowest definition level of each layer, with the lowest of none at the end.
    levels = [1]
    for layer in layers:
        levels.append(levels[-1] + layer.nullable + layer.emptyable)
    return levels


def visible_below(layers: Sequence[Layer]) -> int:
    """Return the definition level below which an entry has a value or the slot of a null one.

    Args:
        layers: From the innermost outwards.
    """
    thresholds = _thresholds(layers)
    lists = [number for number, layer in enumerate(layers) if layer.is_list]
    return thresholds[lists[0]] if lists else thresholds[-1]
