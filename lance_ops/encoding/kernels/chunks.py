"""Compiled loops over the chunks of mini-block pages."""

from numba import njit, types

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


@njit(types.void(_BYTES, _NUMBERS, _NUMBERS, types.uint8[::1], _NUMBERS), cache=True, nogil=True)
def copy_parts(data, starts, sizes, target, positions):  # type: ignore[no-untyped-def]
    """Copy parts of some bytes into others, all within their bounds."""
    for part in range(len(starts)):
        copy_bytes(target, positions[part], data, starts[part], sizes[part])


@njit(
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
    ),
    cache=True,
    nogil=True,
)
def split(data, starts, sizes, num_levels, num_buffers, size_bytes, levels, part_starts, part_sizes):  # type: ignore[no-untyped-def]
    """Find the parts of chunks.

    Args:
        data: The bytes of the chunks.
        starts: First byte of each.
        sizes: Bytes of each.
        num_levels: Kinds of levels, whose sizes take 2 bytes each.
        num_buffers: Value buffers.
        size_bytes: Of the sizes of value buffers.
        levels: Number of levels of each chunk.
        part_starts: Shape (parts, chunks), where each part begins.
        part_sizes: And its size.

    Returns:
        0, or what is wrong.
    """
    header = 2 + 2 * num_levels + size_bytes * num_buffers
    first = (header + 7) & -8
    for chunk in range(len(starts)):
        start = starts[chunk]
        size = sizes[chunk]
        if start < 0 or start + size > len(data):
            return CHUNK_TOO_LONG
        if size < header:
            return HEADER_TOO_SHORT
        levels[chunk] = data[start] | types.int64(data[start + 1]) << 8
        cursor = start + 2
        position = first
        for part in range(num_levels + num_buffers):
            width = 2 if part < num_levels else size_bytes
            length = 0
            for byte in range(width):
                length |= types.int64(data[cursor + byte]) << (8 * byte)
            cursor += width
            if position + length > size:
                return PART_TOO_LONG
            part_starts[part, chunk] = start + position
            part_sizes[part, chunk] = length
            position = (position + length + 7) & -8
    return 0


@njit(
    types.int64(types.Array(types.uint64, 1, "C", readonly=True), _NUMBERS, types.int64, types.int64[::1]),
    cache=True,
    nogil=True,
)
def measure_values(addresses, sizes, size_bytes, value_sizes):  # type: ignore[no-untyped-def]
    """Read how many bytes of values there are in chunks without levels and with one value buffer.

    Args:
        addresses: First byte of each chunk.
        sizes: Bytes of each.
        size_bytes: Of the sizes of value buffers.
        value_sizes: Of each chunk.

    Returns:
        0, or what is wrong.
    """
    # The header takes 8 bytes in both versions.
    for chunk in range(len(addresses)):
        if sizes[chunk] < 8:
            return HEADER_TOO_SHORT
        if size_bytes == 2:
            length = types.int64(peek_u16(addresses[chunk] + types.uint64(2)))
        else:
            length = types.int64(peek_u32(addresses[chunk] + types.uint64(2)))
        if 8 + length > sizes[chunk]:
            return PART_TOO_LONG
        value_sizes[chunk] = length
    return 0


@njit(
    types.int64(
        _BYTES,
        types.int64,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        types.int64[::1],
        types.int64[::1],
        types.int64[::1],
    ),
    cache=True,
    nogil=True,
)
def find_chunks(words, width, numbers, num_values, room, starts, sizes, counts):  # type: ignore[no-untyped-def]
    """Find the chunks of pages in the tables that describe them.

    Args:
        words: The tables: for each chunk its eighths of bytes less one, and four bits of its values.
        width: Bytes of each word.
        numbers: Chunks of each page, at least one.
        num_values: Of each page; its last chunk has what the others leave.
        room: Bytes that the chunks of each page may take.
        starts: Of each chunk, from the first one of its page on.
        sizes: Bytes of each.
        counts: Values of each.

    Returns:
        0, or what is wrong.
    """
    result = 0
    chunk = 0
    for page in range(len(numbers)):
        position = 0
        value = 0
        last = chunk + numbers[page] - 1
        while chunk <= last:
            word = 0
            for byte in range(width):
                word |= types.int64(words[chunk * width + byte]) << (8 * byte)
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


@njit(
    types.int64(
        _TABLE,
        _NUMBERS,
        _NUMBERS,
        types.int64,
        types.int64,
        types.int64[::1],
        types.int64[:, ::1],
        types.uint8[::1],
    ),
    cache=True,
    nogil=True,
)
def lay_out(sizes, levels, counts, num_levels, size_bytes, starts, places, words):  # type: ignore[no-untyped-def]
    """Decide where chunks and their parts go, and describe them.

    Args:
        sizes: Shape (parts, chunks): bytes of each part, those of levels first.
        levels: Number of levels of each chunk.
        counts: Values of each chunk, at least one chunk.
        num_levels: Kinds of levels.
        size_bytes: Of the sizes of value buffers, and of the words of the table.
        starts: Room for one more than there are chunks; gets the end of the last, too.
        places: Like the sizes: where each part goes.
        words: Room for the table.

    Returns:
        0, or what is wrong.
    """
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


@njit(
    types.void(_TABLE, _TABLE, _NUMBERS, _NUMBERS, types.int64, types.int64, types.uint8[::1]),
    cache=True,
    nogil=True,
)
def write_heads(sizes, places, levels, starts, num_levels, size_bytes, data):  # type: ignore[no-untyped-def]
    """Write the headers of chunks, and zeros between their parts.

    Args:
        sizes: As of `lay_out`, like `levels`, `num_levels` and `size_bytes`.
        places: What it found, like `starts`.
        levels: Number of levels of each chunk.
        starts: First byte of each chunk, with the end of the last.
        num_levels: Kinds of levels.
        size_bytes: Of the sizes of value buffers.
        data: The bytes of all chunks.
    """
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
