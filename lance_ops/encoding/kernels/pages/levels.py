"""Levels into offsets and validity, and the chunks that levels are cut into.

There are fewer than 2**31 entries wherever offsets have 32 bits.

The lengths of lists cannot be predicted, so that a branch in these loops costs more than all the rest: they
write at every entry, and move on only at those that count.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Levels
from lance_ops.encoding.kernels.loops import loop, types

_LEVELS = types.Array(types.uint16, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)


@loop(types.int64(_LEVELS, types.uint16, types.int32[::1]))
def _find_starts(rep, lowest, offsets):
    slot = 0
    for entry in range(len(rep)):
        offsets[slot] = entry
        slot += rep[entry] >= lowest
    offsets[slot] = len(rep)
    return slot


@loop(types.int64(_LEVELS, types.uint16, types.int32[::1]))
def _count_starts(rep, lowest, offsets):
    slot = 0
    item = 0
    for entry in range(len(rep)):
        offsets[slot] = item
        slot += rep[entry] >= lowest
        item += rep[entry] + 1 >= lowest
    offsets[slot] = item
    return item


@loop(types.int64(_LEVELS, _LEVELS, types.uint16, types.uint16, types.uint16, types.int32[::1]))
def _count_items(rep, definition, lowest, below, hidden, offsets):
    slot = 0
    item = 0
    for entry in range(len(rep)):
        offsets[slot] = item
        level = definition[entry]
        slot += (rep[entry] >= lowest) & (level < below)
        item += (rep[entry] + 1 >= lowest) & (level < hidden)
    offsets[slot] = item
    return item


@loop(
    types.int64(
        _LEVELS, _LEVELS, types.uint16, types.uint16, types.uint16, _BYTES, types.int32[::1], types.uint8[::1]
    )
)
def _count_and_pick(rep, definition, lowest, below, hidden, codes, offsets, found):
    slot = 0
    item = 0
    for entry in range(len(rep)):
        level = definition[entry]
        offsets[slot] = item
        found[slot] = codes[level]
        slot += (rep[entry] >= lowest) & (level < below)
        item += (rep[entry] + 1 >= lowest) & (level < hidden)
    offsets[slot] = item
    return item


@loop(types.int64(_LEVELS, types.uint16, _BYTES, types.uint8[::1]))
def _pick_visible_codes(definition, below, codes, found):
    slot = 0
    for entry in range(len(definition)):
        level = definition[entry]
        found[slot] = codes[level]
        slot += level < below
    return slot


@loop(types.int64(_LEVELS, _LEVELS, types.uint16, types.uint16, _BYTES, types.uint8[::1]))
def _pick_codes(rep, definition, lowest, below, codes, found):
    slot = 0
    for entry in range(len(rep)):
        level = definition[entry]
        found[slot] = codes[level]
        slot += (rep[entry] >= lowest) & (level < below)
    return slot


@loop(types.void(_LEVELS, types.uint16, _NUMBERS, types.int64[::1]))
def _cut(definition, below, values, cuts):
    entry = 0
    seen = 0
    for chunk in range(len(values)):
        while seen < values[chunk] and entry < len(definition):
            seen += definition[entry] < below
            entry += 1
        cuts[chunk] = entry


@loop(types.void(_LEVELS, types.uint16, _NUMBERS, types.int64[::1], types.int64[::1]))
def _find_rows(rep, highest, ends, begun, lasts):
    entry = 0
    last = 0
    for chunk in range(len(ends)):
        count = 0
        for number in range(entry, ends[chunk]):
            begins = rep[number] == highest
            count += begins
            last = number if begins else last
        entry = ends[chunk]
        begun[chunk] = count
        lasts[chunk] = last


def find_starts(*, rep: Levels, lowest: int, offsets: npt.NDArray[np.int32]) -> int:
    """Entries at which lists begin where each entry is an item.

    Args:
        rep: Repetition levels.
        lowest: Of an entry that begins a list.
        offsets: Room for one more than there are such entries; gets the end of the last, too.

    Returns:
        Number of lists.
    """
    return int(_find_starts(rep, lowest, offsets))


def count_starts(*, rep: Levels, lowest: int, offsets: npt.NDArray[np.int32]) -> int:
    """Compute list offsets if nothing is null or empty.

    Args:
        rep: Repetition levels.
        lowest: From which on an entry begins a list, at least 1; one lower, an item.
        offsets: Room for one more than there are lists; gets the end of the last, too.

    Returns:
        Number of items.
    """
    return int(_count_starts(rep, lowest, offsets))


def count_items(
    *,
    rep: Levels,
    definition: Levels,
    lowest: int,
    below: int,
    hidden: int,
    offsets: npt.NDArray[np.int32],
) -> int:
    """Compute list offsets.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many.
        lowest: Repetition level from which on an entry begins a list, at least 1; one lower, an item.
        below: Entries of a definition level from here on are in no list.
        hidden: Entries of a definition level from here on are no item.
        offsets: Room for one more than there are lists; gets the end of the last, too.

    Returns:
        Number of items.
    """
    return int(_count_items(rep, definition, lowest, below, hidden, offsets))


def count_and_pick(
    *,
    rep: Levels,
    definition: Levels,
    lowest: int,
    below: int,
    hidden: int,
    codes: Bytes,
    offsets: npt.NDArray[np.int32],
    found: Bytes,
) -> int:
    """Compute list offsets, and a code for each list; see `count_items` and `pick_codes`.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many, each below the number of codes.
        lowest: As `count_items` takes it.
        below: As `count_items` takes it.
        hidden: As `count_items` takes it.
        codes: The code of each definition level.
        offsets: Room for one more than there are lists; gets the end of the last, too.
        found: Room for one more than there are lists; the last one may be written.

    Returns:
        Number of items.
    """
    return int(_count_and_pick(rep, definition, lowest, below, hidden, codes, offsets, found))


def pick_visible_codes(*, definition: Levels, below: int, codes: Bytes, found: Bytes) -> int:
    """Return a code for each slot of the innermost layers.

    Args:
        definition: Definition levels, each below the number of codes.
        below: Entries of a level from here on have no slot.
        codes: The code of each definition level.
        found: Room for one more than there are slots; the last one may be written.

    Returns:
        Number of slots.
    """
    return int(_pick_visible_codes(definition, below, codes, found))


def pick_codes(
    *, rep: Levels, definition: Levels, lowest: int, below: int, codes: Bytes, found: Bytes
) -> int:
    """Return a code for each slot of a layer.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many, each below the number of codes.
        lowest: Entries of a repetition level from here on have a slot.
        below: Those of a definition level from here on have none.
        codes: The code of each definition level.
        found: Room for one more than there are slots; the last one may be written.

    Returns:
        Number of slots.
    """
    return int(_pick_codes(rep, definition, lowest, below, codes, found))


def cut(*, definition: Levels, below: int, values: Integers, cuts: Integers) -> None:
    """Entries at which chunks end that end with a value.

    Args:
        definition: Definition levels.
        below: Entries of a level from here on have no value.
        values: Shape (chunks,): values up to the end of each chunk, from 1 to the number of all, ascending.
        cuts: Shape (chunks,): gets the entries up to the end of each chunk.
    """
    _cut(definition, below, values, cuts)


def find_rows(*, rep: Levels, highest: int, ends: Integers, begun: Integers, lasts: Integers) -> None:
    """Rows that begin in each chunk.

    Args:
        rep: Repetition levels, the first of which begins a row.
        highest: Of an entry that begins a row.
        ends: Shape (chunks,): entries up to the end of each chunk, from 1 to the number of all, ascending.
        begun: Shape (chunks,): gets the number of rows that begin in each.
        lasts: Shape (chunks,): gets the entry at which the last row begins that began in it or before it.
    """
    _find_rows(rep, highest, ends, begun, lasts)
