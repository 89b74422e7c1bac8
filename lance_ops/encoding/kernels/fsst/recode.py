"""Codes of compressed strings replaced by those of another table; see `merge`.

Chunks of strings are given by their addresses, how many bytes and how many strings each has, and the bytes of
an offset. The caller keeps what lies there, and knows that each has room for its offsets.

A code takes a load and a store, a fraction of what it takes to search the symbols of a string again. Chunks
are given by their addresses: those of many pages need not be brought together first.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import (
    BYTES,
    copy_memory,
    peek_u8,
    peek_u32,
    peek_u64,
    poke_u32,
    poke_u64,
    store_u64,
)

MALFORMED = -1
ENDS_WITHIN_ESCAPE = -2
UNKNOWN_SYMBOL = -3
NO_ROOM = -4
ALONE = 1 << 63
UNKNOWN = ALONE | 0xFFFFFFFF

_CODES = 256
_ROOM = 8
_MAX_COUNT = 1 << 15
_ZERO, _ONE, _FOUR, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(4), np.uint64(8)
_BYTE = np.uint64(255)
_ESCAPE = _BYTE
_LITERALS = np.uint64(_CODES)
"""Entries of escaped bytes follow those of the codes of a table."""
_TABLE_BYTES = np.uint64(2 * _CODES * 8)
_SIZE_SHIFT = np.uint64(56)
_ALONE = np.uint64(1 << 63)
_SYMBOL = np.uint64(0xFFFFFFFF)
_UNKNOWN = np.uint64(1 << 63 | 0xFFFFFFFF)
_NOWHERE = np.uint32(0xFFFFFFFF)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
# What a group of eight may write before it is found to be another matter.
_OVERRUN = 8 * 256
_CHUNKS_AHEAD = 8
_INTEGERS = types.Array(types.int64, 1, "C")
_READONLY_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_READONLY_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_READONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_CHUNKS = (_READONLY_WORDS, _READONLY_INTEGERS, _READONLY_INTEGERS, types.int64)


@inner
def _offset(start, value, width):
    if width == 4:
        return np.uint64(peek_u32(start + np.uint64(value) * _FOUR))
    return peek_u64(start + np.uint64(value) * _EIGHT)


@loop(types.int64(*_CHUNKS, _READONLY_INTEGERS, _INTEGERS, _INTEGERS))
def _count(starts, sizes, counts, width, tables, codes, literals):
    seen = np.int64(0)
    for chunk in range(len(counts)):
        position = _offset(starts[chunk], 0, width)
        stop = _offset(starts[chunk], counts[chunk], width)
        if position < np.uint64((counts[chunk] + 1) * width) or stop < position or stop > sizes[chunk]:
            return MALFORMED
        base = tables[chunk] * _CODES
        seen += np.int64(stop - position)
        position += starts[chunk]
        stop += starts[chunk]
        while position < stop:
            code = np.uint64(peek_u8(position))
            position += _ONE
            if code != _ESCAPE:
                codes[base + np.int64(code)] += 1
            elif position < stop:
                literals[np.int64(peek_u8(position))] += 1
                position += _ONE
    return seen


@inner
def _replace(codes, stop, entries, spelled, sizes, out, marks):
    """Write the codes that stand for others, and note where each begins; how many bytes, or an error.

    All but the count are addresses: numba would count references of arrays at every branch.
    """
    at = _ZERO
    place = _ZERO
    # 256 behind an escape, whose byte has its entry among the second half.
    behind = _ZERO
    while place < stop:
        last = stop
        if place + _EIGHT <= stop:
            # Eight at once, unless one of them turns out to be spelled by more than an entry holds.
            word = peek_u64(codes + place)
            next_at = at
            odd = _ZERO
            last = place + _EIGHT
            was_behind = behind
            # No bit of the bytes that are not all ones.
            escapes = ~(((~word & _LOW_BITS) + _LOW_BITS) | ~word | _LOW_BITS)
            if escapes | behind == _ZERO:
                for number in range(8):
                    code = (word >> np.uint64(8 * number)) & _BYTE
                    poke_u32(marks + (place + np.uint64(number)) * _FOUR, np.uint32(next_at))
                    entry = peek_u64(entries + code * _EIGHT)
                    poke_u64(out + next_at, entry)
                    odd |= entry
                    next_at += entry >> _SIZE_SHIFT
            else:
                for number in range(8):
                    code = (word >> np.uint64(8 * number)) & _BYTE
                    poke_u32(marks + (place + np.uint64(number)) * _FOUR, np.uint32(next_at))
                    entry = peek_u64(entries + (code | behind) * _EIGHT)
                    poke_u64(out + next_at, entry)
                    odd |= entry
                    next_at += entry >> _SIZE_SHIFT
                    behind = (np.uint64(code == _ESCAPE) * _LITERALS) & ~behind
            if odd & _ALONE == _ZERO:
                at = next_at
                place = last
                continue
            behind = was_behind
        while place < last:
            code = np.uint64(peek_u8(codes + place))
            poke_u32(marks + place * _FOUR, np.uint32(at))
            entry = peek_u64(entries + (code | behind) * _EIGHT)
            if entry & _ALONE:
                if entry == _UNKNOWN:
                    return UNKNOWN_SYMBOL
                symbol = entry & _SYMBOL
                poke_u64(out + at, peek_u64(spelled + symbol * np.uint64(16)))
                poke_u64(out + at + _EIGHT, peek_u64(spelled + symbol * np.uint64(16) + _EIGHT))
                at += np.uint64(peek_u8(sizes + symbol))
            else:
                poke_u64(out + at, entry)
                at += entry >> _SIZE_SHIFT
            behind = (np.uint64(code == _ESCAPE) * _LITERALS) & ~behind
            place += _ONE
    if behind:
        return ENDS_WITHIN_ESCAPE
    poke_u32(marks + stop * _FOUR, np.uint32(at))
    return np.int64(at)


@inner
def _find_ends(start, number, stop, before, last, width, marks, ends, low):
    """Where strings end after their codes were replaced; 0, or an error.

    Args:
        start: Address of the chunk.
        number: The first string.
        stop: Behind the last one.
        before: Where the codes of the first begin.
        last: Where those of the last end.
        width: Of the offsets.
        marks: Address of where each code went.
        ends: Address of what gets the ends.
        low: Where the first string begins now.
    """
    codes = start + before
    span = last - before
    previous = before
    is_wrong = False
    is_behind_escape = False
    for other in range(number + 1, stop + 1):
        offset = _offset(start, other, width)
        is_wrong |= (offset < previous) | (offset > last)
        previous = offset
        # What lies outside is wrong, but must not be searched for there.
        place = min(offset - before, span)
        is_behind_escape |= np.uint64(peek_u8(codes + place - _ONE)) == _ESCAPE
        poke_u64(ends + np.uint64(other - number) * _EIGHT, low + np.uint64(peek_u32(marks + place * _FOUR)))
    if is_wrong:
        return MALFORMED
    if is_behind_escape:
        # Such a code may be the escaped byte itself. No string begins within an escape.
        place = _ZERO
        while place < span:
            if np.uint64(peek_u8(codes + place)) == _ESCAPE:
                place += _ONE
                poke_u32(marks + place * _FOUR, _NOWHERE)
            place += _ONE
        for other in range(number + 1, stop + 1):
            if peek_u32(marks + (_offset(start, other, width) - before) * _FOUR) == _NOWHERE:
                return ENDS_WITHIN_ESCAPE
    return 0


@inner
def _fitting(ends, first, pending, width, chunk_bytes):
    """Values of the next chunk, when not all that wait go into one."""
    low = ends[first]
    count = np.int64(2)
    most = min(pending, _MAX_COUNT)
    while 2 * count <= most and (2 * count + 1) * width + ends[first + 2 * count] - low <= chunk_bytes:
        count *= 2
    return count


@inner
def _write_offsets(place, ends, amount, head, width):
    """Write the offsets of a chunk; the ends are those of its strings, after that of the one before."""
    shift = head - peek_u64(ends)
    if width == 4:
        for other in range(amount + 1):
            end = peek_u64(ends + np.uint64(other) * _EIGHT)
            poke_u32(place + np.uint64(other) * _FOUR, np.uint32(end + shift))
    else:
        for other in range(amount + 1):
            end = peek_u64(ends + np.uint64(other) * _EIGHT)
            poke_u64(place + np.uint64(other) * _EIGHT, end + shift)


@loop(
    types.int64(
        *_CHUNKS,
        _READONLY_INTEGERS,
        _READONLY_WORDS,
        _READONLY_WORDS,
        _READONLY_BYTES,
        _READONLY_INTEGERS,
        _READONLY_INTEGERS,
        types.int64,
        BYTES,
        _INTEGERS,
        _INTEGERS,
        _INTEGERS,
    )
)
def _rewrite(
    starts,
    sizes,
    counts,
    width,
    tables,
    entries,
    spelled,
    spelled_sizes,
    gone_starts,
    gone_stops,
    chunk_bytes,
    out,
    out_counts,
    out_starts,
    out_sizes,
):
    most_codes = np.int64(0)
    most_values = np.int64(0)
    for chunk in range(len(counts)):
        most_codes = max(most_codes, sizes[chunk])
        most_values = max(most_values, counts[chunk])
    # What waits for the next chunk takes less than a chunk, or is one value. It is moved to the front once a
    # few chunks were taken from there.
    most_waiting = 2 * 16 * (most_codes + 1) + _OVERRUN
    waiting = np.empty(most_waiting + _CHUNKS_AHEAD * chunk_bytes, dtype=np.uint8)
    marks = np.empty(most_codes + 2, dtype=np.uint32)
    ends = np.empty(_MAX_COUNT + _CHUNKS_AHEAD * most_values + 2, dtype=np.int64)
    ends[0] = 0
    first = np.int64(0)
    pending = np.int64(0)
    cursor = np.int64(0)
    made = np.int64(0)
    value = np.int64(0)
    gone = 0
    for chunk in range(len(counts) + 1):
        is_end = chunk == len(counts)
        # Asked for each time: numba frees an array after the last mention of it, even if its address is kept.
        to_waiting, to_marks = np.uint64(waiting.ctypes.data), np.uint64(marks.ctypes.data)
        to_ends, to_out = np.uint64(ends.ctypes.data), np.uint64(out.ctypes.data)
        if not is_end:
            start = starts[chunk]
            count = counts[chunk]
            head = np.uint64((count + 1) * width)
            room = np.uint64(sizes[chunk])
            before = _offset(start, 0, width)
            if before < head or before > room:
                return MALFORMED
            if first and (ends[pending] + most_waiting > len(waiting) or pending + count >= len(ends)):
                moved = ends[first]
                left = ends[pending] - moved
                if left <= moved:
                    copy_memory(to_waiting, to_waiting + np.uint64(moved), np.uint64(left))
                else:
                    for byte in range(left):
                        waiting[byte] = waiting[moved + byte]
                pending -= first
                for other in range(pending + 1):
                    ends[other] = ends[first + other] - moved
                first = 0
            own = np.uint64(entries.ctypes.data) + np.uint64(tables[chunk]) * _TABLE_BYTES
            number = np.int64(0)
            while number < count:
                stop = count
                if gone < len(gone_starts):
                    if gone_starts[gone] <= value + number:
                        number = min(count, gone_stops[gone] - value)
                        before = _offset(start, number, width)
                        if before < head or before > room:
                            return MALFORMED
                        if gone_stops[gone] <= value + count:
                            gone += 1
                        continue
                    stop = min(count, gone_starts[gone] - value)
                last = _offset(start, stop, width)
                if last < before or last > room:
                    return MALFORMED
                low = np.uint64(ends[pending])
                size = _replace(
                    start + before,
                    last - before,
                    own,
                    np.uint64(spelled.ctypes.data),
                    np.uint64(spelled_sizes.ctypes.data),
                    to_waiting + low,
                    to_marks,
                )
                if size < 0:
                    return size
                status = _find_ends(
                    start,
                    number,
                    stop,
                    before,
                    last,
                    width,
                    to_marks,
                    to_ends + np.uint64(pending) * _EIGHT,
                    low,
                )
                if status < 0:
                    return status
                pending += stop - number
                before = last
                number = stop
            value += count
        while pending - first > 1 or (is_end and pending > first):
            rest = pending - first
            fits = rest <= _MAX_COUNT and (rest + 1) * width + ends[pending] - ends[first] <= chunk_bytes
            if fits and not is_end:
                break
            amount = rest
            if not fits:
                amount = min(rest, _fitting(ends, first, rest, width, chunk_bytes))
            low = np.uint64(ends[first])
            head_bytes = (amount + 1) * width
            body = ends[first + amount] - ends[first]
            size = (head_bytes + body + (width - 1)) & -width
            if made == len(out_counts) or cursor + size + 16 > len(out):
                return NO_ROOM
            # In front of a chunk is room for its header, and zeros fill its last word.
            place = cursor + _ROOM
            store_u64(out, cursor, _ZERO)
            store_u64(out, place + ((size + 7) & -8) - 8, _ZERO)
            to_place = to_out + np.uint64(place)
            _write_offsets(
                to_place, to_ends + np.uint64(first) * _EIGHT, amount, np.uint64(head_bytes), width
            )
            copy_memory(to_place + np.uint64(head_bytes), to_waiting + low, np.uint64(body))
            out_counts[made] = amount
            out_starts[made] = place
            out_sizes[made] = size
            made += 1
            first += amount
            cursor = place + ((size + 7) & -8)
    return made


def count(
    *,
    starts: Words64,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    codes: Integers,
    literals: Integers,
) -> int:
    """Count codes.

    Args:
        starts: Shape (chunks,): address of the first byte of each.
        sizes: Shape (chunks,): bytes of each.
        counts: Shape (chunks,): strings of each.
        width: Bytes of an offset: 4 or 8.
        tables: Shape (chunks,): number of the table of each.
        codes: Shape (256 * tables,): gets how often each code of each table occurs, added to what is there.
        literals: Shape (256,): the same of escaped bytes.

    Returns:
        The bytes that were looked at, or `MALFORMED`.
    """
    return int(_count(starts, sizes, counts, width, tables, codes, literals))


def rewrite(
    *,
    starts: Words64,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    entries: Words64,
    spelled: Words64,
    spelled_sizes: Bytes,
    gone_starts: Integers,
    gone_stops: Integers,
    chunk_bytes: int,
    out: Bytes,
    out_counts: Integers,
    out_starts: Integers,
    out_sizes: Integers,
) -> int:
    """Replace the codes of strings, and cut the strings into chunks again.

    Args:
        starts: Shape (chunks,): address of the first byte of each.
        sizes: Shape (chunks,): bytes of each.
        counts: Shape (chunks,): strings of each.
        width: Bytes of an offset: 4 or 8.
        tables: Shape (chunks,): number of the table of each.
        entries: Shape (512 * tables,): of each code, then of each escaped byte. Up to 7 codes that stand for
            it, the first one lowest, and how many they are in the highest byte; the escape has none. `ALONE`
            and the number of a symbol where it takes more, `UNKNOWN` where there is no such code.
        spelled: Shape (2 * symbols,): up to 16 codes that stand for each symbol.
        spelled_sizes: Shape (symbols,): how many they are.
        gone_starts: The first of each run of strings that go, ascending.
        gone_stops: The end of each.
        chunk_bytes: What a new chunk holds at most, if it is not of two strings only.
        out: Room for the chunks, each with 8 bytes in front of it.
        out_counts: Room for the strings of each new chunk.
        out_starts: Room for the first byte of each.
        out_sizes: Room for the bytes of each.

    Returns:
        The number of new chunks, or what is wrong: `MALFORMED` offsets, `ENDS_WITHIN_ESCAPE`,
        `UNKNOWN_SYMBOL`, or `NO_ROOM`.
    """
    chunks = (starts, sizes, counts, width, tables)
    codes = (entries, spelled, spelled_sizes)
    gone = (gone_starts, gone_stops)
    return int(_rewrite(*chunks, *codes, *gone, chunk_bytes, out, out_counts, out_starts, out_sizes))
