"""Split-block Bloom filter: blocks of 256 bits, one bit in each of the eight words of one block a value.

Source: the Parquet format's BloomFilter.md.
"""

import math

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 32
MOST_BYTES = 128 << 20
"""No filter is larger, whatever is asked for."""

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


def filter_bytes(items: int, probability: float) -> int:
    """Size of a filter of some distinct values with a probability of false positives: a power of two."""
    bits = -8.0 * items / math.log1p(-(probability ** (1.0 / 8.0)))
    wanted = min(max(math.ceil(bits / 8.0), BLOCK_BYTES), MOST_BYTES)
    return 1 << (wanted - 1).bit_length()


def make_filter(hashes: npt.NDArray[np.uint64], size: int) -> bytes:
    """The filter of values.

    Args:
        hashes: Of the values.
        size: Bytes of the filter.
    """
    words = np.zeros(size // 4, np.uint32)
    blocks, bits = _places(hashes, size // BLOCK_BYTES)
    for word in range(_WORDS):
        np.bitwise_or.at(words, blocks * _WORDS + word, bits[:, word])
    return words.astype("<u4").tobytes()


def may_contain(filters: npt.NDArray[np.uint32], value: np.uint64) -> npt.NDArray[np.bool_]:
    """Which filters may contain a value.

    Args:
        filters: A row of words for each filter.
        value: Hash of the value.
    """
    blocks, bits = _places(np.array([value], np.uint64), filters.shape[1] // _WORDS)
    first = int(blocks[0]) * _WORDS
    held = filters[:, first : first + _WORDS] & bits[0]
    return np.asarray((held == bits[0]).all(axis=1), dtype=np.bool_)


def _places(
    hashes: npt.NDArray[np.uint64], blocks: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """The block of each value, and the bit of each of its words."""
    upper = hashes >> np.uint64(32)
    block = ((upper * np.uint64(blocks)) >> np.uint64(32)).astype(np.int64)
    lower = (hashes & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    shifts = (lower[:, None] * _SALT) >> np.uint32(27)
    return block, np.uint32(1) << shifts
