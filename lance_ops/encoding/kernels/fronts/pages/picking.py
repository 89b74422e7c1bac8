"""Single values of mini-block pages, read from their compressed chunks.

There is no reference: where `available` says no, pages are decoded chunk by chunk. `found` is a table of
shape (values, 2 + 2 * parts) as `locate` gives it: of each value its number in its chunk, the levels of the
chunk, and the start and the size of each part of the chunk, in bytes of the data. Positions that come from
the bytes themselves are checked; that the parts lie within the data, the caller answers for.

All answers are 0, or `OUTSIDE` when something leaves its chunk; then what is filled in is not whole.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64
from lance_ops.encoding.kernels import load

OUTSIDE = -1

_Table = npt.NDArray[np.int64]


def available() -> bool:
    """Return whether the other functions can be called."""
    return load("pages.picking") is not None


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
    kernel = load("pages.picking")
    assert kernel is not None
    return int(kernel.locate(data, starts, stops, firsts, slots, level_parts, value_parts, found))


def pick_inline(*, data: Bytes, found: _Table, part: int, bits: int, values: Words64) -> int:
    """Return values from blocks that begin with their width.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The values.
        bits: Of a word: 8, 16, 32 or 64.
        values: Shape (values,): gets them.
    """
    kernel = load("pages.picking")
    assert kernel is not None
    return int(kernel.pick_inline(data, found, part, bits, values))


def pick_levels(*, data: Bytes, found: _Table, part: int, width: int, levels: Levels) -> int:
    """Levels from runs of blocks of one width; those behind the last block may be plain.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The levels.
        width: Bits of a packed level, 1 to 16.
        levels: Shape (values,): gets them.
    """
    kernel = load("pages.picking")
    assert kernel is not None
    return int(kernel.pick_levels(data, found, part, width, levels))


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
    kernel = load("pages.picking")
    assert kernel is not None
    return int(kernel.pick_runs(data, found, part, split, width, values))


def pick_bits(*, data: Bytes, found: _Table, part: int, values: npt.NDArray[np.bool_]) -> int:
    """Single bits, least significant first.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The values.
        values: Shape (values,): gets them.
    """
    kernel = load("pages.picking")
    assert kernel is not None
    return int(kernel.pick_bits(data, found, part, values))


def pick_flat(*, data: Bytes, found: _Table, part: int, width: int, values: Bytes) -> int:
    """Plain values of a number of bytes.

    Args:
        data: Bytes that hold the chunks.
        found: The table.
        part: The values.
        width: Bytes of a value.
        values: Shape (values * width,): gets them.
    """
    kernel = load("pages.picking")
    assert kernel is not None
    return int(kernel.pick_flat(data, found, part, width, values))


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
    kernel = load("pages.picking")
    assert kernel is not None
    return int(kernel.pick_extents(data, found, part, width, starts, offsets))


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
    kernel = load("pages.picking")
    assert kernel is not None
    where = (ends, firsts, lasts, numbers)
    return int(kernel.find_rows(rep, definition, highest, visible, *where, found))
