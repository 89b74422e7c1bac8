"""Compiled loops that read single values of mini-block pages from their compressed chunks.

They check every position that comes from the bytes and return -1 where one leaves its chunk. The caller
answers for the chunks: they lie within the data, and there is one more first value than there are chunks.
"""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes, load_u16, load_u32, load_u64

_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_OUT = types.int64[::1]
_TABLE = types.int64[:, ::1]

_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# A row of a block, whatever the size of its words: the next word of a lane is so far behind.
_ROW_BYTES = 128
# Which sixteenth of the values belongs to which eighth of the rows of a block, in four bits each.
_ORDER = np.uint64(0x73516240)


@njit(types.uint64(READONLY_BYTES, types.int64, types.int64), cache=True, nogil=True, inline="always")
def _word(data, position, width):  # type: ignore[no-untyped-def]
    # A word of 1, 2, 4 or 8 bytes.
    if width == 8:
        return np.uint64(load_u64(data, position))
    if width == 4:
        return np.uint64(load_u32(data, position))
    if width == 2:
        return np.uint64(load_u16(data, position))
    return np.uint64(data[position])


@njit(
    types.int64(READONLY_BYTES, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, types.int64, types.int64, _TABLE),
    cache=True,
    nogil=True,
)
def locate(data, starts, stops, firsts, slots, level_parts, value_parts, found):  # type: ignore[no-untyped-def]
    """Find the parts of the chunk of each wanted value.

    Args:
        data: Bytes that hold the chunks.
        starts: First byte of each chunk.
        stops: End of each chunk, within the data.
        firsts: First value of each chunk, ascending; the first is not above the first wanted one.
        slots: Wanted values, ascending.
        level_parts: Buffers of levels of a chunk.
        value_parts: Value buffers of a chunk; negative for sizes of 4 bytes, else of 2.
        found: Gets a row for each value: its number in the chunk, the levels of the chunk, and the start and
            the size of each part.
    """
    width = 2
    if value_parts < 0:
        value_parts, width = -value_parts, 4
    parts = level_parts + value_parts
    header = 2 + 2 * level_parts + width * value_parts
    chunk = 0
    for index in range(len(slots)):
        slot = slots[index]
        while chunk + 1 < len(firsts) and firsts[chunk + 1] <= slot:
            chunk += 1
        start, size = starts[chunk], stops[chunk] - starts[chunk]
        if size < header:
            return -1
        found[index, 0] = slot - firsts[chunk]
        found[index, 1] = np.int64(_word(data, start, 2))
        cursor = start + 2
        position = (header + 7) & -8
        for part in range(parts):
            step = 2 if part < level_parts else width
            length = np.int64(_word(data, cursor, step))
            cursor += step
            if position + length > size:
                return -1
            found[index, 2 + 2 * part] = start + position
            found[index, 3 + 2 * part] = length
            position = (position + length + 7) & -8
    return 0


@njit(
    types.uint64(READONLY_BYTES, types.int64, types.uint64, types.uint64, types.uint64),
    cache=True,
    nogil=True,
    inline="always",
)
def _unpack_one(data, start, number, width, power):  # type: ignore[no-untyped-def]
    # One value of a block of 1024, in words of 2 to the power bits: everything is a shift, for a division
    # takes longer than all of the rest.
    bits, lane_power = _ONE << power, np.uint64(10) - power
    rest = number & np.uint64(127)
    sixteenth = rest >> lane_power << lane_power >> np.uint64(4)
    eighth = (_ORDER >> (sixteenth << np.uint64(2))) & np.uint64(7)
    bit = (eighth * np.uint64(8) + (number >> np.uint64(7))) * width
    lane = rest & ((_ONE << lane_power) - _ONE)
    size, to_bytes = np.int64(bits >> np.uint64(3)), power - np.uint64(3)
    at = start + np.int64(((bit >> power << lane_power) + lane) << to_bytes)
    shift = bit & (bits - _ONE)
    value = _word(data, at, size) >> shift
    room = bits - shift
    if width > room:
        value |= _word(data, at + _ROW_BYTES, size) << room
    return value & (_ALL >> (np.uint64(64) - width))


@njit(types.uint64(types.uint64), cache=True, nogil=True, inline="always")
def _power_of(bits):  # type: ignore[no-untyped-def]
    return np.uint64(3) + (bits >= 16) + (bits >= 32) + (bits >= 64)


