"""Compiled loops of dropping rows from encoded pages."""

import numba
import numpy as np
from numba import types

from lance_ops.encoding.kernels.words import copy_bytes, load_u32, load_u64

MALFORMED = -1
TOO_LARGE = -2

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)


@numba.njit(types.int64(_BYTES, _INTEGERS, _INTEGERS, types.uint8[::1]), cache=True, nogil=True)
def gather_ranges(data, starts, stops, out):  # type: ignore[no-untyped-def] # noqa: D103
    written = 0
    size = len(data)
    space = len(out)
    for index in range(len(starts)):
        start = starts[index]
        stop = stops[index]
        if start < 0 or stop < start or stop > size or written + stop - start > space:
            return -1
        copy_bytes(out, written, data, start, stop - start)
        written += stop - start
    return written


@numba.njit(
    types.int64(
        _BYTES,
        _INTEGERS,
        _INTEGERS,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64[::1],
    ),
    cache=True,
    nogil=True,
)
def count_entries(  # type: ignore[no-untyped-def] # noqa: D103
    data,
    starts,
    stops,
    control_bytes,
    def_bits,
    length_bytes,
    value_bytes,
    visible_below,
    counts,
):
    mask = (np.int64(1) << def_bits) - 1
    size = len(data)
    for index in range(len(starts)):
        cursor = starts[index]
        stop = stops[index]
        if cursor < 0 or stop > size:
            return -1
        while cursor < stop:
            begin = cursor
            if cursor + control_bytes > stop:
                return -1
            word = np.int64(0)
            for byte in range(control_bytes):
                word |= np.int64(data[cursor + byte]) << (8 * byte)
            cursor += control_bytes
            level = word & mask
            if length_bytes > 0:
                if level == 0:
                    if cursor + length_bytes > stop:
                        return -1
                    length = np.int64(0)
                    for byte in range(length_bytes):
                        length |= np.int64(data[cursor + byte]) << (8 * byte)
                    cursor += length_bytes
                    if length < 0 or length > stop - cursor:
                        return -1
                    cursor += length
            elif level < visible_below:
                if value_bytes > stop - cursor:
                    return -1
                cursor += value_bytes
            if cursor == begin:
                return -1
            counts[0] += 1
            if level < visible_below:
                counts[1] += 1
    return 0


_WORDS = (types.Array(types.uint32, 1, "C"), types.Array(types.uint64, 1, "C"))
_MAX_COUNT = 1 << 15


@numba.njit(
    [
        types.int64(
            _BYTES,
            _BYTES,
            types.int64,
            types.int64,
            _INTEGERS,
            _INTEGERS,
            types.int64,
            types.int64,
            types.uint8[::1],
            types.uint8[::1],
            words,
            types.int64[::1],
        )
        for words in _WORDS
    ],
    cache=True,
    nogil=True,
)
def keep_strings(  # type: ignore[no-untyped-def]
    table,
    data,
    word_bytes,
    num_values,
    gone_starts,
    gone_stops,
    chunk_bytes,
    limit,
    new_table,
    new_data,
    new_words,
    used,
):
    """Cut the values that stay of a page without levels into chunks again.

    Args:
        table: The words that describe the chunks.
        data: The chunks.
        word_bytes: Bytes of a word, and of the size of a value buffer: 2 or 4.
        num_values: Of the page.
        gone_starts: The first of each run of values that go, ascending.
        gone_stops: The end of each.
        chunk_bytes: What the buffer of a chunk holds at most, if it is not of two values only.
        limit: What it holds at most.
        new_table: Room for the new words.
        new_data: Room for the new chunks.
        new_words: The same in words as wide as an offset.
        used: How many bytes of both are used, as an answer.

    Returns:
        0, `MALFORMED`, or `TOO_LARGE` when values do not fit into a chunk.
    """
    width = new_words.itemsize
    begins = np.empty(num_values, dtype=np.int64)
    ends = np.empty(num_values + 1, dtype=np.int64)
    ends[0] = 0
    num_chunks = len(table) // word_bytes
    start = value = kept = gone = total = np.int64(0)
    for chunk in range(num_chunks):
        word = np.int64(0)
        for byte in range(word_bytes):
            word |= np.int64(table[chunk * word_bytes + byte]) << (8 * byte)
        size = ((word >> 4) + 1) * 8
        count = np.int64(1) << (word & 15)
        if chunk == num_chunks - 1:
            count = num_values - value
        if start + size > len(data) or count < 0 or count > _MAX_COUNT or value + count > num_values:
            return MALFORMED
        length = np.int64(0)
        for byte in range(word_bytes):
            length |= np.int64(data[start + 2 + byte]) << (8 * byte)
        before = (count + 1) * width
        if length > size - 8 or before > length:
            return MALFORMED
        # The header of a chunk with one buffer and no levels takes 8 bytes in both versions.
        base = start + 8
        for number in range(count + 1):
            if width == 4:
                offset = np.int64(load_u32(data, base + number * 4))
            else:
                offset = np.int64(load_u64(data, base + number * 8))
            if offset < before or offset > length:
                return MALFORMED
            if number > 0:
                while gone < len(gone_starts) and gone_stops[gone] <= value:
                    gone += 1
                if gone == len(gone_starts) or gone_starts[gone] > value:
                    begins[kept] = base + before
                    total += offset - before
                    kept += 1
                    ends[kept] = total
                value += 1
            before = offset
        start += size
    if value != num_values or kept == 0:
        return MALFORMED
    first = position = cursor = np.int64(0)
    while first < kept:
        rest = kept - first
        low = ends[first]
        count = rest
        if rest > _MAX_COUNT or (rest + 1) * width + total - low > chunk_bytes:
            count = np.int64(2)
            most = min(rest, np.int64(_MAX_COUNT))
            while (
                2 * count <= most and (2 * count + 1) * width + ends[first + 2 * count] - low <= chunk_bytes
            ):
                count *= 2
            count = min(count, rest)
        head = (count + 1) * width
        length = (head + ends[first + count] - low + (width - 1)) & -width
        size = (8 + length + 7) & -8
        if length > limit or position + size > len(new_data) or cursor + word_bytes > len(new_table):
            return TOO_LARGE
        for byte in range(8):
            new_data[position + byte] = 0
            new_data[position + size - 8 + byte] = 0
        for byte in range(word_bytes):
            new_data[position + 2 + byte] = (length >> (8 * byte)) & 0xFF
        target = (position + 8) // width
        for number in range(count + 1):
            new_words[target + number] = head + ends[first + number] - low
        # Values that followed each other before are copied together.
        target = position + 8 + head
        begin = end = begins[first]
        for number in range(first, first + count):
            if begins[number] != end:
                copy_bytes(new_data, target, data, begin, end - begin)
                target += end - begin
                begin = end = begins[number]
            end += ends[number + 1] - ends[number]
        copy_bytes(new_data, target, data, begin, end - begin)
        word = ((size >> 3) - 1) << 4
        first += count
        if first < kept:
            while count > 1:
                word += 1
                count >>= 1
        for byte in range(word_bytes):
            new_table[cursor + byte] = (word >> (8 * byte)) & 0xFF
        cursor += word_bytes
        position += size
    used[0] = cursor
    used[1] = position
    return 0
