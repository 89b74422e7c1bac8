"""The compiled loop that puts the pieces of rows next to each other."""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.words import copy_memory, peek_u8, peek_u64, poke_u8, poke_u64

_ADDRESSES = types.Array(types.uint64, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C")

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_WORD_SHIFT = np.uint64(3)
_WORD = np.uint64(8)
# From here on a copy is worth a call.
_LONG = np.uint64(64)

SLACK = 8
"""Bytes behind the last row that `join` may write."""


@njit(
    types.void(_ADDRESSES, _ADDRESSES, _ADDRESSES, _ADDRESSES, types.int64, types.uint64, _INTEGERS),
    cache=True,
    nogil=True,
)
def join(firsts, lasts, offsets, widths, count, target, ends):
    """Append pieces to each other, row by row.

    Args:
        firsts: Address of the bytes of each piece.
        lasts: Address behind them.
        offsets: Address of the offsets (int64, from 0) of each piece, 0 where all rows have the same width.
        widths: That width.
        count: Number of rows.
        target: Address of room for all bytes, and for `SLACK` more.
        ends: Room for where each row begins, and for the end of the last one.
    """
    at = target
    for row in range(count):
        ends[row] = at - target
        number = np.uint64(row)
        for piece in range(len(firsts)):
            if offsets[piece] == _ZERO:
                size = widths[piece]
                source = firsts[piece] + number * size
            else:
                place = offsets[piece] + (number << _WORD_SHIFT)
                start = peek_u64(place)
                source, size = firsts[piece] + start, peek_u64(place + _WORD) - start
            done = _ZERO
            if size >= _LONG:
                copy_memory(at, source, size)
                done = size
            # What is copied too much is overwritten by what comes next.
            while done < size and source + done + _WORD <= lasts[piece]:
                poke_u64(at + done, peek_u64(source + done))
                done += _WORD
            while done < size:
                poke_u8(at + done, peek_u8(source + done))
                done += _ONE
            at += size
    ends[count] = at - target
