"""Split-block Bloom filters. Source: the Parquet format's BloomFilter.md."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers, Words64

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


def insert(*, hashes: Words64, ends: Integers, words: npt.NDArray[np.uint32]) -> None:
    """Put runs of values into filters, in sequence."""
    for filled, first, last in zip(words, np.append(0, ends)[:-1], ends, strict=True):
        blocks, bits = _places(hashes[first:last], len(filled) // _WORDS)
        for word in range(_WORDS):
            np.bitwise_or.at(filled, blocks * _WORDS + word, bits[:, word])


def _places(hashes: Words64, blocks: int) -> tuple[Integers, npt.NDArray[np.uint32]]:
    """Return the block of each value, and the bit of each of its words."""
    upper = hashes >> np.uint64(32)
    block = ((upper * np.uint64(blocks)) >> np.uint64(32)).astype(np.int64)
    lower = (hashes & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    shifts = (lower[:, None] * _SALT) >> np.uint32(27)
    return block, np.uint32(1) << shifts
