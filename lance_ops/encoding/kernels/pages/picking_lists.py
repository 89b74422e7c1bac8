"""Single rows of lists in mini-block pages, and where their values are."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64
from lance_ops.encoding.kernels.bits.bitpacking import _unpack
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import READONLY_BYTES, load_u64

DAMAGED = -1
NO_ROOM = -2
RUNS = 17
"""Instead of a width: levels that are there once for a run of equal ones."""
ROOM = 1 << 16
"""The most levels of a chunk, in whole blocks."""

_WORDS = types.Array(types.uint64, 1, "C", readonly=True, aligned=False)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_SCRATCH = types.Array(types.uint64, 1, "C", aligned=False)
_LEVELS = types.uint16[::1]
_LOADED = types.Array(types.uint16, 1, "C", aligned=False)
_TABLE = types.int64[:, ::1]
# Entries that are counted at once.
_STRIDE = 64
_BLOCKS = ROOM >> 10


@inner(types.uint64(READONLY_BYTES, types.int64, types.int64), inline="always")
def _word(data, position, width):
    value = np.uint64(0)
    for byte in range(width):
        value |= np.uint64(data[position + byte]) << np.uint64(8 * byte)
    return value


@inner(
    types.int64(
        READONLY_BYTES,
        _WORDS,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64[::1],
        types.int64[::1],
        _SCRATCH,
    )
)
def _unpack_levels(data, words, start, size, count, width, starts, widths, levels):
    # Runs of blocks of one width, at a multiple of 8 bytes; those behind the last block may be plain.
    block = width * 128
    full, tail = count >> 10, count & 1023
    plain = tail > 0 and size == full * block + tail * 2
    blocks = full + (1 if tail > 0 and not plain else 0)
    if start & 7 or size < blocks * block or (blocks * block + (tail * 2 if plain else 0)) > size:
        return -1
    for number in range(blocks):
        starts[number] = (start >> 3) + number * width * 16
        widths[number] = width
    _unpack(words, starts[:blocks], widths[:blocks], np.uint64(16), levels)
    if plain:
        target = levels.view(np.uint16)
        for number in range(tail):
            target[(full << 10) + number] = np.uint16(_word(data, start + full * block + number * 2, 2))
    return 0


@inner(types.int64(READONLY_BYTES, types.int64, types.int64, types.int64, _LOADED))
def _repeat_levels(data, start, size, count, levels):
    # The size of the levels of all runs, these levels, and the length of each run in a byte.
    if size < 8:
        return -1
    level_bytes = np.int64(load_u64(data, start))
    runs = size - 8 - level_bytes
    if level_bytes < 0 or runs < 0 or level_bytes != 2 * runs:
        return -1
    entry = np.int64(0)
    for run in range(runs):
        level = np.uint16(_word(data, start + 8 + 2 * run, 2))
        length = np.int64(data[start + 8 + level_bytes + run])
        if entry + length > count:
            return -1
        for number in range(entry, entry + length):
            levels[number] = level
        entry += length
    return 0 if entry == count else -1


@inner(
    types.int64(
        READONLY_BYTES,
        _WORDS,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64[::1],
        types.int64[::1],
        _SCRATCH,
    )
)
def _read_levels(data, words, start, size, count, form, starts, widths, levels):
    if form == RUNS:
        return _repeat_levels(data, start, size, count, levels.view(np.uint16))
    return _unpack_levels(data, words, start, size, count, form, starts, widths, levels)


@inner(types.int64(_LOADED, types.int64, types.uint16))
def _count_equal(levels, entry, level):
    # Sums of 16 bits are what makes vector instructions of it.
    total = np.uint16(0)
    for number in range(entry, entry + _STRIDE):
        total = np.uint16(total + np.uint16(levels[number] == level))
    return np.int64(total)


@inner(types.int64(_LOADED, types.int64, types.uint16))
def _count_below(levels, entry, level):
    total = np.uint16(0)
    for number in range(entry, entry + _STRIDE):
        total = np.uint16(total + np.uint16(levels[number] < level))
    return np.int64(total)


@loop(
    types.int64(
        READONLY_BYTES,
        _WORDS,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        _LEVELS,
        _LEVELS,
        _TABLE,
        types.Array(types.uint64, 2, "C", aligned=False),
        types.int64[::1],
    )
)
def _find_lists(
    data, words, starts, stops, begun, ended, rows, form, rep, definition, found, scratch, totals
):
    rep_width, def_width, size_bytes = form[0], form[1], form[2]
    value_parts, highest, visible = form[3], form[4], form[5]
    level_parts = 1 + (1 if def_width > 0 else 0)
    header = 2 + 2 * level_parts + size_bytes * value_parts
    block_starts = np.empty(_BLOCKS, dtype=np.int64)
    block_widths = np.empty(_BLOCKS, dtype=np.int64)
    rep_words, def_words = scratch[0], scratch[1]
    rep_levels, def_levels = rep_words.view(np.uint16), def_words.view(np.uint16)
    parts = np.empty(2 * (level_parts + value_parts), dtype=np.int64)
    count = entry = slot = seen = entries = values = np.int64(0)
    chunk, wanted_chunk, loaded = np.int64(0), np.int64(0), np.int64(-1)
    for index in range(len(rows)):
        row = rows[index]
        while wanted_chunk + 1 < len(starts) and begun[wanted_chunk + 1] <= row:
            wanted_chunk += 1
        chunk = max(chunk, wanted_chunk)
        inside = False
        while True:
            if chunk >= len(starts):
                return DAMAGED
            if loaded != chunk:
                start, size = starts[chunk], stops[chunk] - starts[chunk]
                if size < header:
                    return DAMAGED
                count = np.int64(_word(data, start, 2))
                cursor, position = start + 2, (header + 7) & -8
                for part in range(level_parts + value_parts):
                    step = 2 if part < level_parts else size_bytes
                    length = np.int64(_word(data, cursor, step))
                    cursor += step
                    if position + length > size:
                        return DAMAGED
                    parts[2 * part] = start + position
                    parts[2 * part + 1] = length
                    position = (position + length + 7) & -8
                if _read_levels(
                    data, words, parts[0], parts[1], count, rep_width, block_starts, block_widths, rep_words
                ):
                    return DAMAGED
                if def_width > 0 and _read_levels(
                    data, words, parts[2], parts[3], count, def_width, block_starts, block_widths, def_words
                ):
                    return DAMAGED
                loaded = chunk
                entry = slot = seen = np.int64(0)
            before = row - begun[chunk]
            if not inside and chunk == wanted_chunk:
                # Rows before this one are only counted, many entries at a time while it is further away.
                while entry + _STRIDE <= count:
                    rows_here = _count_equal(rep_levels, entry, np.uint16(highest))
                    if seen + rows_here > before:
                        break
                    seen += rows_here
                    if def_width > 0:
                        slot += _count_below(def_levels, entry, np.uint16(visible))
                    else:
                        slot += _STRIDE
                    entry += _STRIDE
                while entry < count:
                    if rep_levels[entry] == highest:
                        if seen == before:
                            inside = True
                            break
                        seen += 1
                    slot += def_width == 0 or def_levels[entry] < visible
                    entry += 1
            if not inside:
                # The index says that it begins here.
                return DAMAGED
            first = True
            while entry < count and (rep_levels[entry] != highest or (first and chunk == wanted_chunk)):
                if first and chunk == wanted_chunk:
                    seen += 1
                first = False
                if entries >= len(rep):
                    return NO_ROOM
                rep[entries] = rep_levels[entry]
                if def_width > 0:
                    definition[entries] = def_levels[entry]
                entries += 1
                if def_width == 0 or def_levels[entry] < visible:
                    if values >= len(found):
                        return NO_ROOM
                    found[values, 0] = slot
                    found[values, 1] = count
                    for part in range(2 * (level_parts + value_parts)):
                        found[values, 2 + part] = parts[part]
                    values += 1
                    slot += 1
                entry += 1
            if entry < count or ended[chunk + 1] > row:
                break
            chunk += 1
    totals[0] = entries
    totals[1] = values
    return 0


def find_lists(
    *,
    data: Bytes,
    words: Words64,
    starts: Integers,
    stops: Integers,
    begun: Integers,
    ended: Integers,
    rows: Integers,
    form: Integers,
    rep: Levels,
    definition: Levels,
    found: npt.NDArray[np.int64],
    scratch: npt.NDArray[np.uint64],
    totals: Integers,
) -> int:
    """Find the levels of rows, and the chunks of their values.

    Args:
        data: Bytes that hold the chunks of all wanted rows; positions that come from them are checked.
        words: All of them in whole words; need not be aligned.
        starts: Shape (chunks,): first byte of each chunk.
        stops: Shape (chunks,): end of each, within the data.
        begun: Shape (chunks,): rows that begin before each chunk.
        ended: Shape (chunks + 1,): rows that end before each chunk, and before the end of the last.
        rows: Shape (rows,): the wanted rows, ascending.
        form: Shape (6,): the width of repetition levels and of definition levels, `RUNS` for runs of them, 0
            for none; the bytes of the size of a value buffer; the value buffers of a chunk; the repetition
            level that begins a row; and the definition level below which an entry has a value.
        rep: Room for repetition levels.
        definition: As much for definition levels, or none where there are none.
        found: Shape (as many, 2 + 2 * parts): gets the table of the values, as `picking` takes it.
        scratch: Shape (2, ROOM / 4), for the loop to unpack levels in.
        totals: Shape (2,): gets the levels and the values.

    Returns:
        0; `DAMAGED`; or `NO_ROOM` when there are more levels than room for them.
    """
    chunks = (data, words, starts, stops, begun, ended)
    return int(_find_lists(*chunks, rows, form, rep, definition, found, scratch, totals))
