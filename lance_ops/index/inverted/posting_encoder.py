"""Writing posting lists: documents and counts of each word in blocks, as `postings` reads them.

Blocks of 256 pack the counts in the width that takes the fewest bytes; counts that are wider keep their upper
bits behind the block, 31 of them at most, as pylance does.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.fronts.index import posting_lists
from lance_ops.index.inverted import packing
from lance_ops.index.inverted.packing import Bytes, Ints, Words
from lance_ops.index.inverted.postings import LARGE_BLOCK, PostingFormat

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
    if posting_lists.available():
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
    firsts = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    blocks_of = -(-lengths // size)
    first_block = np.concatenate(([0], np.cumsum(blocks_of)))
    owner = np.repeat(np.arange(len(lengths)), blocks_of)
    place = np.arange(first_block[-1]) - first_block[owner]
    start = firsts[owner] + place * size
    held = np.minimum(lengths[owner] - place * size, size)
    is_full = held == size

    steps = np.diff(documents, prepend=documents[:1])
    # The first of a block (and of a list) is not a step from the one before.
    steps[start] = 0
    full = np.flatnonzero(is_full)
    rows = start[full][:, None] + np.arange(size)
    step_widths = packing.widths_of(steps[rows])
    packed = _PackedCounts.of(counts[rows])
    sizes = np.zeros(len(owner), np.int64)
    sizes[full] = head + 5 + packing.packed_bytes(step_widths, size) + packed.sizes

    tails = np.flatnonzero(~is_full)
    tail_rows, tail_owner = packing.expand(start[tails], held[tails])
    values = np.concatenate((documents[tail_rows], counts[tail_rows]))
    if form.varint_tail:
        in_tail = tail_rows > start[tails][tail_owner]
        values[: len(tail_rows)] = np.where(
            in_tail, np.diff(documents, prepend=0)[tail_rows], documents[tail_rows]
        )
        value_sizes = packing.varint_sizes(values)
    else:
        value_sizes = np.full(len(values), 4, np.int64)
    document_sizes, count_sizes = value_sizes[: len(tail_rows)], value_sizes[len(tail_rows) :]
    document_bytes = np.bincount(tail_owner, document_sizes, len(tails)).astype(np.int64)
    count_bytes = np.bincount(tail_owner, count_sizes, len(tails)).astype(np.int64)
    sizes[tails] = head + document_bytes + count_bytes

    offsets = np.concatenate(([0], np.cumsum(sizes)))
    output = np.zeros(offsets[-1], np.uint8)
    best = np.maximum.reduceat(scores, start) if len(start) else np.zeros(0, np.float32)
    if head:
        packing.write_words(output, offsets[:-1], best.astype("<f4"))
    at = offsets[full] + head
    packing.write_words(output, at, documents[start[full]].astype("<u4"))
    output[at + 4] = step_widths
    packing.pack_into(output, at + 5, steps[rows], step_widths)
    packed.write(output, at + 5 + packing.packed_bytes(step_widths, size))

    before = offsets[tails] + head
    places = np.concatenate(
        (
            before[tail_owner] + packing.offsets_in_owner(document_sizes, tail_owner),
            (before + document_bytes)[tail_owner] + packing.offsets_in_owner(count_sizes, tail_owner),
        )
    )
    if form.varint_tail:
        packing.write_varints(output, places, values)
    else:
        packing.write_words(output, places, values.astype("<u4"))
    return _encoded(output, offsets, best, lengths, size)


@dataclass(frozen=True, slots=True)
class _PackedCounts:
    """Counts of full blocks, one block a row.

    Attributes:
        body: The counts; without the upper bits of those that are too wide.
        widths: Bits of a value of each block.
        sizes: Bytes of each block.
        wide: Which counts are too wide, by block and place.
        upper: Their upper bits.
    """

    body: Words
    widths: Bytes
    sizes: Ints
    wide: tuple[Ints, Ints]
    upper: Words

    @classmethod
    def of(cls, counts: Words) -> "_PackedCounts":
        size = counts.shape[1]
        widths = _widths(counts) if size == LARGE_BLOCK else packing.widths_of(counts)
        upper = (counts.astype(np.uint64) >> widths[:, None]).astype(np.uint32)
        blocks, places = np.nonzero(upper)
        kept = (np.uint64(1) << widths.astype(np.uint64)) - np.uint64(1)
        body = counts & kept[:, None].astype(np.uint32)
        upper = upper[blocks, places]
        extra = np.bincount(blocks, 1 + packing.varint_sizes(upper), len(counts)).astype(np.int64)
        head = 2 if size == LARGE_BLOCK else 1
        return cls(body, widths, head + packing.packed_bytes(widths, size) + extra, (blocks, places), upper)

    def write(self, output: Bytes, starts: Ints) -> None:
        """Write each block to a place."""
        size = self.body.shape[1]
        output[starts] = self.widths
        blocks, places = self.wide
        if size != LARGE_BLOCK:
            packing.pack_into(output, starts + 1, self.body, self.widths)
            return
        output[starts + 1] = np.bincount(blocks, minlength=len(starts))
        packing.pack_into(output, starts + 2, self.body, self.widths)
        behind = starts + 2 + packing.packed_bytes(self.widths, size)
        at = behind[blocks] + packing.offsets_in_owner(1 + packing.varint_sizes(self.upper), blocks)
        output[at] = places
        packing.write_varints(output, at + 1, self.upper)


def _widths(counts: Words) -> Bytes:
    """Return bits of a value of each block that take the fewest bytes, of equals the most."""
    size = counts.shape[1]
    bits = np.frexp(counts.astype(np.float64))[1]
    rows = np.arange(len(counts))[:, None]
    # Counts of each block by their bits.
    having = np.bincount((rows * 33 + bits).ravel(), minlength=33 * len(counts)).reshape(-1, 33)
    width = np.arange(33)
    above = np.maximum(width[:, None] - width, 0)
    costs = having @ np.where(above > 0, 1 - (-above // 7), 0) + packing.packed_bytes(width, size)
    costs[having @ (above > 0) > _MAX_EXCEPTIONS] = np.iinfo(np.int64).max
    return np.asarray(32 - np.argmin(costs[:, ::-1], axis=1), np.uint8)


def _encoded(
    output: Bytes, offsets: Ints, best: npt.NDArray[np.float32], lengths: Ints, block_size: int
) -> EncodedPostings:
    first_block = np.concatenate(([0], np.cumsum(-(-lengths // block_size))))
    blocks = pa.ListArray.from_arrays(
        pa.array(first_block, pa.int32()), packing.large_binary(offsets, output)
    )
    best_of = np.maximum.reduceat(best, first_block[:-1]) if len(best) else np.zeros(0, np.float32)
    return EncodedPostings(blocks, best_of, lengths.astype(np.uint32))
