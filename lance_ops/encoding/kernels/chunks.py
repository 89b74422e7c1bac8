"""Chunks of mini-block pages."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.loops import loop, types
from lance_ops.encoding.kernels.words import copy_bytes, peek_u16, peek_u32

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
HEADER_TOO_SHORT = -1
PART_TOO_LONG = -2
CHUNK_TOO_LONG = -3
CHUNKS_TOO_LARGE = -4
BAD_COUNT = -5
NUMBER_TOO_LARGE = -6
_MAX_COUNT = 1 << 15


@loop(types.void(_BYTES, _NUMBERS, _NUMBERS, types.uint8[::1], _NUMBERS))
def _copy_parts(data, starts, sizes, target, positions):
    for part in range(len(starts)):
        copy_bytes(target, positions[part], data, starts[part], sizes[part])


@loop(
    types.int64(
        _BYTES,
        _NUMBERS,
        _NUMBERS,
        types.int64,
        types.int64,
        types.int64,
        types.int64[::1],
        types.int64[:, ::1],
        types.int64[:, ::1],
    )
)
def _split(data, starts, sizes, num_levels, num_buffers, size_bytes, levels, part_starts, part_sizes):
    header = 2 + 2 * num_levels + size_bytes * num_buffers
    first = (header + 7) & -8
    for chunk in range(len(starts)):
        start = starts[chunk]
        size = sizes[chunk]
        if start < 0 or start + size > len(data):
            return CHUNK_TOO_LONG
        if size < header:
            return HEADER_TOO_SHORT
        levels[chunk] = data[start] | np.int64(data[start + 1]) << 8
        cursor = start + 2
        position = first
        for part in range(num_levels + num_buffers):
            width = 2 if part < num_levels else size_bytes
            length = 0
            for byte in range(width):
                length |= np.int64(data[cursor + byte]) << (8 * byte)
            cursor += width
            if position + length > size:
                return PART_TOO_LONG
            part_starts[part, chunk] = start + position
            part_sizes[part, chunk] = length
            position = (position + length + 7) & -8
    return 0


@loop(types.int64(types.Array(types.uint64, 1, "C", readonly=True), _NUMBERS, types.int64, types.int64[::1]))
def _measure_values(addresses, sizes, size_bytes, value_sizes):
    # The header takes 8 bytes in both versions.
    for chunk in range(len(addresses)):
        if sizes[chunk] < 8:
            return HEADER_TOO_SHORT
        if size_bytes == 2:
            length = np.int64(peek_u16(addresses[chunk] + np.uint64(2)))
        else:
            length = np.int64(peek_u32(addresses[chunk] + np.uint64(2)))
        if 8 + length > sizes[chunk]:
            return PART_TOO_LONG
        value_sizes[chunk] = length
    return 0


@loop(
    types.int64(
        _BYTES,
        types.int64,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        types.int64[::1],
        types.int64[::1],
        types.int64[::1],
    )
)
def _find_chunks(words, width, numbers, num_values, room, starts, sizes, counts):
    result = 0
    chunk = 0
    for page in range(len(numbers)):
        position = 0
        value = 0
        last = chunk + numbers[page] - 1
        while chunk <= last:
            word = 0
            for byte in range(width):
                word |= np.int64(words[chunk * width + byte]) << (8 * byte)
            size = ((word >> 4) + 1) * 8
            starts[chunk] = position
            sizes[chunk] = size
            counts[chunk] = 1 << (word & 15)
            position += size
            value += counts[chunk]
            chunk += 1
        counts[last] += num_values[page] - value
        if position > room[page]:
            result = CHUNKS_TOO_LARGE
        elif result == 0 and not 0 <= counts[last] <= _MAX_COUNT:
            result = BAD_COUNT
    return result


_TABLE = types.Array(types.int64, 2, "C", readonly=True)


@loop(
    types.int64(
        _TABLE,
        _NUMBERS,
        _NUMBERS,
        types.int64,
        types.int64,
        types.int64[::1],
        types.int64[:, ::1],
        types.uint8[::1],
    )
)
def _lay_out(sizes, levels, counts, num_levels, size_bytes, starts, places, words):
    parts = len(sizes)
    last = len(counts) - 1
    first = (2 + 2 * num_levels + size_bytes * (parts - num_levels) + 7) & -8
    start = 0
    for chunk in range(len(counts)):
        count = counts[chunk]
        power = 0
        if chunk == last:
            if not 0 <= count <= _MAX_COUNT:
                return BAD_COUNT
        else:
            while power < 15 and 1 << power < count:
                power += 1
            if power == 0 or 1 << power != count:
                return BAD_COUNT
        if levels[chunk] >> 16:
            return NUMBER_TOO_LARGE
        position = first
        for part in range(parts):
            size = sizes[part, chunk]
            if size >> (16 if part < num_levels else 8 * size_bytes):
                return NUMBER_TOO_LARGE
            places[part, chunk] = start + position
            position = (position + size + 7) & -8
        word = (position // 8 - 1) << 4 | power
        if word >> (8 * size_bytes):
            return CHUNKS_TOO_LARGE
        for byte in range(size_bytes):
            words[chunk * size_bytes + byte] = (word >> (8 * byte)) & 255
        starts[chunk] = start
        start += position
    starts[last + 1] = start
    return 0


@loop(types.void(_TABLE, _TABLE, _NUMBERS, _NUMBERS, types.int64, types.int64, types.uint8[::1]))
def _write_heads(sizes, places, levels, starts, num_levels, size_bytes, data):
    parts = len(sizes)
    for chunk in range(len(levels)):
        cursor = starts[chunk]
        for field in range(parts + 1):
            number = levels[chunk] if field == 0 else sizes[field - 1, chunk]
            width = 2 if field <= num_levels else size_bytes
            for byte in range(width):
                data[cursor + byte] = (number >> (8 * byte)) & 255
            cursor += width
        for part in range(parts):
            data[cursor : places[part, chunk]] = 0
            cursor = places[part, chunk] + sizes[part, chunk]
        data[cursor : starts[chunk + 1]] = 0


def copy_parts(*, data: Bytes, starts: Integers, sizes: Integers, target: Bytes, positions: Integers) -> None:
    """Copy parts of some bytes into others.

    Args:
        data: The bytes.
        starts: Shape (parts,): the first byte of each, within the data up to the end.
        sizes: Shape (parts,): bytes of each, not negative.
        target: Where to; it does not overlap the data.
        positions: Shape (parts,): the byte at which each goes, where it fits into the target.
    """
    _copy_parts(data, starts, sizes, target, positions)


def split(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    num_levels: int,
    num_buffers: int,
    size_bytes: int,
    levels: Integers,
    part_starts: npt.NDArray[np.int64],
    part_sizes: npt.NDArray[np.int64],
) -> int:
    """Find the parts of chunks.

    Args:
        data: The bytes of the chunks; all positions in it are checked.
        starts: Shape (chunks,): first byte of each.
        sizes: Shape (chunks,): bytes of each, not negative.
        num_levels: Kinds of levels, whose sizes take 2 bytes each.
        num_buffers: Value buffers.
        size_bytes: Bytes of the sizes of value buffers: 2 or 4.
        levels: Shape (chunks,): gets the number of levels of each chunk.
        part_starts: Shape (num_levels + num_buffers, chunks): gets the byte at which each part begins.
        part_sizes: Of the same shape: gets the bytes of each part.

    Returns:
        0, or what is wrong with some chunk: `CHUNK_TOO_LONG`, `HEADER_TOO_SHORT`, or `PART_TOO_LONG`. Then
        what is filled in is not whole.
    """
    return int(
        _split(data, starts, sizes, num_levels, num_buffers, size_bytes, levels, part_starts, part_sizes)
    )


def measure_values(*, addresses: Words64, sizes: Integers, size_bytes: int, value_sizes: Integers) -> int:
    """Read how many bytes of values there are in chunks without levels and with one value buffer.

    Args:
        addresses: Shape (chunks,): of the first byte of each; the caller keeps what lies there.
        sizes: Shape (chunks,): bytes of each, not negative.
        size_bytes: Bytes of the sizes of value buffers: 2 or 4.
        value_sizes: Shape (chunks,): gets the bytes of values of each, which begin at its eighth byte.

    Returns:
        0, or what is wrong with some chunk: `HEADER_TOO_SHORT` or `PART_TOO_LONG`.
    """
    return int(_measure_values(addresses, sizes, size_bytes, value_sizes))


def find_chunks(
    *,
    words: Bytes,
    width: int,
    numbers: Integers,
    num_values: Integers,
    room: Integers,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
) -> int:
    """Find the chunks of pages in the tables that describe them.

    Args:
        words: Shape (chunks * width,), the tables in sequence: of each chunk its eighths of bytes
            less one, and four bits of its values.
        width: Bytes of each word: 2 or 4.
        numbers: Shape (pages,): chunks of each page, at least one; `chunks` together.
        num_values: Shape (pages,): values of each page; its last chunk has what the others leave.
        room: Shape (pages,): bytes that the chunks of each page may take.
        starts: Shape (chunks,): gets the first byte of each, counted from the first chunk of its page.
        sizes: Shape (chunks,): gets the bytes of each.
        counts: Shape (chunks,): gets the values of each.

    Returns:
        0, or what is wrong with some page: `CHUNKS_TOO_LARGE`, or `BAD_COUNT`, if its last chunk cannot have
        what the others leave.
    """
    return int(_find_chunks(words, width, numbers, num_values, room, starts, sizes, counts))


def lay_out(
    *,
    sizes: Integers,
    levels: Integers,
    counts: Integers,
    num_levels: int,
    size_bytes: int,
    starts: Integers,
    places: Integers,
    words: Bytes,
) -> int:
    """Decide where chunks and their parts go, each at a multiple of 8 bytes, and describe the chunks.

    Args:
        sizes: Shape (parts, chunks): bytes of each part, not negative, those of levels first.
        levels: Shape (chunks,): number of levels of each chunk.
        counts: Shape (chunks,), at least one: values of each chunk.
        num_levels: Kinds of levels, whose sizes take 2 bytes each.
        size_bytes: Bytes of the sizes of value buffers, and of the words of the table: 2 or 4.
        starts: Shape (chunks + 1,): gets the first byte of each chunk, and the end of the last.
        places: Shape (parts, chunks): gets the first byte of each part.
        words: Shape (chunks * size_bytes,): gets the table of the chunks.

    Returns:
        0, or what is wrong with some chunk: `BAD_COUNT`, if it cannot have as many values;
        `NUMBER_TOO_LARGE`, if its header cannot say how many levels or bytes there are; `CHUNKS_TOO_LARGE`,
        if the table cannot say how long it is. Then what is filled in is not whole.
    """
    return int(_lay_out(sizes, levels, counts, num_levels, size_bytes, starts, places, words))


def write_heads(
    *,
    sizes: Integers,
    places: Integers,
    levels: Integers,
    starts: Integers,
    num_levels: int,
    size_bytes: int,
    data: Bytes,
) -> None:
    """Write the headers of chunks that `lay_out` has placed, and zeros between their parts.

    Args:
        sizes: Shape (parts, chunks): as it was given.
        places: Shape (parts, chunks): as it found.
        levels: Shape (chunks,): as it was given.
        starts: Shape (chunks + 1,): as it found.
        num_levels: As it was given.
        size_bytes: As it was given.
        data: Shape (starts[-1],): the bytes of all chunks.
    """
    _write_heads(sizes, places, levels, starts, num_levels, size_bytes, data)
