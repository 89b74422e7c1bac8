"""Token positions in documents, in the two layouts of pylance.

The older one has a list of binary values for each document of a posting list: the number of positions, full
blocks of 128 packed, and the rest as 32-bit numbers. The newer one has one stream a token, split at the
blocks of its postings: the positions of all documents of a block (the first of each absolute, the others as
deltas), packed in groups of 128, and the rest as varints; an older variant has varints only.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.index.inverted import packing
from lance_ops.index.inverted.packing import Bytes, Ints

Positions = npt.NDArray[np.int64]
_GROUP = 128


class WordPositions(Protocol):
    """Positions of one token, by index in its posting list."""

    def of(self, places: Ints) -> tuple[Positions, Ints]:
        """Return positions in the documents at some ascending indices of the posting list.

        Returns:
            The positions, those of one document after those of the one before, ascending; and how many each
            document has.

        Raises:
            CorruptFileError: They cannot be read, or do not match the posting list.
        """
        ...


@dataclass(frozen=True, slots=True)
class ListedPositions:
    """The older layout: binary values for each document.

    Attributes:
        lists: One a document.
        counts: Positions of each document.
        path: The file that they are from, for messages.
    """

    lists: pa.ListArray
    counts: npt.NDArray[np.uint32]
    path: str

    def of(self, places: Ints) -> tuple[Positions, Ints]:
        """See `WordPositions.of`."""
        if len(self.lists) != len(self.counts):
            raise _damage("positions are of other documents", self.path)
        found = [self._of_document(place) for place in places.tolist()]
        sizes = self.counts[places].astype(np.int64)
        return (np.concatenate(found) if found else np.zeros(0, np.int64)), sizes

    def _of_document(self, place: int) -> Positions:
        values = [value.as_py() for value in self.lists[place].values]
        count = int(self.counts[place])
        full, rest = divmod(count, _GROUP)
        if len(values) != 1 + full + (rest > 0) or values[0] != count.to_bytes(4, "little"):
            raise _damage(f"{count} positions are not in {len(values)} values", self.path)
        parts = [self._full_block(value) for value in values[1 : 1 + full]]
        if rest:
            if len(values[-1]) != 4 * rest:
                raise _damage("the last positions are cut off", self.path)
            parts.append(np.frombuffer(values[-1], "<u4").astype(np.int64))
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _full_block(self, value: bytes) -> Positions:
        data = np.frombuffer(value, np.uint8)
        if len(data) < 5 or data[4] > 32 or len(data) != 5 + packing.packed_bytes(int(data[4]), _GROUP):
            raise _damage("positions are cut off", self.path)
        steps = packing.unpack(data, np.array([5]), data[4:5], _GROUP)[0]
        return int.from_bytes(value[:4], "little") + np.cumsum(steps, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class StreamedPositions:
    """The newer layout: one stream, cut at the blocks of the postings.

    Attributes:
        stream: All of it.
        offsets: Where each block of the postings begins in it.
        counts: Positions of each document.
        block_size: Documents of a full block of the postings.
        packed: True if there are packed groups, and not varints only.
        path: The file that it is from, for messages.
    """

    stream: bytes
    offsets: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]
    block_size: int
    packed: bool
    path: str

    def of(self, places: Ints) -> tuple[Positions, Ints]:
        """See `WordPositions.of`."""
        if len(self.offsets) != -(-len(self.counts) // self.block_size):
            raise _damage("positions are of other documents", self.path)
        blocks, first = np.unique(places // self.block_size, return_index=True)
        found: list[Positions] = []
        for block, wanted in zip(blocks.tolist(), np.split(places, first[1:]), strict=True):
            start = block * self.block_size
            counts = self.counts[start : start + self.block_size].astype(np.int64)
            found.append(_some(self._block(block, counts), counts, wanted - start))
        sizes = self.counts[places].astype(np.int64)
        return (np.concatenate(found) if found else np.zeros(0, np.int64)), sizes

    def _block(self, block: int, counts: Ints) -> Positions:
        start = int(self.offsets[block])
        stop = int(self.offsets[block + 1]) if block + 1 < len(self.offsets) else len(self.stream)
        if not start <= stop <= len(self.stream):
            raise _damage("positions are cut off", self.path)
        data = np.frombuffer(self.stream, np.uint8)[start:stop]
        steps = self._steps(data, int(counts.sum())).astype(np.int64)
        # Cumulative sums, without those before the document.
        total = np.cumsum(steps)
        firsts = np.concatenate(([0], np.cumsum(counts)))[:-1]
        filled = counts > 0
        before = (total - steps)[firsts[filled]]
        return total - np.repeat(before, counts[filled])

    def _steps(self, data: Bytes, count: int) -> npt.NDArray[np.uint32]:
        if count > _GROUP * max(len(data), 1):
            raise _damage("positions are cut off", self.path)
        full, rest = divmod(count, _GROUP) if self.packed else (0, count)
        at = 0
        parts: list[npt.NDArray[np.uint32]] = []
        for _ in range(full):
            width = data[at : at + 1]
            if not len(width) or width[0] > 32:
                raise _damage("positions are cut off", self.path)
            stop = at + 1 + int(packing.packed_bytes(int(width[0]), _GROUP))
            if stop > len(data):
                raise _damage("positions are cut off", self.path)
            parts.append(packing.unpack(data, np.array([at + 1]), width, _GROUP)[0])
            at = stop
        parts.append(packing.read_varints(data[at:], rest, self.path)[0])
        return np.concatenate(parts)


def encode_lists(positions: npt.NDArray[np.uint32], counts: Ints, lengths: Ints) -> pa.ListArray:
    """Return positions of several words in the older layout.

    Args:
        positions: Of all words, by document and ascending there.
        counts: Positions of each document of each word.
        lengths: Documents of each word.
    """
    firsts = np.concatenate(([0], np.cumsum(counts)))
    values_of = 1 + -(-counts // _GROUP)
    bounds = np.concatenate(([0], np.cumsum(values_of)))
    sizes = np.empty(bounds[-1], np.int64)
    sizes[bounds[:-1]] = 4
    # If a document has few positions, its second value has them directly.
    short = np.flatnonzero((counts > 0) & (counts < _GROUP))
    sizes[bounds[short] + 1] = 4 * counts[short]
    long: list[tuple[int, bytes]] = []
    for document in np.flatnonzero(counts >= _GROUP).tolist():
        own = positions[firsts[document] : firsts[document + 1]]
        for number, start in enumerate(range(0, len(own), _GROUP)):
            value = _block_value(own[start : start + _GROUP])
            sizes[bounds[document] + 1 + number] = len(value)
            long.append((int(bounds[document]) + 1 + number, value))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    output = np.zeros(offsets[-1], np.uint8)
    packing.write_words(output, offsets[bounds[:-1]], counts.astype("<u4"))
    owner = np.repeat(np.arange(len(short)), counts[short])
    place = np.arange(len(owner)) - np.concatenate(([0], np.cumsum(counts[short])))[owner]
    starts = offsets[bounds[short] + 1]
    listed = positions[firsts[short][owner] + place].astype("<u4")
    packing.write_words(output, starts[owner] + 4 * place, listed)
    for number, value in long:
        output[offsets[number] : offsets[number + 1]] = np.frombuffer(value, np.uint8)
    documents = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), packing.large_binary(offsets, output))
    words = np.concatenate(([0], np.cumsum(lengths)))
    return pa.ListArray.from_arrays(pa.array(words, pa.int32()), documents)


def _block_value(values: npt.NDArray[np.uint32]) -> bytes:
    if len(values) < _GROUP:
        return values.astype("<u4").tobytes()
    steps = np.diff(values, prepend=values[:1])[None, :]
    widths = packing.widths_of(steps)
    output = np.zeros(5 + int(packing.packed_bytes(int(widths[0]), _GROUP)), np.uint8)
    output[:4] = values[:1].astype("<u4").view(np.uint8)
    output[4] = widths[0]
    packing.pack_into(output, np.array([5]), steps, widths)
    return output.tobytes()


def encode_streams(
    positions: npt.NDArray[np.uint32], counts: Ints, lengths: Ints, block_size: int
) -> tuple[pa.LargeBinaryArray, pa.ListArray]:
    """Positions of several words in the newer layout: their streams, and where the blocks of each begin.

    Args: see `encode_lists`; block_size: documents of a full block of the postings.
    """
    firsts = np.concatenate(([0], np.cumsum(counts)))
    steps = np.diff(positions, prepend=np.zeros(1, positions.dtype))
    steps[firsts[:-1][counts > 0]] = positions[firsts[:-1][counts > 0]]
    # Blocks of the postings of one token, and the number of positions of each.
    blocks_of = -(-lengths // block_size)
    first_block = np.concatenate(([0], np.cumsum(blocks_of)))
    word = np.repeat(np.arange(len(lengths)), blocks_of)
    word_start = np.concatenate(([0], np.cumsum(lengths)))
    block_start = word_start[word] + (np.arange(len(word)) - first_block[word]) * block_size
    held = np.diff(firsts[np.append(block_start, len(counts))])
    groups, rest = np.divmod(held, _GROUP)

    group_block = np.repeat(np.arange(len(held)), groups)
    group_place = np.arange(len(group_block)) - np.concatenate(([0], np.cumsum(groups)))[group_block]
    rows = (firsts[block_start[group_block]] + group_place * _GROUP)[:, None] + np.arange(_GROUP)
    widths = packing.widths_of(steps[rows])
    group_sizes = 1 + packing.packed_bytes(widths, _GROUP)
    tail_block = np.repeat(np.arange(len(held)), rest)
    tail_place = np.arange(len(tail_block)) - np.concatenate(([0], np.cumsum(rest)))[tail_block]
    tail = steps[firsts[block_start[tail_block]] + groups[tail_block] * _GROUP + tail_place]
    tail_sizes = packing.varint_sizes(tail)

    packed_bytes = np.bincount(group_block, group_sizes, len(held)).astype(np.int64)
    tail_bytes = np.bincount(tail_block, tail_sizes, len(held)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(packed_bytes + tail_bytes)))
    output = np.zeros(offsets[-1], np.uint8)
    at = offsets[group_block] + packing.offsets_in_owner(group_sizes, group_block)
    output[at] = widths
    packing.pack_into(output, at + 1, steps[rows], widths)
    packing.write_varints(
        output,
        (offsets[:-1] + packed_bytes)[tail_block] + packing.offsets_in_owner(tail_sizes, tail_block),
        tail,
    )

    streams = packing.large_binary(offsets[first_block], output)
    relative = (offsets[:-1] - offsets[first_block[word]]).astype(np.uint32)
    return streams, pa.ListArray.from_arrays(pa.array(first_block, pa.int32()), pa.array(relative))


def _some(values: Positions, counts: Ints, documents: Ints) -> Positions:
    """Return positions of consecutive documents."""
    wanted = np.zeros(len(counts), np.bool_)
    wanted[documents] = True
    return values[np.repeat(wanted, counts)]


def _damage(problem: str, path: str) -> CorruptFileError:
    return CorruptFileError(problem, path=path, field="_position", hint="rebuild the index")
