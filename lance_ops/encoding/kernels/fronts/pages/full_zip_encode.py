"""Pieces of rows next to each other."""

from collections.abc import Sequence

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.pages import full_zip_encode as reference

SLACK = reference.SLACK


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
    kernel = load("pages.full_zip_encode")
    if kernel is None:
        reference.join(pieces=pieces, offsets=offsets, widths=widths, count=count, target=target, ends=ends)
        return
    # The loop takes addresses, since numba would count references; the arrays outlive the call.
    firsts = np.array([piece.ctypes.data for piece in pieces], dtype=np.uint64)
    sizes = np.array([len(piece) for piece in pieces], dtype=np.uint64)
    places = np.array([0 if one is None else one.ctypes.data for one in offsets], dtype=np.uint64)
    steps = np.array(widths, dtype=np.uint64)
    kernel.join(firsts, firsts + sizes, places, steps, count, target.ctypes.data, ends)
