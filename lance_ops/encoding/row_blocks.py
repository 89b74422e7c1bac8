"""Row blocks: where the deleted rows of fragments are, found without a long search.

Addresses that come in any order, as those of an index by value do, are looked up one by one: what a search of
all deleted rows takes is mostly branches that cannot be predicted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
        deleted: Offsets of all deleted rows, those of a fragment ascending, one fragment after the other;
            empty where there are words.
    """

    bits: int
    first: Integers
    starts: Integers
    words: Words64
    deleted: npt.NDArray[np.uint32]

    @classmethod
    def of(
        cls, *, rows: Integers, counts: Integers, offsets: Callable[[int], npt.NDArray[np.uint32]]
    ) -> "RowBlocks":
        """Divide fragments into blocks. Beside the result, only one fragment is in memory at a time.

        Args:
            rows: Shape (fragments,): rows of each, deleted ones included.
            counts: Shape (fragments,): deleted rows of each.
            offsets: Gives the offsets of the deleted rows of a fragment by its place, ascending.
        """
        total = int(counts.sum())
        rows_each = int(rows.sum()) // max(1, total)
        # A block of 64 rows has two words, as many as two deleted rows.
        is_dense = total > 0 and 2 * rows_each < _WORD_ROWS
        bits = _WORD_BITS if is_dense else rows_each.bit_length()
        sizes = (rows >> bits) + 1
        first = np.cumsum(sizes) - sizes
        starts = np.zeros(int(sizes.sum()) + 1, np.int64)
        words = np.zeros(len(starts) - 1 if is_dense else 0, np.uint64)
        deleted = np.empty(0 if is_dense else total, np.uint32)
        done = 0
        for place in np.flatnonzero(counts).tolist():
            own = offsets(place)
            begin, size = int(first[place]), int(sizes[place])
            # What a damaged deletion file names behind the last row is in the last block, and no row of it.
            blocks = np.minimum(own >> np.uint32(bits), np.uint32(size - 1))
            starts[begin + 1 : begin + size + 1] = np.bincount(blocks, minlength=size)
            if is_dense:
                is_deleted = np.zeros(size * _WORD_ROWS, np.bool_)
                is_deleted[own[own < len(is_deleted)]] = True
                words[begin : begin + size] = np.packbits(is_deleted, bitorder="little").view("<u8")
            else:
                deleted[done : done + len(own)] = own
            done += len(own)
        return cls(bits, first, np.cumsum(starts, out=starts), words, deleted)

    def addresses(self, ids: Words64) -> Words64:
        """Return addresses of all deleted rows, in the order of the fragments; takes 8 bytes for each.

        Args:
            ids: Shape (fragments,): of the fragments.
        """
        parts: list[Words64] = [np.zeros(0, np.uint64)]
        stops = np.append(self.first, len(self.starts) - 1)[1:]
        for number, begin, stop in zip(ids, self.first, stops, strict=True):
            if len(self.words):
                bits = np.unpackbits(self.words[begin:stop].astype("<u8").view(np.uint8), bitorder="little")
                own = np.flatnonzero(bits).astype(np.uint64)
            else:
                own = self.deleted[self.starts[begin] : self.starts[stop]].astype(np.uint64)
            parts.append(number << np.uint64(32) | own)
        return np.concatenate(parts)
