"""Run lengths."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words
from lance_ops.encoding.kernels.loops import loop, types

_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_LENGTHS = types.Array(types.uint8, 1, "C", readonly=True)
_WORDS = (types.uint8, types.uint16, types.uint32, types.uint64)
SLACK = 16
"""Values beyond the last one that `repeat` may write."""


def _unaligned(word):
    return types.Array(word, 1, "C", readonly=True, aligned=False)


@loop(
    [
        types.boolean(
            _unaligned(word), _NUMBERS, _NUMBERS, _LENGTHS, _NUMBERS, _NUMBERS, types.Array(word, 1, "C")
        )
        for word in _WORDS
    ]
)
def _repeat(values, firsts, runs, lengths, length_firsts, counts, target):
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
    """Repeat the values of chunks.

    Args:
        values: Values of the runs of all chunks; need not be aligned.
        firsts: Shape (chunks,): the first value of each chunk, which has all of its runs.
        runs: Shape (chunks,): runs of each chunk.
        lengths: Values of a run, at most 255.
        length_firsts: Shape (chunks,): the first length of each chunk, which has all of them.
        counts: Shape (chunks,): values of each chunk once repeated.
        target: Of the type of the values, with room for the sum of `counts` and `SLACK` more, which may be
            written.

    Returns:
        True if the lengths of each chunk add up to its count; if not, the target holds anything.
    """
    return bool(_repeat(values, firsts, runs, lengths, length_firsts, counts, target))
