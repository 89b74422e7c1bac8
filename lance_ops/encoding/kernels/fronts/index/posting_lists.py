"""Posting lists of full-text indices: documents, ascending, and counts, in blocks.

There is no reference: where `available` says no, `index.inverted.postings` works on many blocks at once.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Floats, Integers
from lance_ops.encoding.kernels import load

_ROOM_OF_DOCUMENT, _ROOM_OF_BLOCK = 10, 10


def available() -> bool:
    """Return whether the others can be called."""
    return load("index.posting_lists") is not None


def decode(
    *,
    data: Bytes,
    offsets: Integers,
    lengths: Integers,
    block_size: int,
    head_bytes: int,
    varint_tail: bool,
    documents: Integers,
    counts: npt.NDArray[np.uint32],
) -> bool:
    """Read posting lists.

    Args:
        data: Their blocks.
        offsets: Shape (blocks + 1,): where each begins and the last one ends, ascending and within `data`.
        lengths: Documents of each list, which has a block for each `block_size` of them, the last not full.
        block_size: 128 or 256.
        head_bytes: What lies before the documents of a block.
        varint_tail: True if blocks that are not full have varints, and not numbers of 32 bits.
        documents: Filled: the documents of all lists.
        counts: Filled: how often each holds the word.

    Returns:
        True if all blocks can be read, end where they should, and name documents that ascend.
    """
    kernel = load("index.posting_lists")
    assert kernel is not None
    found = kernel.decode(data, offsets, lengths, block_size, head_bytes, varint_tail, documents, counts)
    return int(found) == 0


def encode(
    *,
    documents: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint32],
    scores: Floats,
    lengths: Integers,
    block_size: int,
    head_bytes: int,
    varint_tail: bool,
) -> tuple[Bytes, Integers, Floats]:
    """Write posting lists in blocks.

    Args:
        documents: Of all lists, those of one ascending.
        counts: How often each holds the word.
        scores: What each would score.
        lengths: Documents of each list, none without.
        block_size: 128 or 256.
        head_bytes: 4 where blocks begin with the best score of their documents, 0 where they do not.
        varint_tail: True if blocks that are not full get varints, and not numbers of 32 bits.

    Returns:
        (the blocks, in sequence; int64, shape (blocks + 1,): where each begins and the last one
        ends; the best score of each block).
    """
    kernel = load("index.posting_lists")
    assert kernel is not None
    blocks = int((-(-lengths // block_size)).sum())
    output = np.empty(_ROOM_OF_DOCUMENT * len(documents) + _ROOM_OF_BLOCK * blocks, np.uint8)
    offsets, best = np.empty(blocks + 1, np.int64), np.empty(blocks, np.float32)
    used = kernel.encode(
        documents, counts, scores, lengths, block_size, head_bytes, varint_tail, output, offsets, best
    )
    written = output[: int(used)].copy()
    if head_bytes:
        written[offsets[:-1, None] + np.arange(4)] = best.astype("<f4").view(np.uint8).reshape(-1, 4)
    return written, offsets, best


def arrange(
    *,
    words: npt.NDArray[np.uint32],
    documents: npt.NDArray[np.uint32],
    extra: npt.NDArray[np.uint32],
    places: Integers,
    documents_out: npt.NDArray[np.uint32],
    extra_out: npt.NDArray[np.uint32],
) -> None:
    """Append entries to those of the same token, in order.

    Args:
        words: Word of each entry, below the length of `places`.
        documents: Document of each.
        extra: What else it has.
        places: Where the next entry of each word goes, with room for all of them; moved on.
        documents_out: Filled at these places.
        extra_out: Filled, too.
    """
    kernel = load("index.posting_lists")
    assert kernel is not None
    kernel.arrange(words, documents, extra, places, documents_out, extra_out)
