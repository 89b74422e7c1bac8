"""Top-k selection of many scores, most of which are equal to others."""

import numpy as np

from lance_ops.encoding.kernels.index.code_distances import greatest_of_least
from lance_ops.index.inverted.bm25 import Floats
from lance_ops.index.inverted.packing import Ints

_BLOCK = 256


def best_places(scores: Floats, count: int) -> Ints:
    """Return positions of the scores not below the `count`-th greatest, ascending.

    Args:
        scores: None of them is NaN.
        count: Number of scores, at least one; more are returned in case of ties.
    """
    if len(scores) <= count:
        return np.arange(len(scores))
    blocks = len(scores) // _BLOCK
    if blocks < 2 * count:
        return np.flatnonzero(scores >= _last(scores, count))
    # The `count` greatest block maxima are a lower bound of the result.
    heads = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    floor = _last(heads, count)
    places = np.flatnonzero(scores >= floor)
    some = scores[places]
    above = some > floor
    found = np.count_nonzero(above)
    if found < count:
        # The last one is one of many equals, which a partition would move about for nothing.
        return places
    return places[some >= _last(some[above], count)]


def _last(scores: Floats, count: int) -> np.float32:
    """Return the least of the greatest."""
    return np.float32(-greatest_of_least(distances=-scores, count=count))
