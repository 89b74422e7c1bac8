"""Mini-block chunks: small runs of values, each with its own levels and value buffers.

A page has a word for each chunk that says how many bytes and values it has. A chunk starts with a header: the
number of levels, the sizes of its levels, the sizes of its value buffers; then come these parts, each at a
multiple of 8 bytes from the start of the chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels import chunks as loops
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError, LanceOpsError

_ALIGNMENT = 8
CHUNK_ROOM = 8
"""Bytes of the header of a chunk with one value buffer and no levels."""

_WORDS = (1, 2, 4, 8)
# More buffers than any combination of compressions needs: their number is not read from the chunks.
_MAX_BUFFERS = 64

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


_DAMAGED = {
    loops.CHUNK_TOO_LONG: "the chunks of a page end too early",
    loops.HEADER_TOO_SHORT: "a chunk is too short for its header",
    loops.PART_TOO_LONG: "a part of a chunk reaches beyond the chunk",
    loops.CHUNKS_TOO_LARGE: "the chunks of a page do not fit into its bytes",
    loops.BAD_COUNT: "the last chunk of a page cannot hold what the others leave",
}

_UNWRITABLE = {
    loops.BAD_COUNT: "chunks of these numbers of values cannot be written",
    loops.NUMBER_TOO_LARGE: "a chunk with so many levels or bytes of one kind is too large",
    loops.CHUNKS_TOO_LARGE: "a chunk of so many bytes is too large",
}


@dataclass(frozen=True, slots=True)
class ChunkBuffer:
    """The same buffer of consecutive chunks.

    Attributes:
        data: Bytes that hold all of them.
        starts: Where each begins.
        sizes: Bytes of each; `starts + sizes` never exceeds the data.
    """

    data: Bytes
    starts: Integers
    sizes: Integers

    @classmethod
    def from_parts(cls, parts: Sequence[Bytes]) -> "ChunkBuffer":
        """Concatenate separate buffers."""
        sizes = np.fromiter((len(part) for part in parts), dtype=np.int64, count=len(parts))
        # Where compiled loops can read words.
        padded = (sizes + (_ALIGNMENT - 1)) & -_ALIGNMENT
        starts = np.cumsum(padded) - padded
        data = np.empty(int(padded.sum()), dtype=np.uint8)
        for part, start, size in zip(parts, starts.tolist(), sizes.tolist(), strict=True):
            data[start : start + size] = part
        return cls(data, starts, sizes)

    def parts(self) -> list[Bytes]:
        """Return the bytes of each chunk."""
        return [
            self.data[start : start + size]
            for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True)
        ]

    def require(self, sizes: Integers | int) -> None:
        """Check that each chunk has at least so many bytes.

        Raises:
            CorruptFileError: One has not.
        """
        if bool((self.sizes < sizes).any()):
            raise CorruptFileError("a chunk is too short for its values")

    def words(self, offset: int, width: int) -> npt.NDArray[np.uint64]:
        """Return a little-endian integer of each chunk.

        Args:
            offset: From the start of the chunk's buffer.
            width: In bytes, at most 8.
        """
        self.require(offset + width)
        return read_words(self.data, self.starts + offset, width)

    def join_prefixes(self, sizes: Integers) -> Bytes:
        """Return the first bytes of all chunks, in sequence.

        Args:
            sizes: Bytes of each.

        Raises:
            CorruptFileError: A chunk has fewer.
        """
        self.require(sizes)
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(sizes) else 0
        first = int(self.starts[0]) if len(sizes) else 0
        if bool((self.starts == first + ends - sizes).all()):
            return self.data[first : first + total]
        joined = empty(total, np.uint8)
        copy_parts(ChunkBuffer(self.data, self.starts, sizes), joined, ends - sizes)
        return joined


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Positions and value counts of the chunks of consecutive pages.

    Attributes:
        numbers: Chunks of each page.
        starts: First byte of each chunk, counted from the first chunk of its page.
        sizes: Bytes of each.
        counts: Values of each.
    """

    numbers: Integers
    starts: Integers
    sizes: Integers
    counts: Integers

    @property
    def firsts(self) -> Integers:
        """Number of the first chunk of each page."""
        return np.cumsum(self.numbers) - self.numbers

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Chunks:
    """The parts of consecutive chunks.

    Attributes:
        num_levels: Levels of each.
        rep: Compressed repetition levels, None without.
        definition: Compressed definition levels, None without.
        values: The value buffers.
    """

    num_levels: Integers
    rep: ChunkBuffer | None
    definition: ChunkBuffer | None
    values: tuple[ChunkBuffer, ...]


