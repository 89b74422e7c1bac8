"""Decoding strings that were compressed by a table of symbols.

Codes are decoded as one stream, whatever strings they belong to, and the position in the output is noted for
each code: strings of a few codes each would otherwise cost more for their ends than for their codes.

The positions of strings and the room in the output are checked here, so that no bytes whatsoever make a
kernel leave its arrays. The bits of all escaped bytes are gathered in `literals`.
"""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.words import (
    BYTES,
    READONLY_BYTES,
    load_u32,
    load_u64,
    store_u64,
    trailing_zeros,
)

# As many marks as fit into the fastest cache beside the table and what is decoded.
_BLOCK = 1024
# Eight codes of the longest symbols, the last of which is written as a whole word.
_MOST_AT_ONCE = 72
_ESCAPE = 255
_ONES = np.uint64(0x0101010101010101)
_LOWER = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGHEST = np.uint64(0x8080808080808080)
_BYTE = np.uint64(255)

_MALFORMED = -1
_ENDS_WITHIN_ESCAPE = -2
_UNKNOWN_SYMBOL = -3
NO_ROOM = -4

_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"))


@njit(inline="always")
def _find_odd(word, known):
    """The highest bit of each byte that is no code of a symbol: an escape, or unknown.

    What a byte's lower bits lack to the number of symbols is added to them; there is no carry from one byte
    into the next. Below 128 symbols the highest bit alone is enough, from there on it is necessary.
    """
    few = known < 128
    lacking = np.uint64(128 - known if few else 256 - known) * _ONES
    above = (word & _LOWER) + lacking
    return ((above | word) if few else (above & word)) & _HIGHEST


@njit
def _decode(data, positions, count, words, lengths, known, out, at, out_offsets, first, marks, literals):
    position = positions[0]
    stop = positions[count]
    most = np.uint64(known)
    full = len(out) - _MOST_AT_ONCE
    value = 0
    while position < stop:
        start = position
        limit = min(position + _BLOCK, stop)
        while position < limit:
            if at > full:
                return NO_ROOM
            codes = limit - position
            if codes >= 8:
                word = load_u64(data, position)
                odd = _find_odd(word, known)
                if odd == 0:
                    mark = np.uint64(position - start)
                    for number in range(8):
                        code = (word >> np.uint64(8 * number)) & _BYTE
                        marks[mark + np.uint64(number)] = at
                        store_u64(out, at, words[code])
                        at += lengths[code]
                    position += 8
                    continue
                codes = trailing_zeros(odd) >> 3
            for _ in range(codes):
                code = np.uint64(data[position])
                if code >= most:
                    break
                marks[position - start] = at
                store_u64(out, at, words[code])
                at += lengths[code]
                position += 1
            if position < limit and data[position] >= known:
                if data[position] != _ESCAPE:
                    return _UNKNOWN_SYMBOL
                if position + 1 >= stop:
                    return _ENDS_WITHIN_ESCAPE
                marks[position - start] = at
                marks[position + 1 - start] = -1
                out[at] = data[position + 1]
                literals[0] |= data[position + 1]
                at += 1
                position += 2
        while value < count and positions[value] < position:
            if positions[value] < start:
                return _MALFORMED
            mark = marks[np.uint64(positions[value] - start)]
            if mark < 0:
                return _ENDS_WITHIN_ESCAPE
            out_offsets[first + value] = mark
            value += 1
    while value < count:
        if positions[value] != stop:
            return _MALFORMED
        out_offsets[first + value] = at
        value += 1
    return at


@njit
def _find_positions(data, start, size, count, width, positions):
    before = (count + 1) * width
    for value in range(count + 1):
        if width == 4:
            offset = np.int64(load_u32(data, start + value * 4))
        else:
            offset = np.int64(load_u64(data, start + value * 8))
        if offset < before:
            return False
        before = offset
        positions[value] = start + offset
    return before <= size


