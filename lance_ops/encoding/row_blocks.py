"""Row blocks: where the deleted rows of fragments are, found without a long search.

Addresses that come in any order, as those of an index by value do, are looked up one by one: what a search of
all deleted rows takes is mostly branches that nobody can predict.
"""

from dataclasses import dataclass

import numpy as np

from lance_ops.encoding.arrays import Integers, Words64

_WORD_BITS = 6
_WORD_ROWS = 1 << _WORD_BITS


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """Rows of fragments in blocks of one size, which take no more memory than their deleted rows.

    Attributes:
        bits: 2 ** bits rows make a block; the last one of a fragment has fewer.
        first: Shape (fragments,): number of the first block of each.
        starts: Shape (blocks + 1,): where the deleted rows of each begin, and where all of them end.
        words: Shape (blocks,): a bit of each row that says whether it is deleted, the first one lowest;
            empty where few are.
    """

    bits: int
    first: Integers
    starts: Integers
    words: Words64

    @classmethod
    def of(cls, *, rows: Integers, deleted: Words64, stops: Integers) -> "RowBlocks":
        """Divide fragments into blocks.

        Args:
            rows: Shape (fragments,): rows of each, deleted ones included.
            deleted: Addresses of their deleted rows, ascending.
            stops: Shape (fragments,): where in `deleted` those of each end.
        """
        rows_each = int(rows.sum()) // max(1, len(deleted))
        # A block of 64 rows has two words, as many as two deleted rows.
        is_dense = len(deleted) > 0 and 2 * rows_each < _WORD_ROWS
        bits = _WORD_BITS if is_dense else rows_each.bit_length()
        counts = (rows >> bits) + 1
        first = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(rows)), np.diff(stops, prepend=0))
        places = (deleted & np.uint64(0xFFFF_FFFF)).astype(np.int64) >> bits
        # What a damaged deletion file names behind the last row is in the last block, and no row of it.
        taken = first[owners] + np.minimum(places, counts[owners] - 1)
        found = np.bincount(taken, minlength=int(counts.sum()))
        words = np.zeros(len(found) if is_dense else 0, np.uint64)
        if is_dense:
            each = np.uint64(1) << (deleted & np.uint64(_WORD_ROWS - 1))
            each[places >= counts[owners]] = 0
            begins = np.flatnonzero(np.diff(taken, prepend=-1))
            words[taken[begins]] = np.bitwise_or.reduceat(each, begins)
        return cls(bits, first, np.concatenate(([0], np.cumsum(found, dtype=np.int64))), words)
