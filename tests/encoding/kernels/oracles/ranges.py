"""Positions of several ranges, in sequence: what compiled loops walk, and numpy has to be told."""

import numpy as np

from lance_ops.encoding.arrays import Integers


def positions(starts: Integers, sizes: Integers) -> Integers:
    """Return the positions in each of some ranges.

    Args:
        starts: The first of each.
        sizes: How many each has.
    """
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()), dtype=np.int64)
