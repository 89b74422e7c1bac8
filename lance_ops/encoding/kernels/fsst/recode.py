"""Replacing the codes of compressed strings by those of another table, in chunks that are cut anew.

A code takes a load and a store, a fraction of what it takes to search the symbols of a string again.
"""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.words import (
    BYTES,
    READONLY_BYTES,
    copy_bytes,
    load_u32,
    load_u64,
    peek_u8,
    peek_u64,
    poke_u32,
    poke_u64,
    store_u32,
    store_u64,
)

MALFORMED = -1
ENDS_WITHIN_ESCAPE = -2
UNKNOWN_SYMBOL = -3
NO_ROOM = -4
_CODES = 256
_ROOM = 8
_MAX_COUNT = 1 << 15
_ESCAPE = 255
_ONE, _FOUR, _EIGHT, _ESCAPED = np.uint64(1), np.uint64(4), np.uint64(8), np.uint64(_ESCAPE)
_BYTE = np.uint64(255)
_NOWHERE = np.uint32(0xFFFFFFFF)


_INTEGERS = types.Array(types.int64, 1, "C")
_READONLY_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_READONLY_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_CHUNKS = (READONLY_BYTES, _READONLY_INTEGERS, _READONLY_INTEGERS, _READONLY_INTEGERS, types.int64)


@njit
def _offset(data, start, value, width):
    if width == 4:
        return np.int64(load_u32(data, start + value * 4))
    return np.int64(load_u64(data, start + value * 8))


@njit(
    types.int64(*_CHUNKS, _READONLY_INTEGERS, _INTEGERS, _INTEGERS),
    cache=True,
    nogil=True,
)
def count(data, starts, sizes, counts, width, tables, codes, literals):
    """Add up how often each code occurs, by table, and each escaped byte."""
    seen = np.int64(0)
    for chunk in range(len(counts)):
        first = _offset(data, starts[chunk], 0, width)
        stop = _offset(data, starts[chunk], counts[chunk], width)
        if first < (counts[chunk] + 1) * width or stop < first or stop > sizes[chunk]:
            return MALFORMED
        base = tables[chunk] * _CODES
        position = starts[chunk] + first
        stop += starts[chunk]
        seen += stop - position
        while position < stop:
            code = data[position]
            position += 1
            if code != _ESCAPE:
                codes[base + code] += 1
            elif position < stop:
                literals[data[position]] += 1
                position += 1
    return seen


@njit
def _replace(codes, count, words, more, sizes, literals, literal_sizes, out, marks):
    """Write the codes that stand for others, and note where each begins; how many bytes, or an error.

    All but the count are addresses: numba would count references of arrays at every branch.
    """
    at = np.uint64(0)
    place = np.uint64(0)
    stop = np.uint64(count)
    alone = np.uint64(0)
    while place < stop:
        if place >= alone and place + _EIGHT <= stop:
            # Eight at once, unless one of them turns out to be another matter.
            word = peek_u64(codes + place)
            next_at = at
            odd = np.uint64(0)
            for number in range(8):
                code = (word >> np.uint64(8 * number)) & _BYTE
                poke_u32(marks + (place + np.uint64(number)) * _FOUR, np.uint32(next_at))
                poke_u64(out + next_at, peek_u64(words + code * _EIGHT))
                size = peek_u8(sizes + code)
                odd |= size - _ONE
                next_at += size
            if odd < _EIGHT:
                at = next_at
                place += _EIGHT
                continue
            alone = place + _EIGHT
        code = peek_u8(codes + place)
        poke_u32(marks + place * _FOUR, np.uint32(at))
        size = peek_u8(sizes + code)
        place += _ONE
        if size - _ONE < _EIGHT:
            poke_u64(out + at, peek_u64(words + code * _EIGHT))
            at += size
        elif size:
            poke_u64(out + at, peek_u64(words + code * _EIGHT))
            poke_u64(out + at + _EIGHT, peek_u64(more + code * _EIGHT))
            at += size
        else:
            if code != _ESCAPED:
                return UNKNOWN_SYMBOL
            if place == stop:
                return ENDS_WITHIN_ESCAPE
            byte = peek_u8(codes + place)
            # No string begins within an escape.
            poke_u32(marks + place * _FOUR, _NOWHERE)
            poke_u64(out + at, peek_u64(literals + byte * _EIGHT))
            at += peek_u8(literal_sizes + byte)
            place += _ONE
    poke_u32(marks + stop * _FOUR, np.uint32(at))
    return np.int64(at)


@njit
def _fitting(ends, first, pending, width, chunk_bytes):
    """Values of the next chunk, when not all that wait go into one."""
    low = ends[first]
    count = np.int64(2)
    most = min(pending, _MAX_COUNT)
    while 2 * count <= most and (2 * count + 1) * width + ends[first + 2 * count] - low <= chunk_bytes:
        count *= 2
    return count


