"""Pieces of rows next to each other: where each piece of each row goes, piece by piece."""

from collections.abc import Sequence

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers
from tests.encoding.kernels.oracles.ranges import positions

SLACK = 8
"""Bytes behind the last row that `join` may write."""


def join(
    *,
    pieces: Sequence[Bytes],
    offsets: Sequence[Integers | None],
    widths: Sequence[int],
    count: int,
    target: Bytes,
    ends: Integers,
) -> None:
    """Append pieces to each other, row by row."""
    found = [
        np.full(count, width, dtype=np.int64) if one is None else np.diff(one)
        for one, width in zip(offsets, widths, strict=True)
    ]
    ends[0] = 0
    np.cumsum(np.sum(found, axis=0), out=ends[1:])
    at = ends[:-1].copy()
    for piece, sizes in zip(pieces, found, strict=True):
        target[positions(at, sizes)] = piece[: int(sizes.sum())]
        at += sizes
