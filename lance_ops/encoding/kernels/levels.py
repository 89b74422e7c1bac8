"""Compiled loops over levels: unpacking them, and turning them into offsets and validity.

The lengths of lists cannot be predicted, so that a branch in these loops costs more than all the rest: they
write at every entry, and move on only at those that count.
"""

import numpy as np
from numba import njit, types

_LEVELS = types.Array(types.uint16, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_PACKED = types.Array(types.uint64, 1, "C", readonly=True, aligned=False)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)

_BLOCK = 1024
_ROW_WORDS = 16
_ROWS = 16


@njit(
    types.int64(_PACKED, _BYTES, _NUMBERS, _NUMBERS, _NUMBERS, types.int64, types.uint16[::1]),
    cache=True,
    nogil=True,
)
def unpack(words, data, starts, sizes, counts, width, levels):  # type: ignore[no-untyped-def]
    """Unpack the levels of chunks, all of the same width.

    A row of a block is 16 words of 64 bits, each with four levels, which are shifted at once.

    Args:
        words: The bytes as words.
        data: The bytes.
        starts: First byte of each chunk's levels, multiples of 8.
        sizes: Bytes of each, all within the data.
        counts: Levels of each.
        width: Bits of a level, 1 to 16.
        levels: Room for all levels.

    Returns:
        0, or -1 when a chunk is too short.
    """
    lanes = np.uint64(0x0001000100010001)
    bits = np.uint64(width)
    every = np.uint64(16)
    mask = ((np.uint64(1) << bits) - np.uint64(1)) * lanes
    block_words = _ROW_WORDS * width
    scratch = np.empty(_BLOCK // 4, dtype=np.uint64)
    found = scratch.view(np.uint16)
    done = 0
    for chunk in range(len(starts)):
        left = counts[chunk]
        word = starts[chunk] >> 3
        tail = left % _BLOCK
        whole = left // _BLOCK
        plain = tail > 0 and sizes[chunk] == whole * block_words * 8 + tail * 2
        if tail > 0 and not plain:
            whole += 1
        if sizes[chunk] < whole * block_words * 8:
            return -1
        for _ in range(whole):
            shift = np.uint64(0)
            source = word
            for row in range(_ROWS):
                eighth = (0x73516240 >> (4 * (row >> 3))) & 7
                first = (eighth * 16 + (row & 7) * 128) >> 2
                room = every - shift
                if bits <= room:
                    for lane in range(_ROW_WORDS):
                        scratch[first + lane] = (words[source + lane] >> shift) & mask
                    shift += bits
                    if shift == every:
                        shift = np.uint64(0)
                        source += _ROW_WORDS
                else:
                    low = ((np.uint64(1) << room) - np.uint64(1)) * lanes
                    high = mask ^ low
                    for lane in range(_ROW_WORDS):
                        scratch[first + lane] = ((words[source + lane] >> shift) & low) | (
                            (words[source + _ROW_WORDS + lane] << room) & high
                        )
                    shift = bits - room
                    source += _ROW_WORDS
            word += block_words
            taken = min(left, _BLOCK)
            for item in range(taken):
                levels[done + item] = found[item]
            done += taken
            left -= taken
        if plain:
            byte = starts[chunk] + whole * block_words * 8
            for item in range(tail):
                levels[done + item] = np.uint16(data[byte + 2 * item]) | (
                    np.uint16(data[byte + 2 * item + 1]) << np.uint16(8)
                )
            done += tail
    return 0


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
