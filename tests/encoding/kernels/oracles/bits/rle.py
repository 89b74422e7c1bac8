"""Run lengths."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words
from tests.encoding.kernels.oracles.ranges import positions

SLACK = 16
"""Values beyond the last one that `repeat` may write."""


def repeat(
    *,
    values: Words,
    firsts: Integers,
    runs: Integers,
    lengths: Bytes,
    length_firsts: Integers,
    counts: Integers,
    target: Words,
) -> bool:
    """Repeat the values of chunks; whether their lengths add up."""
    repeats = lengths[positions(length_firsts, runs)].astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(repeats)])
    last = np.cumsum(runs)
    if bool((ends[last] - ends[last - runs] != counts).any()):
        return False
    target[: int(counts.sum())] = np.repeat(values[positions(firsts, runs)], repeats)
    return True
