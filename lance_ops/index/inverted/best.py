"""The best of many scores, of which most are equal to others and few are wanted."""

import numpy as np

from lance_ops.encoding.kernels.fronts.index.code_distances import greatest_of_least
from lance_ops.index.inverted.bm25 import Floats
from lance_ops.index.inverted.packing import Ints

_BLOCK = 256


def best_places(scores: Floats, count: int) -> Ints:
    """Places of the scores that are not below the greatest but so many, ascending.

    Args:
        scores: None of them is NaN.
        count: How many are wanted, at least one. There are more where the last of them has equals.
    """
    if len(scores) <= count:
        return np.arange(len(scores))
    blocks = len(scores) // _BLOCK
    if blocks < 2 * count:
        return np.flatnonzero(scores >= _last(scores, count))
    # Of so many blocks the greatest scores are as many that are not below the last of these.
    heads = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    floor = _last(heads, count)
    places = np.flatnonzero(scores >= floor)
    some = scores[places]
    above = some > floor
    found = np.count_nonzero(above)
    if found < count:
        # The last one is one of many equals, which a partition would move about in vain.
        return places
    return places[some >= _last(some[above], count)]


def _last(scores: Floats, count: int) -> np.float32:
    """The least of the greatest."""
    return np.float32(-greatest_of_least(distances=-scores, count=count))
