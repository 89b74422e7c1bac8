"""Entries of full-zip rows, each its levels, its length, and its value."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Levels
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import READONLY_BYTES, load_u64

_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_OUT = types.int64[::1]
_LEVELS = types.uint16[::1]
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
TOO_LONG = -1
WITHOUT_BYTES = -2
NOT_FILLED = -3


@inner(types.uint64(READONLY_BYTES, types.int64, types.int64), inline="always")
def _word(data, position, width):
    if width == 0:
        return np.uint64(0)
    if position + 8 <= len(data):
        return load_u64(data, position) & (_ALL >> np.uint64(64 - 8 * width))
    # Single bytes, because there are no eight of them.
    value = np.uint64(0)
    for byte in range(width):
        value |= np.uint64(data[position + byte]) << np.uint64(8 * byte)
    return value


@loop(
    types.int64(
        READONLY_BYTES, _NUMBERS, _NUMBERS, _NUMBERS, types.boolean, _LEVELS, _LEVELS, _OUT, _OUT, _OUT
    )
)
def _walk(data, starts, stops, form, single, rep, definition, values, offsets, totals):
    control, rep_bits, def_bits, length_bytes, value_bytes, visible = (
        form[0], form[1], form[2], form[3], form[4], form[5],
    )  # fmt: skip
    def_mask = (np.uint64(1) << np.uint64(def_bits)) - np.uint64(1)
    rep_mask = (np.uint64(1) << np.uint64(rep_bits)) - np.uint64(1)
    keep = len(offsets) > 0
    if keep:
        offsets[0] = 0
    entries = slots = size = np.int64(0)
    for row in range(len(starts)):
        cursor, stop = starts[row], stops[row]
        if single and cursor == stop:
            return WITHOUT_BYTES
        while cursor < stop:
            value = cursor + control
            if value > stop:
                return TOO_LONG
            word = _word(data, cursor, control)
            level = word & def_mask
            length = np.int64(0)
            if length_bytes > 0:
                # A null has neither length nor value.
                if level == np.uint64(0):
                    value += length_bytes
                    if value > stop:
                        return TOO_LONG
                    length = np.int64(_word(data, value - length_bytes, length_bytes))
            elif np.int64(level) < visible:
                length = value_bytes
            if length < 0 or length > stop - value:
                return TOO_LONG
            if value + length == cursor:
                return WITHOUT_BYTES
            if keep:
                if rep_bits > 0:
                    rep[entries] = np.uint16((word >> np.uint64(def_bits)) & rep_mask)
                if def_bits > 0:
                    definition[entries] = np.uint16(level)
            entries += 1
            if np.int64(level) < visible:
                size += length
                if keep:
                    values[slots] = value
                    offsets[slots + 1] = size
                slots += 1
            cursor = value + length
            if single:
                if cursor != stop:
                    return NOT_FILLED
                break
    totals[0] = entries
    totals[1] = slots
    totals[2] = size
    return 0


def walk(
    *,
    data: Bytes,
    starts: Integers,
    stops: Integers,
    form: Integers,
    single: bool,
    rep: Levels,
    definition: Levels,
    values: Integers,
    offsets: Integers,
    totals: Integers,
) -> int:
    """Walk the entries of some rows; without room for the results it only counts.

    Args:
        data: The bytes of all rows.
        starts: Shape (rows,): first byte of each row.
        stops: Shape (rows,): end of each row, within the data and not before its start.
        form: Shape (6,): bytes of the levels (at most 8); bits of the repetition level and of the definition
            level (the lowest ones); bytes of the length (at most 8); bytes of a value of fixed width; and the
            definition level below which an entry has a slot.
        single: True if a row is one entry.
        rep: Shape (entries,) if there are any: gets the repetition level of each entry.
        definition: Shape (entries,) if there are any: gets its definition level.
        values: Shape (slots,): gets the byte at which each value that has a slot starts.
        offsets: Shape (slots + 1,): gets the offsets of these values once they are joined; or shape (0,), and
            then only `totals` is filled in.
        totals: Shape (3,): gets the entries, the slots, and the bytes of values.

    Returns:
        0, or what is wrong: `TOO_LONG`, `WITHOUT_BYTES`, or `NOT_FILLED`.
    """
    return int(_walk(data, starts, stops, form, single, rep, definition, values, offsets, totals))
