"""Posting lists written and read with numpy, many blocks at once, for comparisons with the loops."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError
from lance_ops.index.inverted import packing
from lance_ops.index.inverted.packing import Bytes, Ints, Words
from lance_ops.index.inverted.postings import LARGE_BLOCK, PostingFormat

_MAX_EXCEPTIONS = 31
_BLOCKS_AT_ONCE = 1 << 13


def encode(
    documents: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint32],
    scores: npt.NDArray[np.float32],
    lengths: Ints,
    form: PostingFormat,
) -> tuple[Bytes, Ints, npt.NDArray[np.float32]]:
    """The bytes of all blocks, where they begin, and the best score of each."""
    size, head = form.block_size, form.head_bytes
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
    return output, offsets, best


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


def decode(data: Bytes, offsets: Ints, lengths: Ints, form: PostingFormat) -> tuple[Ints, Words]:
    """Documents and counts of all lists."""
    size = form.block_size
    blocks_of = -(-lengths // size)
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
        documents[rows], counts[rows] = _full_blocks(data, offsets[chosen], offsets[chosen + 1], form)
    tails = np.flatnonzero(held < size)
    rows, _ = packing.expand(target[tails], held[tails])
    documents[rows], counts[rows] = _tails(data, offsets[tails], offsets[tails + 1], held[tails], form)
    ascends = np.diff(documents) > 0
    ascends[np.cumsum(lengths[lengths > 0])[:-1] - 1] = True
    if not ascends.all():
        raise _damage("documents do not ascend")
    return documents, counts


def _full_blocks(data: Bytes, starts: Ints, stops: Ints, form: PostingFormat) -> tuple[Ints, Words]:
    size = form.block_size
    starts = starts + form.head_bytes
    first = _u32_at(data, starts, stops)
    widths = _u8_at(data, starts + 4, stops)
    _check_widths(widths)
    at = starts + 5
    steps = packing.unpack(data, _within(at, packing.packed_bytes(widths, size), stops), widths, size)
    documents = first[:, None] + np.cumsum(steps, axis=1, dtype=np.int64)
    at = at + packing.packed_bytes(widths, size)
    widths = _u8_at(data, at, stops)
    _check_widths(widths)
    at = at + 1
    exceptions = np.zeros(len(at), np.int64)
    if size == LARGE_BLOCK:
        exceptions = _u8_at(data, at, stops).astype(np.int64)
        at = at + 1
    counts = packing.unpack(data, _within(at, packing.packed_bytes(widths, size), stops), widths, size)
    at = at + packing.packed_bytes(widths, size)
    for row in np.flatnonzero(exceptions).tolist():
        _add_exceptions(counts[row], data[at[row] : stops[row]], int(exceptions[row]), int(widths[row]))
    return documents, counts


def _add_exceptions(counts: Words, data: Bytes, number: int, width: int) -> None:
    """Upper bits of counts that did not fit, each behind its place in the block."""
    at = 0
    for _ in range(number):
        if at >= len(data) or width >= 32:
            raise _damage("a count is cut off")
        value, size = packing.read_varints(data[at + 1 :], 1, "")
        counts[data[at]] |= value[0] << np.uint32(width)
        at += 1 + size


def _tails(data: Bytes, starts: Ints, stops: Ints, lengths: Ints, form: PostingFormat) -> tuple[Ints, Words]:
    """Last blocks of several lists, which are not full."""
    starts = starts + form.head_bytes
    if (starts > stops).any():
        raise _damage("a block is cut off")
    places, owner = packing.expand(np.zeros(len(lengths), np.int64), lengths)
    before = np.concatenate(([0], np.cumsum(2 * lengths)))[:-1]
    at = before[owner] + places
    if not form.varint_tail:
        if (stops - starts != 8 * lengths).any():
            raise _damage("the last block is cut off")
        bytes_of, _ = packing.expand(starts, stops - starts)
        numbers = np.ascontiguousarray(data[bytes_of]).view("<u4")
        return numbers[at].astype(np.int64), numbers[at + lengths[owner]].astype(np.uint32)
    bytes_of, bytes_owner = packing.expand(starts, stops - starts)
    own = data[bytes_of]
    if (np.bincount(bytes_owner[own < 0x80], minlength=len(lengths)) != 2 * lengths).any():
        raise _damage("numbers of a posting list are cut off")
    values, _ = packing.read_varints(own, 2 * int(lengths.sum()), "")
    total = np.cumsum(values[at], dtype=np.int64)
    first = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    skipped = np.where(first > 0, total[np.maximum(first - 1, 0)], 0) if len(total) else first
    return total - skipped[owner], values[at + lengths[owner]]


def _u32_at(data: Bytes, places: Ints, stops: Ints) -> Ints:
    _within(places, np.full(len(places), 4, np.int64), stops)
    found = data[places[:, None] + np.arange(4)].view("<u4").reshape(-1)
    return np.asarray(found, np.int64)


def _u8_at(data: Bytes, places: Ints, stops: Ints) -> Bytes:
    _within(places, np.ones(len(places), np.int64), stops)
    return data[places]


def _within(places: Ints, sizes: Ints, stops: Ints) -> Ints:
    if (places + sizes > stops).any():
        raise _damage("a block is cut off")
    return places


def _check_widths(widths: Bytes) -> None:
    if len(widths) and widths.max() > 32:
        raise _damage(f"numbers of {int(widths.max())} bits")


def _damage(problem: str) -> CorruptFileError:
    return CorruptFileError(problem)
