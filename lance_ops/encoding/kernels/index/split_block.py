"""Split-block Bloom filters."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers, Words64
from lance_ops.encoding.kernels.loops import loop, types

_WORDS = 8
_SALT = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    np.uint32,
)


@loop(
    types.void(
        types.Array(types.uint64, 1, "C", readonly=True),
        types.Array(types.int64, 1, "C", readonly=True),
        types.Array(types.uint32, 2, "C"),
    )
)
def _insert(hashes, ends, words):
    blocks = np.uint64(words.shape[1] // _WORDS)
    place = np.int64(0)
    for row in range(len(ends)):
        while place < ends[row]:
            value = hashes[place]
            first = np.int64(((value >> np.uint64(32)) * blocks) >> np.uint64(32)) * _WORDS
            lower = np.uint32(value & np.uint64(0xFFFF_FFFF))
            for word in range(_WORDS):
                shift = np.uint32(lower * _SALT[word]) >> np.uint32(27)
                words[row, first + word] |= np.uint32(1) << shift
            place += 1


def insert(*, hashes: Words64, ends: Integers, words: npt.NDArray[np.uint32]) -> None:
    """Insert runs of values into filters.

    Args:
        hashes: Of all values.
        ends: Shape (filters,): the end of the run of each, which begins where the one before ends; they never
            fall, and none is larger than `len(hashes)`.
        words: Shape (filters, words of each): a whole number of blocks of eight words, at least one.
    """
    _insert(hashes, ends, words)
