"""The compiled loop that fills split-block Bloom filters. Source: the Parquet format's BloomFilter.md."""

import numpy as np
from numba import njit, types

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


@njit(
    types.void(
        types.Array(types.uint64, 1, "C", readonly=True),
        types.Array(types.int64, 1, "C", readonly=True),
        types.Array(types.uint32, 2, "C"),
    ),
    cache=True,
    nogil=True,
)
def insert(hashes, ends, words):
    """Put runs of values into filters.

    Args:
        hashes: Of all values.
        ends: End of the run of each filter; the first one begins at 0.
        words: The filters, one a row.
    """
    blocks = types.uint64(words.shape[1] // _WORDS)
    place = types.int64(0)
    for row in range(len(ends)):
        while place < ends[row]:
            value = hashes[place]
            first = types.int64(((value >> types.uint64(32)) * blocks) >> types.uint64(32)) * _WORDS
            lower = types.uint32(value & types.uint64(0xFFFF_FFFF))
            for word in range(_WORDS):
                shift = types.uint32(lower * _SALT[word]) >> types.uint32(27)
                words[row, first + word] |= types.uint32(1) << shift
            place += 1