@njit(
    types.void(READONLY_BYTES, types.int64, types.uint64, types.uint64, types.uint64[::1]),
    cache=True,
    nogil=True,
)
def _unpack_all(data, start, width, power, target):  # type: ignore[no-untyped-def]
    # All values of a block of 1024, see `bits.bitpacking`; these need not begin at a word.
    bits = _ONE << power
    lanes = _ALL // (_ALL >> (np.uint64(64) - bits))
    mask = (_ALL >> (np.uint64(64) - width)) * lanes
    shift = np.uint64(0)
    for row in range(bits):
        eighth = (_ORDER >> ((row >> np.uint64(3)) << np.uint64(2))) & np.uint64(7)
        into = eighth * np.uint64(16) + (row & np.uint64(7)) * np.uint64(128)
        first = np.int64(into * bits >> np.uint64(6))
        room = bits - shift
        if width <= room:
            for lane in range(16):
                target[first + lane] = (load_u64(data, start + 8 * lane) >> shift) & mask
            shift += width
            if shift == bits:
                shift = np.uint64(0)
                start += _ROW_BYTES
        else:
            low = (_ALL >> (np.uint64(64) - room)) * lanes
            high = mask ^ low
            after = start + _ROW_BYTES
            for lane in range(16):
                target[first + lane] = ((load_u64(data, start + 8 * lane) >> shift) & low) | (
                    (load_u64(data, after + 8 * lane) << room) & high
                )
            shift = width - room
            start = after


@njit(
    types.int64(READONLY_BYTES, _TABLE, types.int64, types.uint64, types.uint64[::1]), cache=True, nogil=True
)
def pick_inline(data, found, part, bits, values):  # type: ignore[no-untyped-def]
    """Values from blocks that begin with their width."""
    size, power = np.int64(bits >> np.uint64(3)), _power_of(bits)
    in_word = np.uint64(6) - power
    rest, keep = (_ONE << in_word) - _ONE, _ALL >> (np.uint64(64) - bits)
    # A whole block is unpacked in the time that so many of its values take one by one.
    many = np.int64(bits >> _ONE)
    block = np.empty(1024, dtype=np.uint64)
    index = 0
    while index < len(found):
        start, length = found[index, 2 + 2 * part], found[index, 3 + 2 * part]
        if length < size:
            return -1
        width = _word(data, start, size)
        if width > bits or length < size + np.int64(width) * 128:
            return -1
        stop = index
        while stop < len(found) and found[stop, 2 + 2 * part] == start:
            if not 0 <= found[stop, 0] < 1024:
                return -1
            stop += 1
        if width == 0:
            values[index:stop] = np.uint64(0)
        elif stop - index < many:
            for place in range(index, stop):
                values[place] = _unpack_one(data, start + size, np.uint64(found[place, 0]), width, power)
        else:
            _unpack_all(data, start + size, width, power, block)
            for place in range(index, stop):
                number = np.uint64(found[place, 0])
                word = block[np.int64(number >> in_word)]
                values[place] = (word >> ((number & rest) << power)) & keep
        index = stop
    return 0


@njit(
    types.int64(READONLY_BYTES, _TABLE, types.int64, types.uint64, types.uint16[::1]), cache=True, nogil=True
)
def pick_levels(data, found, part, width, levels):  # type: ignore[no-untyped-def]
    """Levels from runs of blocks of one width from 1 to 16; those behind the last block may be plain."""
    for index in range(len(found)):
        number, count = found[index, 0], found[index, 1]
        start, length = found[index, 2 + 2 * part], found[index, 3 + 2 * part]
        if number >= count:
            return -1
        block = np.int64(width) * 128
        full, tail = count // 1024, count % 1024
        plain = tail > 0 and length == full * block + tail * 2
        at = number // 1024
        if plain and at == full:
            levels[index] = np.uint16(_word(data, start + full * block + (number % 1024) * 2, 2))
            continue
        if (at + 1) * block > length:
            return -1
        levels[index] = np.uint16(
            _unpack_one(data, start + at * block, np.uint64(number % 1024), width, np.uint64(4))
        )
    return 0


@njit(
    types.int64(READONLY_BYTES, _TABLE, types.int64, types.int64, types.int64, BYTES), cache=True, nogil=True
)
def pick_runs(data, found, part, split, width, values):  # type: ignore[no-untyped-def]
    """Values of a number of bytes, each of which is there once for a run of 1 to 255.

    Args:
        data: Bytes that hold the chunks.
        found: Result of `locate`, ascending.
        part: The values.
        split: 0 where the lengths of the runs are the next part; else the bytes before the values, the
            first 8 of which say how many bytes these take, and the lengths come behind them.
        width: Bytes of a value.
        values: Gets the values.
    """
    seen = np.int64(-1)
    run = passed = np.int64(0)
    for index in range(len(found)):
        number, start, length = found[index, 0], found[index, 2 + 2 * part], found[index, 3 + 2 * part]
        if split == 0:
            lengths, runs = found[index, 4 + 2 * part], found[index, 5 + 2 * part]
        else:
            if length < split or number >= found[index, 1]:
                return -1
            size = np.int64(load_u64(data, start))
            if size < 0 or size > length - split:
                return -1
            start, length, runs = start + split, size, length - split - size
            lengths = start + size
        if length != runs * width:
            return -1
        if start != seen:
            seen, run, passed = start, np.int64(0), np.int64(0)
        while run < runs and passed + np.int64(data[lengths + run]) <= number:
            passed += np.int64(data[lengths + run])
            run += 1
        if run >= runs:
            return -1
        copy_bytes(values, index * width, data, start + run * width, width)
    return 0


