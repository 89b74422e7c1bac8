"""Decoding strings that were compressed by a table of symbols.

Codes are decoded as one stream, whatever strings they belong to, and the position in the output is noted for
each code: strings of a few codes each would otherwise cost more for their ends than for their codes.

The output has room for the longest symbol at every code and for one word more; the positions of strings are
checked here, so that no bytes whatsoever make a kernel leave its arrays. The bits of all escaped bytes are
gathered in `literals`.
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

_BLOCK = 4096
_ONES = np.uint64(0x0101010101010101)
_HIGHEST = np.uint64(0x8080808080808080)

_MALFORMED = -1
_ENDS_WITHIN_ESCAPE = -2
_UNKNOWN_SYMBOL = -3

_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"))


@njit
def _decode(data, positions, count, words, lengths, out, at, out_offsets, first, marks, literals):
    position = positions[0]
    stop = positions[count]
    value = 0
    shortest = 8
    while position < stop:
        start = position
        base = at
        limit = min(position + _BLOCK, stop)
        while position < limit:
            codes = min(limit - position, 8)
            if codes == 8:
                word = load_u64(data, position)
                # The usual test for a byte that is zero, which an escape is in the complement.
                rest = ~word
                escapes = (rest - _ONES) & ~rest & _HIGHEST
                if escapes == 0:
                    for _ in range(8):
                        code = np.intp(word & np.uint64(255))
                        word >>= np.uint64(8)
                        marks[position - start] = at - base
                        store_u64(out, at, words[code])
                        at += lengths[code]
                        shortest = min(shortest, lengths[code])
                        position += 1
                    continue
                codes = trailing_zeros(escapes) >> 3
            for _ in range(codes):
                code = np.intp(data[position])
                if code == 255:
                    break
                marks[position - start] = at - base
                store_u64(out, at, words[code])
                at += lengths[code]
                shortest = min(shortest, lengths[code])
                position += 1
            if position < limit and data[position] == 255:
                if position + 1 >= stop:
                    return _ENDS_WITHIN_ESCAPE
                marks[position - start] = at - base
                marks[position + 1 - start] = -1
                out[at] = data[position + 1]
                literals[0] |= data[position + 1]
                at += 1
                position += 2
        while value < count and positions[value] < position:
            if positions[value] < start:
                return _MALFORMED
            mark = marks[positions[value] - start]
            if mark < 0:
                return _ENDS_WITHIN_ESCAPE
            out_offsets[first + value] = base + mark
            value += 1
    while value < count:
        if positions[value] != stop:
            return _MALFORMED
        out_offsets[first + value] = at
        value += 1
    if shortest == 0:
        return _UNKNOWN_SYMBOL
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


_CHUNKS = (READONLY_BYTES, _INTEGERS, _INTEGERS, _INTEGERS, types.int64, _WORDS, _INTEGERS, BYTES, BYTES)


@njit([types.int64(*_CHUNKS, offsets) for offsets in _OFFSETS], cache=True, nogil=True)
def decode_chunks(data, starts, sizes, counts, width, words, lengths, literals, out, out_offsets):
    """The chunks lie within the data, and have room for their offsets."""
    most = 0
    for chunk in range(len(counts)):
        most = max(most, counts[chunk])
    positions = np.empty(most + 1, dtype=np.int64)
    marks = np.empty(_BLOCK + 2, dtype=np.int32)
    at = 0
    first = 0
    for chunk in range(len(counts)):
        count = counts[chunk]
        if not _find_positions(data, starts[chunk], sizes[chunk], count, width, positions):
            return _MALFORMED
        at = _decode(data, positions, count, words, lengths, out, at, out_offsets, first, marks, literals)
        if at < 0:
            return at
        first += count
    out_offsets[first] = at
    return at


_VALUES = (READONLY_BYTES, _INTEGERS, _WORDS, _INTEGERS, BYTES, BYTES)


@njit([types.int64(*_VALUES, offsets) for offsets in _OFFSETS], cache=True, nogil=True)
def decode_values(data, positions, words, lengths, literals, out, out_offsets):
    """The first and the last position lie within the data."""
    count = len(positions) - 1
    marks = np.empty(_BLOCK + 2, dtype=np.int32)
    at = _decode(data, positions, count, words, lengths, out, 0, out_offsets, 0, marks, literals)
    if at >= 0:
        out_offsets[count] = at
    return at


@njit
def _decode_one(data, position, stop, words, lengths, out, at, literals):
    """A string of its own, for which no positions need be noted."""
    shortest = 8
    while position < stop:
        codes = min(stop - position, 8)
        if codes == 8:
            word = load_u64(data, position)
            rest = ~word
            escapes = (rest - _ONES) & ~rest & _HIGHEST
            if escapes == 0:
                for _ in range(8):
                    code = np.intp(word & np.uint64(255))
                    word >>= np.uint64(8)
                    store_u64(out, at, words[code])
                    at += lengths[code]
                    shortest = min(shortest, lengths[code])
                position += 8
                continue
            codes = trailing_zeros(escapes) >> 3
        for _ in range(codes):
            code = np.intp(data[position])
            if code == 255:
                break
            store_u64(out, at, words[code])
            at += lengths[code]
            shortest = min(shortest, lengths[code])
            position += 1
        if position < stop and data[position] == 255:
            if position + 1 >= stop:
                return _ENDS_WITHIN_ESCAPE
            out[at] = data[position + 1]
            literals[0] |= data[position + 1]
            at += 1
            position += 2
    return _UNKNOWN_SYMBOL if shortest == 0 else at


_SLICES = (READONLY_BYTES, _INTEGERS, _INTEGERS, _WORDS, _INTEGERS, BYTES, BYTES)


@njit([types.int64(*_SLICES, offsets) for offsets in _OFFSETS], cache=True, nogil=True)
def decode_slices(data, starts, sizes, words, lengths, literals, out, out_offsets):
    """Strings that lie apart, each of them within the data."""
    at = 0
    for value in range(len(starts)):
        out_offsets[value] = at
        at = _decode_one(data, starts[value], starts[value] + sizes[value], words, lengths, out, at, literals)
        if at < 0:
            return at
    out_offsets[len(starts)] = at
    return at
