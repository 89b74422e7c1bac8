"""Single values of mini-block pages, read from their compressed chunks.

`found` is a table of shape (values, 2 + 2 * parts) as `locate` gives it: of each value its number in its
chunk, the levels of the chunk, and the start and the size of each part of the chunk, in bytes of the data.
Positions that come from the bytes themselves are checked; that the parts lie within the data, the caller
answers for.

All answers are 0, or `OUTSIDE` when something leaves its chunk; then what is filled in is not whole.

They check every position that comes from the bytes and return -1 where one leaves its chunk. The caller
answers for the chunks: they lie within the data, and there is one more first value than there are chunks.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes, load_u16, load_u32, load_u64

OUTSIDE = -1
_Table = npt.NDArray[np.int64]

_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_OUT = types.int64[::1]
_TABLE = types.int64[:, ::1]
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# A row of a block, whatever the size of its words: the next word of a lane is so far behind.
_ROW_BYTES = 128
# Which sixteenth of the values belongs to which eighth of the rows of a block, in four bits each.
_ORDER = np.uint64(0x73516240)


@inner(types.uint64(READONLY_BYTES, types.int64, types.int64), inline="always")
def _word(data, position, width):
    # A word of 1, 2, 4 or 8 bytes.
    if width == 8:
        return np.uint64(load_u64(data, position))
    if width == 4:
        return np.uint64(load_u32(data, position))
    if width == 2:
        return np.uint64(load_u16(data, position))
    return np.uint64(data[position])


@loop(types.int64(READONLY_BYTES, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, types.int64, types.int64, _TABLE))
def _locate(data, starts, stops, firsts, slots, level_parts, value_parts, found):
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


@inner(types.uint64(READONLY_BYTES, types.int64, types.uint64, types.uint64, types.uint64), inline="always")
def _unpack_one(data, start, number, width, power):
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


@inner(types.uint64(types.uint64), inline="always")
def _power_of(bits):
    return np.uint64(3) + (bits >= 16) + (bits >= 32) + (bits >= 64)


@inner(types.void(READONLY_BYTES, types.int64, types.uint64, types.uint64, types.uint64[::1]))
def _unpack_all(data, start, width, power, target):
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


@loop(types.int64(READONLY_BYTES, _TABLE, types.int64, types.uint64, types.uint64[::1]))
def _pick_inline(data, found, part, bits, values):
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


@loop(types.int64(READONLY_BYTES, _TABLE, types.int64, types.uint64, types.uint16[::1]))
def _pick_levels(data, found, part, width, levels):
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


@loop(types.int64(READONLY_BYTES, _TABLE, types.int64, types.int64, types.int64, BYTES))
def _pick_runs(data, found, part, split, width, values):
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


@loop(types.int64(READONLY_BYTES, _TABLE, types.int64, types.boolean[::1]))
def _pick_bits(data, found, part, values):
    for index in range(len(found)):
        number = found[index, 0]
        if number >> 3 >= found[index, 3 + 2 * part]:
            return -1
        values[index] = (data[found[index, 2 + 2 * part] + (number >> 3)] >> (number & 7)) & 1
    return 0


@loop(types.int64(READONLY_BYTES, _TABLE, types.int64, types.int64, BYTES))
def _pick_flat(data, found, part, width, values):
    for index in range(len(found)):
        at = found[index, 0] * width
        if at + width > found[index, 3 + 2 * part]:
            return -1
        copy_bytes(values, index * width, data, found[index, 2 + 2 * part] + at, width)
    return 0


@loop(types.int64(READONLY_BYTES, _TABLE, types.int64, types.int64, _OUT, _OUT))
def _pick_extents(data, found, part, width, starts, offsets):
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


@loop(types.int64(_LEVELS, _LEVELS, types.int64, types.int64, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _TABLE))
def _find_rows(rep, definition, highest, visible, ends, firsts, lasts, numbers, found):
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


def locate(
    *,
    data: Bytes,
    starts: Integers,
    stops: Integers,
    firsts: Integers,
    slots: Integers,
    level_parts: int,
    value_parts: int,
    found: _Table,
) -> int:
    """Find the parts of the chunk of each wanted value.

    Args:
        data: Bytes that hold the chunks.
        starts: Shape (chunks,): first byte of each chunk.
        stops: Shape (chunks,): end of each chunk, within the data.
        firsts: Shape (chunks,): first value of each chunk, ascending, the first not above the first slot.
        slots: Shape (values,): wanted values, ascending.
        level_parts: Buffers of levels of a chunk.
        value_parts: Value buffers of a chunk; negative for sizes of 4 bytes, else of 2.
        found: Gets the table.
    """
    return int(_locate(data, starts, stops, firsts, slots, level_parts, value_parts, found))


def pick_inline(*, data: Bytes, found: _Table, part: int, bits: int, values: Words64) -> int:
    """Return values from blocks that begin with their width.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The values.
        bits: Of a word: 8, 16, 32 or 64.
        values: Shape (values,): gets them.
    """
    return int(_pick_inline(data, found, part, bits, values))


def pick_levels(*, data: Bytes, found: _Table, part: int, width: int, levels: Levels) -> int:
    """Levels from runs of blocks of one width; those behind the last block may be plain.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The levels.
        width: Bits of a packed level, 1 to 16.
        levels: Shape (values,): gets them.
    """
    return int(_pick_levels(data, found, part, width, levels))


def pick_runs(*, data: Bytes, found: _Table, part: int, split: int, width: int, values: Bytes) -> int:
    """Return values of a number of bytes, each of which is there once for a run of 1 to 255.

    Args:
        data: Bytes that hold the chunks.
        found: The table, ascending.
        part: The values.
        split: 0 where the lengths of the runs are the next part; else the bytes before the values, at least
            8, the first 8 of which say how many bytes these take, and the lengths come behind them.
        width: Bytes of a value, at least 1.
        values: Shape (values * width,): gets them.
    """
    return int(_pick_runs(data, found, part, split, width, values))


def pick_bits(*, data: Bytes, found: _Table, part: int, values: npt.NDArray[np.bool_]) -> int:
    """Single bits, least significant first.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The values.
        values: Shape (values,): gets them.
    """
    return int(_pick_bits(data, found, part, values))


def pick_flat(*, data: Bytes, found: _Table, part: int, width: int, values: Bytes) -> int:
    """Plain values of a number of bytes.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The values.
        width: Bytes of a value.
        values: Shape (values * width,): gets them.
    """
    return int(_pick_flat(data, found, part, width, values))


def pick_extents(
    *, data: Bytes, found: _Table, part: int, width: int, starts: Integers, offsets: Integers
) -> int:
    """Return positions of variable-width values in the data, and their offsets once they are joined.

    Args:
        data: Bytes that hold the chunks.
        found: The table, ascending.
        part: The values.
        width: Bytes of an offset: 4 or 8.
        starts: Shape (values,): gets the first byte of each.
        offsets: Shape (values + 1,): gets the offsets, from 0.
    """
    return int(_pick_extents(data, found, part, width, starts, offsets))


def find_rows(
    *,
    rep: Levels,
    definition: Levels,
    highest: int,
    visible: int,
    ends: Integers,
    firsts: Integers,
    lasts: Integers,
    numbers: Integers,
    found: _Table,
) -> int:
    """Find rows in the levels of some chunks.

    Args:
        rep: Repetition levels of all chunks.
        definition: Definition levels, as many; or none.
        highest: The repetition level that begins a row.
        visible: Entries of a definition level below this have a value.
        ends: Shape (chunks,): end of the levels of each chunk, ascending up to the number of all.
        firsts: Shape (rows,): the chunk in which each wanted row begins.
        lasts: Shape (rows,): the chunk in which it ends, one of those that there are.
        numbers: Shape (rows,): how many rows begin in its chunk before it. Rows ascend.
        found: Shape (rows, 4): gets the first level of each and the end of its levels, its first value and
            the end of its values.
    """
    where = (ends, firsts, lasts, numbers)
    return int(_find_rows(rep, definition, highest, visible, *where, found))
