"""Compiled loops of dropping rows from encoded pages."""

import numba
import numpy as np
from numba import types

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
        for position in range(start, stop):
            out[written + position - start] = data[position]
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