@njit(
    types.int64(
        *_CHUNKS,
        _READONLY_INTEGERS,
        _READONLY_WORDS,
        _READONLY_WORDS,
        READONLY_BYTES,
        _READONLY_WORDS,
        READONLY_BYTES,
        _READONLY_INTEGERS,
        _READONLY_INTEGERS,
        types.int64,
        BYTES,
        _INTEGERS,
        _INTEGERS,
        _INTEGERS,
    ),
    cache=True,
    nogil=True,
)
def rewrite(
    data,
    starts,
    sizes,
    counts,
    width,
    tables,
    words,
    more,
    word_sizes,
    literals,
    literal_sizes,
    gone_starts,
    gone_stops,
    chunk_bytes,
    out,
    out_counts,
    out_starts,
    out_sizes,
):
    """Replace the codes of strings, and cut the strings into chunks again; see the front."""
    most_codes = np.int64(0)
    most_values = np.int64(0)
    for chunk in range(len(counts)):
        most_codes = max(most_codes, sizes[chunk])
        most_values = max(most_values, counts[chunk])
    # What waits for the next chunk takes less than a chunk, or is one value.
    waiting = np.empty(chunk_bytes + 2 * 16 * (most_codes + 1) + 16, dtype=np.uint8)
    marks = np.empty(most_codes + 2, dtype=np.uint32)
    ends = np.empty(_MAX_COUNT + most_values + 2, dtype=np.int64)
    ends[0] = 0
    pending = np.int64(0)
    cursor = np.int64(0)
    made = np.int64(0)
    value = np.int64(0)
    gone = 0
    for chunk in range(len(counts) + 1):
        is_end = chunk == len(counts)
        if not is_end:
            start = starts[chunk]
            count = counts[chunk]
            before = _offset(data, start, 0, width)
            if before < (count + 1) * width or before > sizes[chunk]:
                return MALFORMED
            base = np.uint64(tables[chunk] * _CODES)
            number = np.int64(0)
            while number < count:
                stop = count
                if gone < len(gone_starts):
                    if gone_starts[gone] <= value + number:
                        number = min(count, gone_stops[gone] - value)
                        before = _offset(data, start, number, width)
                        if before < (count + 1) * width or before > sizes[chunk]:
                            return MALFORMED
                        if gone_stops[gone] <= value + count:
                            gone += 1
                        continue
                    stop = min(count, gone_starts[gone] - value)
                last = _offset(data, start, stop, width)
                if last < before or last > sizes[chunk]:
                    return MALFORMED
                low = ends[pending]
                size = _replace(
                    np.uint64(data.ctypes.data + start + before),
                    last - before,
                    np.uint64(words.ctypes.data) + base * _EIGHT,
                    np.uint64(more.ctypes.data) + base * _EIGHT,
                    np.uint64(word_sizes.ctypes.data) + base,
                    np.uint64(literals.ctypes.data),
                    np.uint64(literal_sizes.ctypes.data),
                    np.uint64(waiting.ctypes.data + low),
                    np.uint64(marks.ctypes.data),
                )
                if size < 0:
                    return size
                for other in range(number + 1, stop + 1):
                    offset = _offset(data, start, other, width)
                    if offset < before or offset > last:
                        return MALFORMED
                    mark = marks[offset - before]
                    if mark == _NOWHERE:
                        return ENDS_WITHIN_ESCAPE
                    pending += 1
                    ends[pending] = low + np.int64(mark)
                    if ends[pending] < ends[pending - 1]:
                        return MALFORMED
                before = last
                number = stop
            value += count
        first = np.int64(0)
        while pending - first > 1 or (is_end and pending > first):
            rest = pending - first
            fits = rest <= _MAX_COUNT and (rest + 1) * width + ends[pending] - ends[first] <= chunk_bytes
            if fits and not is_end:
                break
            amount = rest
            if not fits:
                amount = min(rest, _fitting(ends, first, rest, width, chunk_bytes))
            low = ends[first]
            head = (amount + 1) * width
            body = ends[first + amount] - low
            size = (head + body + (width - 1)) & -width
            if made == len(out_counts) or cursor + size + 16 > len(out):
                return NO_ROOM
            # In front of a chunk is room for its header, and zeros fill its last word.
            place = cursor + _ROOM
            store_u64(out, cursor, np.uint64(0))
            store_u64(out, place + ((size + 7) & -8) - 8, np.uint64(0))
            for other in range(amount + 1):
                offset = head + ends[first + other] - low
                if width == 4:
                    store_u32(out, place + other * 4, np.uint32(offset))
                else:
                    store_u64(out, place + other * 8, np.uint64(offset))
            copy_bytes(out, place + head, waiting, low, body)
            out_counts[made] = amount
            out_starts[made] = place
            out_sizes[made] = size
            made += 1
            first += amount
            cursor = place + ((size + 7) & -8)
        if first:
            low = ends[first]
            left = ends[pending] - low
            for byte in range(left):
                waiting[byte] = waiting[low + byte]
            for other in range(pending - first + 1):
                ends[other] = ends[first + other] - low
            pending -= first
    return made