def read_words(data: Bytes, positions: Integers, width: int) -> npt.NDArray[np.uint64]:
    """Little-endian integers of up to 8 bytes at any positions, which must lie within the data."""
    if len(positions) and (int(positions.min()) < 0 or int(positions.max()) + width > len(data)):
        raise CorruptFileError("a length lies outside of its buffer")
    if width in _WORDS and not bool((positions & (width - 1)).any()):
        return data[: len(data) // width * width].view(f"<u{width}")[positions // width].astype(np.uint64)
    values = np.zeros(len(positions), dtype=np.uint64)
    for byte in range(width):
        values |= data[positions + byte].astype(np.uint64) << np.uint64(8 * byte)
    return values


def decode_chunk_tables(
    tables: Bytes, table_sizes: Integers, *, word_bytes: int, num_values: Integers, room: Integers
) -> ChunkTable:
    """Parse the words that describe the chunks of some pages.

    Args:
        tables: Those of all pages, in sequence.
        table_sizes: Bytes of each, at least one page.
        word_bytes: Bytes of a word, 2 (2.1) or 4 (2.2).
        num_values: Of each page; its last chunk has what the others leave.
        room: Bytes that the chunks of each page may take.

    Raises:
        CorruptFileError: Sizes or counts do not add up.
    """
    numbers = table_sizes // word_bytes
    if bool((numbers * word_bytes != table_sizes).any()) or not int(numbers.min()):
        raise CorruptFileError("the table of the chunks of a page is not made of whole words")
    starts, sizes, counts = np.empty((3, len(tables) // word_bytes), dtype=np.int64)
    status = loops.find_chunks(
        words=tables,
        width=word_bytes,
        numbers=numbers,
        num_values=num_values,
        # Compiled loops want them next to each other.
        room=np.ascontiguousarray(room),
        starts=starts,
        sizes=sizes,
        counts=counts,
    )
    if status:
        raise CorruptFileError(_DAMAGED[status])
    return ChunkTable(numbers, starts, sizes, counts)


def decode_chunk_table(words: Bytes, *, word_bytes: int, num_values: int, size: int) -> ChunkTable:
    """Parse the words that describe the chunks of one page; see `decode_chunk_tables`.

    Args:
        words: Of 2 bytes (2.1) or 4 (2.2).
        word_bytes: Which.
        num_values: Of the page.
        size: Bytes of all chunks.
    """
    sizes, values, room = np.array([[len(words)], [num_values], [size]], dtype=np.int64)
    return decode_chunk_tables(words, sizes, word_bytes=word_bytes, num_values=values, room=room)


def split_chunks(
    whole: ChunkBuffer, *, has_rep: bool, has_def: bool, num_buffers: int, size_bytes: int
) -> Chunks:
    """Find the parts of chunks, which need not follow each other.

    Args:
        whole: The chunks.
        has_rep: True if there are repetition levels.
        has_def: True if there are definition levels.
        num_buffers: Value buffers of each.
        size_bytes: Width of the sizes of value buffers: 2 (2.1) or 4 (2.2).

    Raises:
        CorruptFileError: A part reaches beyond its chunk.
    """
    if num_buffers > _MAX_BUFFERS:
        raise CorruptFileError(f"chunks of {num_buffers} value buffers")
    num_levels = has_rep + has_def
    shape = (num_levels + num_buffers, len(whole.starts))
    levels = np.empty(len(whole.starts), dtype=np.int64)
    starts, sizes = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    status = loops.split(
        data=whole.data,
        starts=whole.starts,
        sizes=whole.sizes,
        num_levels=num_levels,
        num_buffers=num_buffers,
        size_bytes=size_bytes,
        levels=levels,
        part_starts=starts,
        part_sizes=sizes,
    )
    if status:
        raise CorruptFileError(_DAMAGED[status])
    found = [ChunkBuffer(whole.data, starts[part], sizes[part]) for part in range(shape[0])]
    rep = found.pop(0) if has_rep else None
    definition = found.pop(0) if has_def else None
    return Chunks(levels, rep, definition, tuple(found))


def measure_values(addresses: npt.NDArray[np.uint64], sizes: Integers, *, size_bytes: int) -> Integers:
    """Bytes of values of chunks that have no levels and one value buffer, which begins at `CHUNK_ROOM`.

    Needs kernels.

    Args:
        addresses: Of the first byte of each chunk; the caller keeps what lies there.
        sizes: Bytes of each chunk.
        size_bytes: Width of the sizes of value buffers: 2 (2.1) or 4 (2.2).

    Raises:
        CorruptFileError: A part reaches beyond its chunk.
    """
    found = np.empty(len(sizes), dtype=np.int64)
    status = loops.measure_values(addresses=addresses, sizes=sizes, size_bytes=size_bytes, value_sizes=found)
    if status:
        raise CorruptFileError(_DAMAGED[status])
    return found


def copy_parts(parts: ChunkBuffer, target: Bytes, positions: Integers) -> None:
    """Copy each part to its place.

    Args:
        parts: What to copy.
        target: Where to.
        positions: First byte of each part in the target, where it must fit.
    """
    if not len(positions):
        return
    if (
        int(min(parts.starts.min(), parts.sizes.min(), positions.min())) < 0
        or int((parts.starts + parts.sizes).max()) > len(parts.data)
        or int((positions + parts.sizes).max()) > len(target)
    ):
        raise CorruptFileError("a part lies outside of its buffer")
    starts, sizes, places = (np.ascontiguousarray(one) for one in (parts.starts, parts.sizes, positions))
    loops.copy_parts(data=parts.data, starts=starts, sizes=sizes, target=target, positions=places)


def assemble_chunks(
    num_levels: Integers | None,
    rep: ChunkBuffer | None,
    definition: ChunkBuffer | None,
    values: tuple[ChunkBuffer, ...],
    counts: Integers,
    *,
    size_bytes: int,
) -> tuple[Bytes, Bytes]:
    """Lay out the chunks of a page.

    Args:
        num_levels: Levels of each chunk, None without levels.
        rep: Repetition levels.
        definition: Definition levels.
        values: The value buffers.
        counts: Values of each chunk: a power of two from 2 to 32,768; any number up to that in the last.
        size_bytes: Width of the table's words and of the sizes of value buffers: 2 (2.1) or 4 (2.2).

    Returns:
        The table of the chunks, and the chunks.

    Raises:
        LanceOpsError: A chunk is too large for the words, or has a count that cannot be written.
    """
    levels = [part for part in (rep, definition) if part is not None]
    parts = (*levels, *values)
    number = len(counts)
    if num_levels is None:
        num_levels = np.zeros(number, dtype=np.int64)
    sizes, places = np.empty((2, len(parts), number), dtype=np.int64)
    for row, part in zip(sizes, parts, strict=True):
        row[:] = part.sizes
    starts, words = np.empty(number + 1, dtype=np.int64), np.empty(number * size_bytes, dtype=np.uint8)
    status = loops.BAD_COUNT
    if number:
        status = loops.lay_out(
            sizes=sizes,
            levels=num_levels,
            counts=counts,
            num_levels=len(levels),
            size_bytes=size_bytes,
            starts=starts,
            places=places,
            words=words,
        )
    if status:
        raise LanceOpsError(_UNWRITABLE[status])
    total = int(starts[-1])
    in_place = len(parts) == 1 and _is_in_place(values[0], places[0], total)
    chunks = values[0].data if in_place else empty(total, np.uint8)
    loops.write_heads(
        sizes=sizes,
        places=places,
        levels=num_levels,
        starts=starts,
        num_levels=len(levels),
        size_bytes=size_bytes,
        data=chunks,
    )
    if not in_place:
        for part, place in zip(parts, places, strict=True):
            copy_parts(part, chunks, place)
    return words, chunks


def allocate_parts(sizes: Integers, room: int) -> tuple[Integers, Bytes]:
    """Make room for the parts of chunks, at multiples of 8 so that compiled loops can write words.

    Args:
        sizes: Bytes of each.
        room: Bytes in front of each, a multiple of 8. With `CHUNK_ROOM`, `assemble_chunks` need not copy the
            parts if chunks have no others.

    Returns:
        Where each part begins, and the bytes, of which those between the parts are zero or room.
    """
    padded = ((sizes + (_ALIGNMENT - 1)) & -_ALIGNMENT) + room
    starts = np.cumsum(padded) - padded + room
    data = empty(int(padded.sum()), np.uint8)
    if len(data):
        _clear_padding(data, starts + sizes)
    return starts, data


def _clear_padding(data: Bytes, ends: Integers) -> None:
    # What was in memory before must not get into a file. The whole last word of a part may go: the part is
    # not there yet.
    data.view(np.uint64)[(ends + (_ALIGNMENT - 1)) // _ALIGNMENT - 1] = 0


def _is_in_place(part: ChunkBuffer, starts: Integers, size: int) -> bool:
    return len(part.data) == size and part.data.flags.writeable and bool((part.starts == starts).all())
