"""FSST decoding.

Tables of symbols are spread over all 256 codes: `words` are the bytes of each symbol, the first one lowest,
and `lengths` how many they are, both 0 for the codes that stand for nothing and for the escape, 255. Bytes of
the compressed strings are checked, and the room in the output is.

Codes are decoded as one stream, whatever strings they belong to, and the position in the output is noted for
each code: strings of a few codes each would otherwise cost more for their ends than for their codes.

The positions of strings and the room in the output are checked here, so that no bytes whatsoever make a
kernel leave its arrays. The bits of all escaped bytes are gathered in `literals`.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import (
    BYTES,
    READONLY_BYTES,
    load_u32,
    load_u64,
    store_u64,
    trailing_zeros,
)

SPARE_BYTES = 72

# As many marks as fit into the fastest cache beside the table and what is decoded.
_BLOCK = 1024
# Eight codes of the longest symbols, the last of which is written as a whole word.
_MOST_AT_ONCE = 72
_ESCAPE = 255
_ONES = np.uint64(0x0101010101010101)
_LOWER = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGHEST = np.uint64(0x8080808080808080)
_BYTE = np.uint64(255)
MALFORMED = -1
ENDS_WITHIN_ESCAPE = -2
UNKNOWN_SYMBOL = -3
NO_ROOM = -4
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"))


@inner(inline="always")
def _find_odd(word, known):
    """The highest bit of each byte that is no code of a symbol: an escape, or unknown.

    What a byte's lower bits lack to the number of symbols is added to them; there is no carry from one byte
    into the next. Below 128 symbols the highest bit alone is enough, from there on it is necessary.
    """
    few = known < 128
    lacking = np.uint64(128 - known if few else 256 - known) * _ONES
    above = (word & _LOWER) + lacking
    return ((above | word) if few else (above & word)) & _HIGHEST


@inner
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
                    return UNKNOWN_SYMBOL
                if position + 1 >= stop:
                    return ENDS_WITHIN_ESCAPE
                marks[position - start] = at
                marks[position + 1 - start] = -1
                out[at] = data[position + 1]
                literals[0] |= data[position + 1]
                at += 1
                position += 2
        while value < count and positions[value] < position:
            if positions[value] < start:
                return MALFORMED
            mark = marks[np.uint64(positions[value] - start)]
            if mark < 0:
                return ENDS_WITHIN_ESCAPE
            out_offsets[first + value] = mark
            value += 1
    while value < count:
        if positions[value] != stop:
            return MALFORMED
        out_offsets[first + value] = at
        value += 1
    return at


@inner
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


@loop([types.int64(*_CHUNKS, *_TABLES, offsets) for offsets in _OFFSETS])
def _decode_chunks(
    data, starts, sizes, counts, width, tables, words, lengths, known, literals, out, out_offsets
):
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
            return MALFORMED
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


@loop([types.int64(*_VALUES, *_DECODED, offsets) for offsets in _OFFSETS])
def _decode_values(data, positions, words, lengths, known, literals, out, out_offsets):
    count = len(positions) - 1
    marks = np.empty(_BLOCK + 2, dtype=np.int64)
    at = _decode(data, positions, count, words, lengths, known, out, 0, out_offsets, 0, marks, literals)
    if at >= 0:
        out_offsets[count] = at
    return at


@inner
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
                return UNKNOWN_SYMBOL
            if position + 1 >= stop:
                return ENDS_WITHIN_ESCAPE
            out[at] = data[position + 1]
            literals[0] |= data[position + 1]
            at += 1
            position += 2
    return at


_SLICES = (READONLY_BYTES, _INTEGERS, _INTEGERS)


@loop([types.int64(*_SLICES, *_DECODED, offsets) for offsets in _OFFSETS])
def _decode_slices(data, starts, sizes, words, lengths, known, literals, out, out_offsets):
    at = 0
    for value in range(len(starts)):
        out_offsets[value] = at
        stop = starts[value] + sizes[value]
        at = _decode_one(data, starts[value], stop, words, lengths, known, out, at, literals)
        if at < 0:
            return at
    out_offsets[len(starts)] = at
    return at


def decode_values(
    *,
    data: Bytes,
    positions: Integers,
    words: Words64,
    lengths: Integers,
    known: int,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode consecutive strings.

    Args:
        data: Their codes.
        positions: Shape (strings + 1,): where they begin, and the end; the first and the last within the
            data.
        words: Shape (256,): of the symbols.
        lengths: Shape (256,): of the symbols, in bytes, at most 8.
        known: Number of symbols, whose codes are the lowest ones.
        literals: Shape (1,): all escaped bytes are or-ed to it.
        out: Room for the bytes, and `SPARE_BYTES` more, which may be written.
        out_offsets: Shape (strings + 1,): gets the offsets, of a type that counts as far.

    Returns:
        The bytes of all strings, or what is wrong: `MALFORMED` positions, `ENDS_WITHIN_ESCAPE`,
        `UNKNOWN_SYMBOL`, or `NO_ROOM`.
    """
    return int(_decode_values(data, positions, words, lengths, known, literals, out, out_offsets))


def decode_chunks(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    words: Words64,
    lengths: Integers,
    known: Integers,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode the strings of chunks, each of which holds offsets and codes; see `decode_values`.

    Args:
        data: The bytes of all chunks.
        starts: Shape (chunks,): first byte of each.
        sizes: Shape (chunks,): bytes of each, all within the data, with room for its offsets.
        counts: Shape (chunks,): strings of each.
        width: Bytes of an offset: 4 or 8.
        tables: Shape (chunks,): number of the table of each.
        words: Shape (256 * tables,): of the symbols.
        lengths: Shape (256 * tables,): of the symbols, in bytes, at most 8.
        known: Shape (tables,): number of symbols of each table.
        literals: Shape (1,): all escaped bytes are or-ed to it.
        out: Room for the bytes, and `SPARE_BYTES` more, which may be written.
        out_offsets: Shape (strings + 1,): gets the offsets, of a type that counts as far.

    Returns:
        The bytes of all strings, or what is wrong.
    """
    chunks = (data, starts, sizes, counts, width, tables)
    return int(_decode_chunks(*chunks, words, lengths, known, literals, out, out_offsets))


def decode_slices(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    words: Words64,
    lengths: Integers,
    known: int,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode strings that lie apart; see `decode_values`.

    Args:
        data: Bytes that hold their codes.
        starts: Shape (strings,): first byte of each, within the data.
        sizes: Shape (strings,): bytes of each, within the data.
        words: Shape (256,): of the symbols.
        lengths: Shape (256,): of the symbols, in bytes, at most 8.
        known: Number of symbols.
        literals: Shape (1,): all escaped bytes are or-ed to it.
        out: Room for the bytes, and `SPARE_BYTES` more, which may be written.
        out_offsets: Shape (strings + 1,): gets the offsets, of a type that counts as far.

    Returns:
        The bytes of all strings, or what is wrong.
    """
    table = (words, lengths, known)
    return int(_decode_slices(data, starts, sizes, *table, literals, out, out_offsets))
