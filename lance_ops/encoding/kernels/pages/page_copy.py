"""Dropping rows from encoded pages."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words
from lance_ops.encoding.kernels.loops import loop, types
from lance_ops.encoding.kernels.words import copy_bytes, load_u32, load_u64

MALFORMED = -1
TOO_LARGE = -2
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)


@loop(types.int64(_BYTES, _INTEGERS, _INTEGERS, types.uint8[::1]))
def _gather_ranges(data, starts, stops, out):
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


@loop(
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
    )
)
def _count_entries(
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


@loop(
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
    ]
)
def _keep_strings(
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


def gather_ranges(*, data: Bytes, starts: Integers, stops: Integers, out: Bytes) -> int:
    """Concatenate the bytes of ranges.

    Args:
        data: Any bytes; positions in it are checked.
        starts: Shape (ranges,): first byte of each.
        stops: Shape (ranges,): end of each.
        out: Room for the bytes, which is checked, too.

    Returns:
        How many bytes there are, or `MALFORMED`.
    """
    return int(_gather_ranges(data, starts, stops, out))


def count_entries(
    *,
    data: Bytes,
    starts: Integers,
    stops: Integers,
    control_bytes: int,
    def_bits: int,
    length_bytes: int,
    value_bytes: int,
    visible_below: int,
    counts: Integers,
) -> int:
    """Count the entries of rows of a full-zip page.

    Args:
        data: The entries; all positions in it are checked.
        starts: Shape (rows,): first byte of each row.
        stops: Shape (rows,): end of each.
        control_bytes: Bytes of the levels in front of each entry, at most 8.
        def_bits: The lowest bits of them, which are the definition level.
        length_bytes: Bytes of the length in front of a value, at most 8; 0 for values of fixed width.
        value_bytes: Of a value of fixed width.
        visible_below: Entries of a definition level below this have a slot.
        counts: Shape (2,), zeros: gets the entries, and those of them that have a slot.

    Returns:
        0, or `MALFORMED` when an entry reaches beyond its row or has no bytes.
    """
    form = (control_bytes, def_bits, length_bytes, value_bytes, visible_below)
    return int(_count_entries(data, starts, stops, *form, counts))


def keep_strings(
    *,
    table: Bytes,
    data: Bytes,
    word_bytes: int,
    num_values: int,
    gone_starts: Integers,
    gone_stops: Integers,
    chunk_bytes: int,
    limit: int,
    new_table: Bytes,
    new_data: Bytes,
    new_words: Words,
    used: Integers,
) -> int:
    """Cut the values that stay of a page without levels into chunks again; asks for a compiler.

    Args:
        table: The words that describe the chunks, at least one, in whole words.
        data: The chunks; all positions in them are checked.
        word_bytes: Bytes of a word, and of the size of a value buffer: 2 or 4.
        num_values: Of the page, at least 1.
        gone_starts: Shape (runs,): the first of each run of values that go, ascending.
        gone_stops: Shape (runs,): the end of each.
        chunk_bytes: What the buffer of a chunk holds at most, if it is not of two values only.
        limit: What it holds at most.
        new_table: Room for the new words, which is checked.
        new_data: Room for the new chunks, which is checked.
        new_words: The same memory in words of 32 or 64 bits, as wide as an offset.
        used: Shape (2,): gets the bytes used of both.

    Returns:
        0, `MALFORMED`, or `TOO_LARGE` when values do not fit into a chunk.
    """
    page = (table, data, word_bytes, num_values, gone_starts, gone_stops, chunk_bytes, limit)
    return int(_keep_strings(*page, new_table, new_data, new_words, used))