@njit(types.int64(READONLY_BYTES, _TABLE, types.int64, types.boolean[::1]), cache=True, nogil=True)
def pick_bits(data, found, part, values):  # type: ignore[no-untyped-def]
    """Single bits, least significant first."""
    for index in range(len(found)):
        number = found[index, 0]
        if number >> 3 >= found[index, 3 + 2 * part]:
            return -1
        values[index] = (data[found[index, 2 + 2 * part] + (number >> 3)] >> (number & 7)) & 1
    return 0


@njit(types.int64(READONLY_BYTES, _TABLE, types.int64, types.int64, BYTES), cache=True, nogil=True)
def pick_flat(data, found, part, width, values):  # type: ignore[no-untyped-def]
    """Plain values of a number of bytes."""
    for index in range(len(found)):
        at = found[index, 0] * width
        if at + width > found[index, 3 + 2 * part]:
            return -1
        copy_bytes(values, index * width, data, found[index, 2 + 2 * part] + at, width)
    return 0


@njit(types.int64(READONLY_BYTES, _TABLE, types.int64, types.int64, _OUT, _OUT), cache=True, nogil=True)
def pick_extents(data, found, part, width, starts, offsets):  # type: ignore[no-untyped-def]
    """Where values of variable width lie in the data, and their offsets once they are joined."""
    last = np.int64(0)
    offsets[0] = 0
    for index in range(len(found)):
        at, start, length = found[index, 0] * width, found[index, 2 + 2 * part], found[index, 3 + 2 * part]
        if at + 2 * width > length:
            return -1
        if width == 4:
            low, high = np.int64(load_u32(data, start + at)), np.int64(load_u32(data, start + at + 4))
        else:
            low, high = np.int64(load_u64(data, start + at)), np.int64(load_u64(data, start + at + 8))
        # Values that overlap could claim any number of bytes.
        if low < 0 or low > high or high > length or start + low < last:
            return -1
        starts[index] = start + low
        last = start + high
        offsets[index + 1] = offsets[index] + high - low
    return 0


_LEVELS = types.Array(types.uint16, 1, "C", readonly=True)


@njit(
    types.int64(_LEVELS, _LEVELS, types.int64, types.int64, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _TABLE),
    cache=True,
    nogil=True,
)
def find_rows(rep, definition, highest, visible, ends, firsts, lasts, numbers, found):  # type: ignore[no-untyped-def]
    """Find rows in the levels of some chunks.

    Args:
        rep: Repetition levels of all chunks.
        definition: Definition levels, as many; or none.
        highest: The repetition level that begins a row.
        visible: Entries of a definition level below this have a value.
        ends: End of the levels of each chunk, ascending up to the number of all.
        firsts: The chunk in which each wanted row begins.
        lasts: The chunk in which it ends.
        numbers: How many rows begin in its chunk before it. Rows ascend.
        found: Gets a row for each: its first level and the end of its levels, its first value and the end.
    """
    total = len(rep)
    entry = slot = seen = chunk = np.int64(0)
    for index in range(len(numbers)):
        while True:
            while chunk < len(ends) and entry >= ends[chunk]:
                chunk += 1
                seen = 0
            if entry >= total or chunk > firsts[index]:
                return -1
            if rep[entry] == highest:
                if chunk == firsts[index] and seen == numbers[index]:
                    break
                seen += 1
            if len(definition) == 0 or definition[entry] < visible:
                slot += 1
            entry += 1
        found[index, 0] = entry
        found[index, 2] = slot
        stop = ends[lasts[index]]
        seen += 1
        while True:
            if len(definition) == 0 or definition[entry] < visible:
                slot += 1
            entry += 1
            if entry >= stop or rep[entry] == highest:
                break
            if entry >= ends[chunk]:
                chunk += 1
                seen = 0
        found[index, 1] = entry
        found[index, 3] = slot
    return 0
