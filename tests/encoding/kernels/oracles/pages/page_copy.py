"""Dropping rows from encoded pages."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers

MALFORMED = -1
TOO_LARGE = -2


def gather_ranges(*, data: Bytes, starts: Integers, stops: Integers, out: Bytes) -> int:
    """Concatenate the bytes of ranges; return their number, or an error code."""
    written = 0
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if not 0 <= start <= stop <= len(data) or written + stop - start > len(out):
            return MALFORMED
        out[written : written + stop - start] = data[start:stop]
        written += stop - start
    return written


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
    """Count the entries of rows of a full-zip page, all rows side by side; 0, or what is wrong."""
    cursor, ends = starts, stops
    if bool((cursor < 0).any()) or bool((ends > len(data)).any()):
        return MALFORMED
    while len(cursor):
        going = cursor < ends
        cursor, ends = cursor[going], ends[going]
        if bool((cursor + control_bytes > ends).any()):
            return MALFORMED
        levels = _read(data, cursor, control_bytes) & ((1 << def_bits) - 1)
        moved = cursor + control_bytes
        shown = levels < visible_below
        if length_bytes:
            present = np.flatnonzero(levels == 0)
            if bool((moved[present] + length_bytes > ends[present]).any()):
                return MALFORMED
            lengths = _read(data, moved[present], length_bytes)
            moved[present] += length_bytes
            if bool((lengths < 0).any()) or bool((lengths > ends[present] - moved[present]).any()):
                return MALFORMED
            moved[present] += lengths
        else:
            moved = moved + np.where(shown, value_bytes, 0)
        if bool((moved > ends).any()) or bool((moved == cursor).any()):
            return MALFORMED
        counts += len(cursor), int(np.count_nonzero(shown))
        cursor = moved
    return 0


def _read(data: Bytes, places: Integers, width: int) -> Integers:
    words = np.zeros(len(places), dtype=np.int64)
    for byte in range(width):
        words |= data[places + byte].astype(np.int64) << (8 * byte)
    return words
