"""Looking up values of variable width: entries of a dictionary by position, in sequence."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words
from tests.encoding.kernels.oracles.ranges import positions as places

OUTSIDE = -1
SPARE = 32


def measure(*, positions: Words, ends: Integers, out_offsets: Offsets) -> int:
    """Return offsets of the values; the bytes of all of them, or what is wrong."""
    if len(positions) and int(positions.max()) >= len(ends) - 1:
        return OUTSIDE
    total = np.cumsum(np.diff(ends)[positions])
    out_offsets[0] = 0
    out_offsets[1:] = total
    return int(total[-1]) if len(total) else 0


def copy(*, positions: Words, ends: Integers, data: Bytes, out: Bytes) -> None:
    """Put values in sequence."""
    found = places(ends[:-1][positions], np.diff(ends)[positions])
    out[: len(found)] = data[found]
