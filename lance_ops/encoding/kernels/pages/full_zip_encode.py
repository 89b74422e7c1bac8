"""Pieces of rows next to each other."""

from collections.abc import Sequence

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels.loops import loop, types
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


@loop(types.void(_ADDRESSES, _ADDRESSES, _ADDRESSES, _ADDRESSES, types.int64, types.uint64, _INTEGERS))
def _join(firsts, lasts, offsets, widths, count, target, ends):
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


def join(
    *,
    pieces: Sequence[Bytes],
    offsets: Sequence[Integers | None],
    widths: Sequence[int],
    count: int,
    target: Bytes,
    ends: Integers,
) -> None:
    """Append pieces to each other, row by row.

    Args:
        pieces: The bytes of each piece, of one row after the other.
        offsets: Of each piece, shape (rows + 1,), from 0 and within its bytes; None where all rows have the
            same width.
        widths: That width, in bytes.
        count: Number of rows.
        target: Room for all bytes, and for `SLACK` more, which may be written.
        ends: Shape (rows + 1,): gets where each row begins, and the end of the last one.
    """
    # The loop takes addresses, since numba would count references; the arrays outlive the call.
    firsts = np.array([piece.ctypes.data for piece in pieces], dtype=np.uint64)
    sizes = np.array([len(piece) for piece in pieces], dtype=np.uint64)
    places = np.array([0 if one is None else one.ctypes.data for one in offsets], dtype=np.uint64)
    steps = np.array(widths, dtype=np.uint64)
    _join(firsts, firsts + sizes, places, steps, count, target.ctypes.data, ends)
