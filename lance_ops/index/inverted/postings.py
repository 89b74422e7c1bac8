"""Posting lists: for each token the documents that contain it, ascending, with frequencies, in blocks.

A block of 128 begins with the best score that a document of it can have; full ones have the first document,
packed deltas of the others, and packed counts. The last block, unless full, has plain numbers or varints.
Blocks of 256 have no score, and store large counts separately.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index import posting_lists
from lance_ops.errors import CorruptFileError
from lance_ops.index.inverted.packing import Bytes, Ints

SMALL_BLOCK = 128
LARGE_BLOCK = 256
_SCORE_BYTES = 4
_PROBLEMS = {
    posting_lists.CUT_OFF: "a block is cut off",
    posting_lists.TOO_WIDE: "numbers of more than 32 bits",
    posting_lists.NOT_ASCENDING: "documents do not ascend",
}


@dataclass(frozen=True, slots=True)
class PostingFormat:
    """Format of the posting lists of a segment.

    Attributes:
        block_size: Documents of a full block.
        varint_tail: True if the last block has varints instead of 32-bit numbers.
    """

    block_size: int = SMALL_BLOCK
    varint_tail: bool = False

    @property
    def head_bytes(self) -> int:
        """Bytes before the documents of a block: its score, or nothing."""
        return _SCORE_BYTES if self.block_size == SMALL_BLOCK else 0


SMALL_FIXED = PostingFormat()


@dataclass(frozen=True, slots=True)
class Postings:
    """One posting list.

    Attributes:
        documents: Numbers of documents, ascending.
        counts: Frequency of the token in each.
    """

    documents: Ints
    counts: npt.NDArray[np.uint32]

    @classmethod
    def nothing(cls) -> "Postings":
        """Return an empty posting list."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.uint32))

    def __len__(self) -> int:
        return len(self.documents)

    def part(self, start: int, stop: int) -> "Postings":
        """Return some of them."""
        return Postings(self.documents[start:stop], self.counts[start:stop])

    @property
    def size_bytes(self) -> int:
        """Bytes in memory."""
        return int(self.documents.nbytes + self.counts.nbytes)


def decode_many(blocks: pa.LargeBinaryArray, lengths: Ints, form: PostingFormat, path: str) -> Postings:
    """Read posting lists, in sequence.

    Args:
        blocks: Their blocks.
        lengths: Documents of each.
        form: How they are stored.
        path: The file that they are from, for messages.

    Raises:
        CorruptFileError: They are not as long as they should be, or documents do not ascend.
    """
    size = form.block_size
    blocks_of = -(-lengths // size)
    if len(blocks) != blocks_of.sum() or blocks.null_count:
        raise _damage(f"{int(lengths.sum())} documents are not in {len(blocks)} blocks", path)
    data, offsets = _buffers(blocks)
    total = int(lengths.sum())
    documents, counts = np.empty(total, np.int64), np.empty(total, np.uint32)
    status = posting_lists.decode(
        data=data,
        offsets=offsets,
        lengths=lengths,
        block_size=size,
        head_bytes=form.head_bytes,
        varint_tail=form.varint_tail,
        documents=documents,
        counts=counts,
    )
    if status < 0:
        raise _damage(_PROBLEMS[status], path)
    return Postings(documents, counts)


def _buffers(blocks: pa.LargeBinaryArray) -> tuple[Bytes, Ints]:
    _, offsets, data = blocks.buffers()
    held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return held, np.frombuffer(offsets, np.int64)[blocks.offset : blocks.offset + len(blocks) + 1]


def _damage(problem: str, path: str) -> CorruptFileError:
    return CorruptFileError(problem, path=path, field="_posting", hint="rebuild the index")
