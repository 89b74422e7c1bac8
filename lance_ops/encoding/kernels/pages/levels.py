"""Compiled loops over levels, which turn them into offsets and validity.

The lengths of lists cannot be predicted, so that a branch in these loops costs more than all the rest: they
write at every entry, and move on only at those that count.
"""

from numba import njit, types

_LEVELS = types.Array(types.uint16, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)


@njit(types.int64(_LEVELS, types.uint16, types.int32[::1]), cache=True, nogil=True)
def find_starts(rep, lowest, offsets):  # type: ignore[no-untyped-def]
    """Entries at which lists begin where each entry is an item.

    Args:
        rep: Repetition levels.
        lowest: Of an entry that begins a list.
        offsets: Room for one more than there are such entries; gets the end of the last, too.
    """
    slot = 0
    for entry in range(len(rep)):
        offsets[slot] = entry
        slot += rep[entry] >= lowest
    offsets[slot] = len(rep)
    return slot


@njit(types.int64(_LEVELS, types.uint16, types.int32[::1]), cache=True, nogil=True)
def count_starts(rep, lowest, offsets):  # type: ignore[no-untyped-def]
    """Where the items of lists begin where nothing is null or empty; see `count_items`."""
    slot = 0
    item = 0
    for entry in range(len(rep)):
        offsets[slot] = item
        slot += rep[entry] >= lowest
        item += rep[entry] + 1 >= lowest
    offsets[slot] = item
    return item


@njit(
    types.int64(_LEVELS, _LEVELS, types.uint16, types.uint16, types.uint16, types.int32[::1]),
    cache=True,
    nogil=True,
)
def count_items(rep, definition, lowest, below, hidden, offsets):  # type: ignore[no-untyped-def]
    """Where the items of lists begin.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many.
        lowest: Repetition level from which on an entry begins a list, at least 1; one lower, an item.
        below: Entries of a definition level from here on are in no list.
        hidden: Entries of a definition level from here on are no item.
        offsets: Room for one more than there are lists.

    Returns:
        Number of items.
    """
    slot = 0
    item = 0
    for entry in range(len(rep)):
        offsets[slot] = item
        level = definition[entry]
        slot += (rep[entry] >= lowest) & (level < below)
        item += (rep[entry] + 1 >= lowest) & (level < hidden)
    offsets[slot] = item
    return item


@njit(
    types.int64(
        _LEVELS, _LEVELS, types.uint16, types.uint16, types.uint16, _BYTES, types.int32[::1], types.uint8[::1]
    ),
    cache=True,
    nogil=True,
)
def count_and_pick(rep, definition, lowest, below, hidden, codes, offsets, found):  # type: ignore[no-untyped-def]
    """Where the items of lists begin, and a code for each list; see `count_items` and `pick_codes`."""
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


@njit(types.int64(_LEVELS, types.uint16, _BYTES, types.uint8[::1]), cache=True, nogil=True)
def pick_visible_codes(definition, below, codes, found):  # type: ignore[no-untyped-def]
    """A code for each slot of the innermost layers; see `pick_codes`."""
    slot = 0
    for entry in range(len(definition)):
        level = definition[entry]
        found[slot] = codes[level]
        slot += level < below
    return slot


@njit(
    types.int64(_LEVELS, _LEVELS, types.uint16, types.uint16, _BYTES, types.uint8[::1]),
    cache=True,
    nogil=True,
)
def pick_codes(rep, definition, lowest, below, codes, found):  # type: ignore[no-untyped-def]
    """A code for each slot of a layer.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many.
        lowest: Entries of a repetition level from here on have a slot.
        below: Those of a definition level from here on have none.
        codes: The code of each definition level.
        found: Room for one more than there are slots.
    """
    slot = 0
    for entry in range(len(rep)):
        level = definition[entry]
        found[slot] = codes[level]
        slot += (rep[entry] >= lowest) & (level < below)
    return slot


@njit(types.void(_LEVELS, types.uint16, _NUMBERS, types.int64[::1]), cache=True, nogil=True)
def cut(definition, below, values, cuts):  # type: ignore[no-untyped-def]
    """Entries at which chunks end that end with a value.

    Args:
        definition: Definition levels.
        below: Entries of a level from here on have no value.
        values: Values up to the end of each chunk.
        cuts: Room for as many entries.
    """
    entry = 0
    seen = 0
    for chunk in range(len(values)):
        while seen < values[chunk] and entry < len(definition):
            seen += definition[entry] < below
            entry += 1
        cuts[chunk] = entry


@njit(types.void(_LEVELS, types.uint16, _NUMBERS, types.int64[::1], types.int64[::1]), cache=True, nogil=True)
def find_rows(rep, highest, ends, begun, lasts):  # type: ignore[no-untyped-def]
    """Rows that begin in each chunk.

    Args:
        rep: Repetition levels.
        highest: Of an entry that begins a row.
        ends: Entries up to the end of each chunk, none beyond the last one.
        begun: Room for the number of rows that begin in each.
        lasts: Room for the entry at which the last row begins that began in a chunk or before it.
    """
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
