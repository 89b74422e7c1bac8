"""Writing posting lists: documents and counts of each word in blocks, as `postings` reads them.

Blocks of 256 pack the counts in the width that takes the fewest bytes; counts that are wider keep their upper
bits behind the block, 31 of them at most, as pylance does.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index import posting_lists
from lance_ops.index.inverted import packing
from lance_ops.index.inverted.packing import Bytes, Ints
from lance_ops.index.inverted.postings import PostingFormat

_MAX_EXCEPTIONS = 31


@dataclass(frozen=True, slots=True)
class EncodedPostings:
    """Serialised posting lists of several tokens.

    Attributes:
        blocks: List of large_binary, one list a token.
        best: Greatest score of each token, float32.
        lengths: Documents of each token.
    """

    blocks: pa.ListArray
    best: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.uint32]


def encode(
    documents: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint32],
    scores: npt.NDArray[np.float32],
    lengths: Ints,
    form: PostingFormat,
) -> EncodedPostings:
    """Store posting lists in sequence.

    Args:
        documents: Of all words, those of one ascending.
        counts: How often each holds the word.
        scores: What each would score.
        lengths: Documents of each word, none without.
        form: How they are stored.
    """
    size, head = form.block_size, form.head_bytes
    output, offsets, best = posting_lists.encode(
        documents=documents,
        counts=counts,
        scores=scores,
        lengths=lengths,
        block_size=size,
        head_bytes=head,
        varint_tail=form.varint_tail,
    )
    return _encoded(output, offsets, best, lengths, size)


def _encoded(
    output: Bytes, offsets: Ints, best: npt.NDArray[np.float32], lengths: Ints, block_size: int
) -> EncodedPostings:
    first_block = np.concatenate(([0], np.cumsum(-(-lengths // block_size))))
    blocks = pa.ListArray.from_arrays(
        pa.array(first_block, pa.int32()), packing.large_binary(offsets, output)
    )
    best_of = np.maximum.reduceat(best, first_block[:-1]) if len(best) else np.zeros(0, np.float32)
    return EncodedPostings(blocks, best_of, lengths.astype(np.uint32))
