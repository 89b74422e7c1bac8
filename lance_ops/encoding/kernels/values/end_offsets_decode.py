"""End offsets of 2.0 into Arrow's offsets and validity."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.loops import loop, types

# Ends are read where they lie in a file, which may be anywhere in memory.
_ENDS = types.Array(types.uint64, 1, "C", readonly=True, aligned=False)
TOO_LARGE = -1
DECREASING = -2


@loop(types.int64(_ENDS, types.uint64, types.uint64, types.int64, types.int64[::1], types.uint8[::1]))
def _decode(ends, step, limit, skipped, offsets, validity):
    before = np.uint64(0)
    if skipped:
        before = ends[0]
        if step > np.uint64(0) and before >= step:
            before -= step
        if before > limit:
            return TOO_LARGE
    offsets[0] = before
    highest = before
    nulls = 0
    decreasing = False
    for row in range(len(offsets) - 1):
        end = ends[row + skipped]
        null = (step > np.uint64(0)) & (end >= step)
        if null:
            end -= step
        decreasing |= end < before
        highest = max(highest, end)
        before = end
        offsets[row + 1] = end
        nulls += null
        validity[np.uint64(row) >> np.uint64(3)] |= np.uint8(not null) << np.uint8(row & 7)
    if highest > limit:
        return TOO_LARGE
    return DECREASING if decreasing else nulls


def decode(*, ends: Words64, step: int, limit: int, skipped: int, offsets: Integers, validity: Bytes) -> int:
    """Decode ends.

    Args:
        ends: Shape (rows + skipped,), with that of the row before the first in front, if it is to be skipped;
            need not be aligned.
        step: What is added to the end of a null row; 0 if no row is null.
        limit: The highest end that may be.
        skipped: 1 if there is a row before the first, else 0.
        offsets: Shape (rows + 1,): gets the offsets.
        validity: Shape ((rows + 7) // 8,), zeros: gets a bit for each row that is not null.

    Returns:
        The number of null rows, or what is wrong: `TOO_LARGE` or `DECREASING`.
    """
    return int(_decode(ends, step, limit, skipped, offsets, validity))
