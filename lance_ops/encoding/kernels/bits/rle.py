"""Compiled loops of run lengths."""

import numpy as np
from numba import njit, types

_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_LENGTHS = types.Array(types.uint8, 1, "C", readonly=True)
_WORDS = (types.uint8, types.uint16, types.uint32, types.uint64)

SLACK = 16
"""Values beyond the last one that `repeat` may write."""


def _unaligned(word):  # type: ignore[no-untyped-def]
    return types.Array(word, 1, "C", readonly=True, aligned=False)


@njit(
    [
        types.boolean(
            _unaligned(word), _NUMBERS, _NUMBERS, _LENGTHS, _NUMBERS, _NUMBERS, types.Array(word, 1, "C")
        )
        for word in _WORDS
    ],
    cache=True,
    nogil=True,
)
def repeat(values, firsts, runs, lengths, length_firsts, counts, target):  # type: ignore[no-untyped-def]
    """Repeat the values of chunks.

    Args:
        values: Values of the runs.
        firsts: Where those of each chunk begin.
        runs: Runs of each chunk.
        lengths: Lengths of the runs.
        length_firsts: Where those of each chunk begin.
        counts: Values of each chunk, repeated.
        target: Room for all of them, and `SLACK` more.

    Returns:
        True if the lengths add up.
    """
    position = np.int64(0)
    for chunk in range(len(firsts)):
        end = position + counts[chunk]
        for run in range(runs[chunk]):
            length = np.int64(lengths[length_firsts[chunk] + run])
            if length > end - position:
                return False
            value = values[firsts[chunk] + run]
            # Whole steps are quicker than exact ones; what is too much is overwritten by the next run.
            for step in range(position, position + length, SLACK):
                part = target[step : step + SLACK]
                for place in range(SLACK):
                    part[place] = value
            position += length
        if position != end:
            return False
    return True
