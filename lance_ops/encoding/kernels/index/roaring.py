"""Many Roaring bitmaps of 64-bit rows at once.

A set is a count of bitmaps of 32 bits, and before each the upper half of its rows. In the portable form,
counts have eight bytes; framed sets are those of a table's format, where counts have four, and each bitmap is
preceded by its length.

Source: the format specification of Roaring bitmaps (portable, with its extension to 64 bits).
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import (
    BYTES,
    READONLY_BYTES,
    load_u16,
    load_u32,
    load_u64,
    store_u16,
    store_u32,
    store_u64,
    trailing_zeros,
)

_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_ROWS = types.Array(types.uint64, 1, "C", readonly=True)
_NO_RUNS, _WITH_RUNS = 12346, 12347
_MOST_LISTED = 4096
_BITMAP_BYTES = 8192
_FEW_CONTAINERS = 4


@inner
def _header(data, position, stop):
    """Where things are in a bitmap of 32 bits.

    Returns:
        Its containers (negative where it is damaged), its flags of runs (negative without any), its
        descriptors, and its first container.
    """
    if position + 8 > stop:
        return -1, -1, 0, 0
    cookie = np.int64(load_u32(data, position))
    position += 4
    flags = -1
    if cookie == _NO_RUNS:
        count = np.int64(load_u32(data, position))
        position += 4
    elif cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = position
        position += (count + 7) >> 3
    else:
        return -1, -1, 0, 0
    if count > 1 << 16:
        return -1, -1, 0, 0
    descriptors = position
    position += 4 * count
    if flags < 0 or count >= _FEW_CONTAINERS:
        position += 4 * count
    if position > stop:
        return -1, -1, 0, 0
    return count, flags, descriptors, position


@inner
def _is_run(data, flags, container):
    return flags >= 0 and (data[flags + (container >> 3)] >> (container & 7)) & 1 == 1


@inner
def _count_set(data, position, stop, framed):
    width = 4 if framed else 8
    if position + width > stop:
        return -1
    owners = np.int64(load_u32(data, position) if framed else load_u64(data, position))
    position += width
    last_owner = np.int64(-1)
    rows = 0
    for _ in range(owners):
        if position + 8 > stop:
            return -1
        owner = np.int64(load_u32(data, position))
        if owner <= last_owner:
            return -1
        last_owner = owner
        end = stop
        position += 4
        if framed:
            length = np.int64(load_u32(data, position))
            position += 4
            end = position + length
            if length == 0 or end > stop:
                return -1
        count, flags, descriptors, position = _header(data, position, end)
        if count < 0:
            return -1
        last_key = np.int64(-1)
        for container in range(count):
            key = np.int64(load_u16(data, descriptors + 4 * container))
            size = np.int64(load_u16(data, descriptors + 4 * container + 2)) + 1
            if key <= last_key:
                return -1
            last_key = key
            if _is_run(data, flags, container):
                if position + 2 > end:
                    return -1
                position += 2 + 4 * np.int64(load_u16(data, position))
            elif size <= _MOST_LISTED:
                position += 2 * size
            else:
                position += _BITMAP_BYTES
            if position > end:
                return -1
            rows += size
        if framed and position != end:
            return -1
    return rows if position == stop else -1


@loop(types.int64(READONLY_BYTES, _NUMBERS, types.boolean, types.int64[::1]))
def _count_rows(data, offsets, framed, sizes):
    total = 0
    for number in range(len(sizes)):
        sizes[number] = _count_set(data, offsets[number], offsets[number + 1], framed)
        total += max(sizes[number], 0)
    return total


@loop(types.int64(READONLY_BYTES, _NUMBERS, types.boolean, _NUMBERS, types.uint64[::1]))
def _read_rows(data, offsets, framed, sizes, rows):
    written = 0
    for number in range(len(sizes)):
        if sizes[number] < 0:
            continue
        position = offsets[number]
        owners = np.int64(load_u32(data, position) if framed else load_u64(data, position))
        position += 4 if framed else 8
        for _ in range(owners):
            owner = np.uint64(load_u32(data, position)) << np.uint64(32)
            position += 8 if framed else 4
            count, flags, descriptors, position = _header(data, position, offsets[number + 1])
            for container in range(count):
                key = np.uint64(load_u16(data, descriptors + 4 * container))
                base = owner | key << np.uint64(16)
                size = np.int64(load_u16(data, descriptors + 4 * container + 2)) + 1
                stop = written + size
                if _is_run(data, flags, container):
                    runs = np.int64(load_u16(data, position))
                    position += 2
                    for _run in range(runs):
                        first = np.int64(load_u16(data, position))
                        length = np.int64(load_u16(data, position + 2)) + 1
                        position += 4
                        if written + length > stop or first + length > 1 << 16:
                            return -1 - number
                        for place in range(length):
                            rows[written + place] = base + np.uint64(first + place)
                        written += length
                elif size <= _MOST_LISTED:
                    for place in range(size):
                        rows[written + place] = base | np.uint64(load_u16(data, position + 2 * place))
                    written = stop
                    position += 2 * size
                else:
                    for word in range(_BITMAP_BYTES >> 3):
                        bits = load_u64(data, position + 8 * word)
                        first = base | np.uint64(64 * word)
                        while bits != np.uint64(0):
                            if written == stop:
                                return -1 - number
                            rows[written] = first + np.uint64(trailing_zeros(bits))
                            written += 1
                            bits &= bits - np.uint64(1)
                    position += _BITMAP_BYTES
                if written != stop:
                    return -1 - number
    return written


@inner
def _body(size, runs):
    """Bytes of a container without its descriptor, and whether it is one of runs, by the rule of CRoaring."""
    plain = 2 * size if size <= _MOST_LISTED else _BITMAP_BYTES
    as_runs = 2 + 4 * runs
    # The size of a list counts with two bytes that are not written.
    pays = as_runs < (plain + 2 if size <= _MOST_LISTED else plain)
    return (as_runs if pays else plain), pays


@inner
def _head(containers, has_runs):
    """Bytes of a bitmap before its first container."""
    if not has_runs:
        return 8 + 8 * containers
    starts = 4 * containers if containers >= _FEW_CONTAINERS else 0
    return 4 + ((containers + 7) >> 3) + 4 * containers + starts


@inner
def _end_of(rows, start, stop, shift):
    """Where rows end that are equal above some bits, by steps that double."""
    wanted = load_u64(rows, start) >> shift
    step = 1
    low = start
    while low + step < stop and load_u64(rows, low + step) >> shift == wanted:
        low += step
        step *= 2
    high = min(low + step, stop)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if load_u64(rows, middle) >> shift == wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _look_through(rows, first, last):
    """Runs of rows that follow each other; -1 where they do not ascend."""
    steps = 0
    backward = 0
    for row in range(first + 1, last):
        step = np.int64(load_u64(rows, row) - load_u64(rows, row - 1))
        steps += step != 1
        backward += step <= 0
    return -1 if backward else steps + 1


@loop(types.int64(_ROWS, _NUMBERS, types.boolean, types.int64[::1], types.boolean[::1]))
def _measure(rows, stops, framed, lengths, with_runs):
    total = 0
    row = 0
    for number in range(len(stops)):
        length = 4 if framed else 8
        begin = row
        with_runs[number] = False
        while row < stops[number]:
            owner_stop = _end_of(rows, row, stops[number], np.uint64(32))
            containers = 0
            has_runs = False
            length += 8 if framed else 4
            while row < owner_stop:
                stop = _end_of(rows, row, owner_stop, np.uint64(16))
                runs = _look_through(rows, row, stop)
                if runs < 0 or (row > begin and load_u64(rows, row) <= load_u64(rows, row - 1)):
                    return -1 - number
                body, pays = _body(stop - row, runs)
                length += body
                has_runs |= pays
                containers += 1
                row = stop
            length += _head(containers, has_runs)
            with_runs[number] |= has_runs
        lengths[number] = length
        total += length
    return total


@inner
def _write_body(rows, first, last, pays, data, body):
    size = last - first
    lower = np.uint64(0xFFFF)
    if pays:
        place = body + 2
        row = first
        while row < last:
            begin = row
            row += 1
            while row < last and load_u64(rows, row) == load_u64(rows, row - 1) + np.uint64(1):
                row += 1
            store_u16(data, place, np.uint16(load_u64(rows, begin) & lower))
            store_u16(data, place + 2, np.uint16(row - begin - 1))
            place += 4
        store_u16(data, body, np.uint16((place - body - 2) >> 2))
        return place
    if size <= _MOST_LISTED:
        for place in range(size):
            store_u16(data, body + 2 * place, np.uint16(load_u64(rows, first + place) & lower))
        return body + 2 * size
    for word in range(_BITMAP_BYTES >> 3):
        store_u64(data, body + 8 * word, np.uint64(0))
    for row in range(first, last):
        bit = load_u64(rows, row) & lower
        word_at = body + np.int64(bit >> np.uint64(6)) * 8
        store_u64(data, word_at, load_u64(data, word_at) | np.uint64(1) << (bit & np.uint64(63)))
    return body + _BITMAP_BYTES


@inner
def _write_bitmap(rows, first, last, may_run, data, position):
    """One bitmap of 32 bits; returns where it ends."""
    count = 0
    has_runs = False
    row = first
    while row < last:
        stop = _end_of(rows, row, last, np.uint64(16))
        has_runs |= may_run and _body(stop - row, _look_through(rows, row, stop))[1]
        count += 1
        row = stop
    body = position + _head(count, has_runs)
    flags = position + 4
    if has_runs:
        store_u32(data, position, np.uint32(_WITH_RUNS | (count - 1) << 16))
        descriptors = flags + ((count + 7) >> 3)
        for place in range(flags, descriptors):
            data[place] = 0
    else:
        store_u32(data, position, np.uint32(_NO_RUNS))
        store_u32(data, position + 4, np.uint32(count))
        descriptors = position + 8
    starts = descriptors + 4 * count
    row = first
    for container in range(count):
        stop = _end_of(rows, row, last, np.uint64(16))
        pays = has_runs and _body(stop - row, _look_through(rows, row, stop))[1]
        key = load_u64(rows, row) >> np.uint64(16) & np.uint64(0xFFFF)
        store_u16(data, descriptors + 4 * container, np.uint16(key))
        store_u16(data, descriptors + 4 * container + 2, np.uint16(stop - row - 1))
        if pays:
            data[flags + (container >> 3)] |= np.uint8(1 << (container & 7))
        if not has_runs or count >= _FEW_CONTAINERS:
            store_u32(data, starts + 4 * container, np.uint32(body - position))
        body = _write_body(rows, row, stop, pays, data, body)
        row = stop
    return body


@loop(types.void(_ROWS, _NUMBERS, types.boolean, types.Array(types.boolean, 1, "C", readonly=True), BYTES))
def _write_rows(rows, stops, framed, with_runs, data):
    position = 0
    row = 0
    for number in range(len(stops)):
        stop = stops[number]
        count = 0
        place = row
        while place < stop:
            place = _end_of(rows, place, stop, np.uint64(32))
            count += 1
        if framed:
            store_u32(data, position, np.uint32(count))
            position += 4
        else:
            store_u64(data, position, np.uint64(count))
            position += 8
        while row < stop:
            last = _end_of(rows, row, stop, np.uint64(32))
            store_u32(data, position, np.uint32(load_u64(rows, row) >> np.uint64(32)))
            position += 4
            if framed:
                position += 4
            begin = position
            position = _write_bitmap(rows, row, last, with_runs[number], data, position)
            if framed:
                store_u32(data, begin - 4, np.uint32(position - begin))
            row = last


def read_sets(*, data: Bytes, offsets: Integers, framed: bool) -> tuple[Words64, Integers] | None:
    """Return the rows of sets.

    Args:
        data: The bytes of all sets.
        offsets: Shape (sets + 1,): where each begins in `data`, never falling, and where the last ends; none
            beyond the end of `data`.
        framed: Their form.

    Returns:
        (rows, sizes): the rows of all sets, in sequence, and how many each has. Those of a sound set
        ascend. None if one is damaged, or has no bytes for a bitmap (that is, all rows of a fragment):
        the caller then looks at each.
    """
    sizes = np.empty(len(offsets) - 1, np.int64)
    rows = np.empty(int(_count_rows(data, offsets, framed, sizes)), np.uint64)
    if (sizes < 0).any() or _read_rows(data, offsets, framed, sizes, rows) < 0:
        return None
    return rows, sizes


def count_rows(*, data: Bytes, offsets: Integers, framed: bool) -> Integers:
    """Return how many rows each set has; -1 for those that `read_sets` would not read. See there."""
    sizes = np.empty(len(offsets) - 1, np.int64)
    _count_rows(data, offsets, framed, sizes)
    return sizes


def write_sets(*, rows: Words64, sizes: Integers, framed: bool) -> tuple[Bytes, Integers]:
    """Sets of rows.

    Args:
        rows: Of all sets, one set behind the other.
        sizes: Shape (sets,): how many each has.
        framed: Their form.

    Returns:
        (data, offsets): the bytes, and where each set begins and the last ends.
    """
    stops = np.cumsum(sizes)
    lengths, with_runs = np.empty(len(sizes), np.int64), np.empty(len(sizes), np.bool_)
    total = int(_measure(rows, stops, framed, lengths, with_runs))
    if total < 0:
        rows, sizes = _in_order(rows, sizes)
        stops = np.cumsum(sizes)
        total = int(_measure(rows, stops, framed, lengths, with_runs))
    data = np.empty(total, np.uint8)
    _write_rows(rows, stops, framed, with_runs, data)
    return data, np.concatenate(([0], np.cumsum(lengths)))


def _in_order(rows: Words64, sizes: Integers) -> tuple[Words64, Integers]:
    """Return the rows of each set, ascending and once."""
    sets = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((rows, sets))
    rows, sets = rows[order], sets[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (sets[1:] != sets[:-1])
    return rows[first], np.bincount(sets[first], minlength=len(sizes)).astype(np.int64)