_CHUNKS = (READONLY_BYTES, _INTEGERS, _INTEGERS, _INTEGERS, types.int64, _INTEGERS)
_TABLES = (_WORDS, _INTEGERS, _INTEGERS, BYTES, BYTES)


@njit([types.int64(*_CHUNKS, *_TABLES, offsets) for offsets in _OFFSETS], cache=True, nogil=True)
def decode_chunks(
    data, starts, sizes, counts, width, tables, words, lengths, known, literals, out, out_offsets
):
    """The chunks lie within the data, and have room for their offsets; their tables exist."""
    most = 0
    for chunk in range(len(counts)):
        most = max(most, counts[chunk])
    positions = np.empty(most + 1, dtype=np.int64)
    marks = np.empty(_BLOCK + 2, dtype=np.int64)
    at = 0
    first = 0
    for chunk in range(len(counts)):
        count = counts[chunk]
        if not _find_positions(data, starts[chunk], sizes[chunk], count, width, positions):
            return _MALFORMED
        table = tables[chunk]
        at = _decode(
            data,
            positions,
            count,
            words[table * 256 : (table + 1) * 256],
            lengths[table * 256 : (table + 1) * 256],
            known[table],
            out,
            at,
            out_offsets,
            first,
            marks,
            literals,
        )
        if at < 0:
            return at
        first += count
    out_offsets[first] = at
    return at


_VALUES = (READONLY_BYTES, _INTEGERS)
_DECODED = (_WORDS, _INTEGERS, types.int64, BYTES, BYTES)


@njit([types.int64(*_VALUES, *_DECODED, offsets) for offsets in _OFFSETS], cache=True, nogil=True)
def decode_values(data, positions, words, lengths, known, literals, out, out_offsets):
    """The first and the last position lie within the data."""
    count = len(positions) - 1
    marks = np.empty(_BLOCK + 2, dtype=np.int64)
    at = _decode(data, positions, count, words, lengths, known, out, 0, out_offsets, 0, marks, literals)
    if at >= 0:
        out_offsets[count] = at
    return at


@njit
def _decode_one(data, position, stop, words, lengths, known, out, at, literals):
    """A string of its own, for which no positions need be noted."""
    most = np.uint64(known)
    full = len(out) - _MOST_AT_ONCE
    while position < stop:
        if at > full:
            return NO_ROOM
        codes = stop - position
        if codes >= 8:
            word = load_u64(data, position)
            odd = _find_odd(word, known)
            if odd == 0:
                for number in range(8):
                    code = (word >> np.uint64(8 * number)) & _BYTE
                    store_u64(out, at, words[code])
                    at += lengths[code]
                position += 8
                continue
            codes = trailing_zeros(odd) >> 3
        for _ in range(codes):
            code = np.uint64(data[position])
            if code >= most:
                break
            store_u64(out, at, words[code])
            at += lengths[code]
            position += 1
        if position < stop and data[position] >= known:
            if data[position] != _ESCAPE:
                return _UNKNOWN_SYMBOL
            if position + 1 >= stop:
                return _ENDS_WITHIN_ESCAPE
            out[at] = data[position + 1]
            literals[0] |= data[position + 1]
            at += 1
            position += 2
    return at


_SLICES = (READONLY_BYTES, _INTEGERS, _INTEGERS)


@njit([types.int64(*_SLICES, *_DECODED, offsets) for offsets in _OFFSETS], cache=True, nogil=True)
def decode_slices(data, starts, sizes, words, lengths, known, literals, out, out_offsets):
    """Strings that lie apart, each of them within the data."""
    at = 0
    for value in range(len(starts)):
        out_offsets[value] = at
        stop = starts[value] + sizes[value]
        at = _decode_one(data, starts[value], stop, words, lengths, known, out, at, literals)
        if at < 0:
            return at
    out_offsets[len(starts)] = at
    return at
