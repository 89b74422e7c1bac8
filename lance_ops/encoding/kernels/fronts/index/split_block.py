"""Split-block Bloom filters."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import split_block as reference


def insert(*, hashes: Words64, ends: Integers, words: npt.NDArray[np.uint32]) -> None:
    """Insert runs of values into filters.

    Args:
        hashes: Of all values.
        ends: Shape (filters,): the end of the run of each, which begins where the one before ends; they never
            fall, and none is larger than `len(hashes)`.
        words: Shape (filters, words of each): a whole number of blocks of eight words, at least one.
    """
    kernel = load("index.split_block")
    if kernel is None:
        reference.insert(hashes=hashes, ends=ends, words=words)
    else:
        kernel.insert(hashes, ends, words)
