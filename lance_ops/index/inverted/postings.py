"""Posting lists: for each token the documents that contain it, ascending, with frequencies, in blocks.

A block of 128 begins with the best score that a document of it can have; full ones have the first document,
packed deltas of the others, and packed counts. The last block, unless full, has plain numbers or varints.
Blocks of 256 have no score, and store large counts separately.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.fronts.index import posting_lists
from lance_ops.errors import CorruptFileError
from lance_ops.index.inverted import packing
from lance_ops.index.inverted.packing import Bytes, Ints, Words

SMALL_BLOCK = 128
LARGE_BLOCK = 256
_SCORE_BYTES = 4
_BLOCKS_AT_ONCE = 1 << 13


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
    if posting_lists.available():
        total = int(lengths.sum())
        documents, counts = np.empty(total, np.int64), np.empty(total, np.uint32)
        if posting_lists.decode(
            data=data,
            offsets=offsets,
            lengths=lengths,
            block_size=size,
            head_bytes=form.head_bytes,
            varint_tail=form.varint_tail,
            documents=documents,
            counts=counts,
        ):
            return Postings(documents, counts)
        # The following code reports errors.
    first_block = np.concatenate(([0], np.cumsum(blocks_of)))
    owner = np.repeat(np.arange(len(lengths)), blocks_of)
    place = np.arange(len(owner)) - first_block[owner]
    held = np.minimum(lengths[owner] - place * size, size)
    target = np.concatenate(([0], np.cumsum(held)))
    documents, counts = np.empty(target[-1], np.int64), np.empty(target[-1], np.uint32)
    full = np.flatnonzero(held == size)
    for first in range(0, len(full), _BLOCKS_AT_ONCE):
        chosen = full[first : first + _BLOCKS_AT_ONCE]
        rows = target[chosen][:, None] + np.arange(size)
        documents[rows], counts[rows] = _full_blocks(data, offsets[chosen], offsets[chosen + 1], form, path)
    tails = np.flatnonzero(held < size)
    rows, _ = packing.expand(target[tails], held[tails])
    documents[rows], counts[rows] = _tails(data, offsets[tails], offsets[tails + 1], held[tails], form, path)
    ascends = np.diff(documents) > 0
    ascends[np.cumsum(lengths[lengths > 0])[:-1] - 1] = True
    if not ascends.all():
        raise _damage("documents do not ascend", path)
    return Postings(documents, counts)


def _full_blocks(
    data: Bytes, starts: Ints, stops: Ints, form: PostingFormat, path: str
) -> tuple[Ints, Words]:
    size = form.block_size
    starts = starts + form.head_bytes
    first = _u32_at(data, starts, stops, path)
    widths = _u8_at(data, starts + 4, stops, path)
    _check_widths(widths, path)
    at = starts + 5
    steps = packing.unpack(data, _within(at, packing.packed_bytes(widths, size), stops, path), widths, size)
    documents = first[:, None] + np.cumsum(steps, axis=1, dtype=np.int64)
    at = at + packing.packed_bytes(widths, size)
    widths = _u8_at(data, at, stops, path)
    _check_widths(widths, path)
    at = at + 1
    exceptions = np.zeros(len(at), np.int64)
    if size == LARGE_BLOCK:
        exceptions = _u8_at(data, at, stops, path).astype(np.int64)
        at = at + 1
    counts = packing.unpack(data, _within(at, packing.packed_bytes(widths, size), stops, path), widths, size)
    at = at + packing.packed_bytes(widths, size)
    for row in np.flatnonzero(exceptions).tolist():
        _add_exceptions(counts[row], data[at[row] : stops[row]], int(exceptions[row]), int(widths[row]), path)
    return documents, counts


def _add_exceptions(counts: Words, data: Bytes, number: int, width: int, path: str) -> None:
    """Upper bits of counts that did not fit, each behind its place in the block."""
    at = 0
    for _ in range(number):
        if at >= len(data) or width >= 32:
            raise _damage("a count is cut off", path)
        value, size = packing.read_varints(data[at + 1 :], 1, path)
        counts[data[at]] |= value[0] << np.uint32(width)
        at += 1 + size


def _tails(
    data: Bytes, starts: Ints, stops: Ints, lengths: Ints, form: PostingFormat, path: str
) -> tuple[Ints, Words]:
    """Last blocks of several lists, which are not full."""
    starts = starts + form.head_bytes
    if (starts > stops).any():
        raise _damage("a block is cut off", path)
    places, owner = packing.expand(np.zeros(len(lengths), np.int64), lengths)
    before = np.concatenate(([0], np.cumsum(2 * lengths)))[:-1]
    at = before[owner] + places
    if not form.varint_tail:
        if (stops - starts != 8 * lengths).any():
            raise _damage("the last block is cut off", path)
        bytes_of, _ = packing.expand(starts, stops - starts)
        numbers = np.ascontiguousarray(data[bytes_of]).view("<u4")
        return numbers[at].astype(np.int64), numbers[at + lengths[owner]].astype(np.uint32)
    bytes_of, bytes_owner = packing.expand(starts, stops - starts)
    own = data[bytes_of]
    if (np.bincount(bytes_owner[own < 0x80], minlength=len(lengths)) != 2 * lengths).any():
        raise _damage("numbers of a posting list are cut off", path)
    values, _ = packing.read_varints(own, 2 * int(lengths.sum()), path)
    total = np.cumsum(values[at], dtype=np.int64)
    first = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    skipped = np.where(first > 0, total[np.maximum(first - 1, 0)], 0) if len(total) else first
    return total - skipped[owner], values[at + lengths[owner]]


def _buffers(blocks: pa.LargeBinaryArray) -> tuple[Bytes, Ints]:
    _, offsets, data = blocks.buffers()
    held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return held, np.frombuffer(offsets, np.int64)[blocks.offset : blocks.offset + len(blocks) + 1]


def _u32_at(data: Bytes, places: Ints, stops: Ints, path: str) -> Ints:
    _within(places, np.full(len(places), 4, np.int64), stops, path)
    found = data[places[:, None] + np.arange(4)].view("<u4").reshape(-1)
    return np.asarray(found, np.int64)


def _u8_at(data: Bytes, places: Ints, stops: Ints, path: str) -> Bytes:
    _within(places, np.ones(len(places), np.int64), stops, path)
    return data[places]


def _within(places: Ints, sizes: Ints, stops: Ints, path: str) -> Ints:
    if (places + sizes > stops).any():
        raise _damage("a block is cut off", path)
    return places


def _check_widths(widths: Bytes, path: str) -> None:
    if len(widths) and widths.max() > 32:
        raise _damage(f"numbers of {int(widths.max())} bits", path)


def _damage(problem: str, path: str) -> CorruptFileError:
    return CorruptFileError(problem, path=path, field="_posting", hint="rebuild the index")
