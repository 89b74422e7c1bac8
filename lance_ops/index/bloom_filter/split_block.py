"""Split-block Bloom filter: blocks of 256 bits, one bit in each of the eight words of one block a value.

Source: the Parquet format's BloomFilter.md.
"""

import math

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers, Words64
from lance_ops.encoding.kernels.index.split_block import insert

BLOCK_BYTES = 32
MOST_BYTES = 128 << 20
"""Maximum size of a filter."""

_WORDS = 8


def filter_bytes(items: int, probability: float) -> int:
    """The size of a filter of some distinct values with a probability of false positives: a power of two."""
    bits = -8.0 * items / math.log1p(-(probability ** (1.0 / 8.0)))
    wanted = min(max(math.ceil(bits / 8.0), BLOCK_BYTES), MOST_BYTES)
    return 1 << (wanted - 1).bit_length()


def make_filters(hashes: Words64, ends: Integers, size: int) -> npt.NDArray[np.uint32]:
    """Filters of runs of values.

    Args:
        hashes: Of all values.
        ends: Where the run of each filter ends, and the next one begins.
        size: Bytes of a filter.

    Returns:
        A row of words for each filter.
    """
    words = np.zeros((len(ends), size // 4), np.uint32)
    insert(hashes=hashes, ends=ends, words=words)
    return words


def may_contain(filters: npt.NDArray[np.uint32], value: np.uint64) -> npt.NDArray[np.bool_]:
    """Return which filters may contain a value.

    Args:
        filters: A row of words for each filter.
        value: Hash of the value.
    """
    # The upper half of a hash chooses the block, the lower one the bits of its words.
    block = ((int(value) >> 32) * (filters.shape[1] // _WORDS)) >> 32
    bits = make_filters(np.array([value], np.uint64), np.array([1]), BLOCK_BYTES)[0]
    held = filters[:, block * _WORDS : (block + 1) * _WORDS] & bits
    return np.asarray((held == bits).all(axis=1), dtype=np.bool_)
