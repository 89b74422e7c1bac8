"""Chunks of mini-block pages."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers

HEADER_TOO_SHORT = -1
PART_TOO_LONG = -2
CHUNK_TOO_LONG = -3
CHUNKS_TOO_LARGE = -4
BAD_COUNT = -5
NUMBER_TOO_LARGE = -6

_MAX_COUNT = 1 << 15


def copy_parts(*, data: Bytes, starts: Integers, sizes: Integers, target: Bytes, positions: Integers) -> None:
    """Copy parts of some bytes into others."""
    for start, size, position in zip(starts.tolist(), sizes.tolist(), positions.tolist(), strict=True):
        target[position : position + size] = data[start : start + size]


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
    """Find the parts of chunks; 0, or what is wrong."""
    header = 2 + 2 * num_levels + size_bytes * num_buffers
    if bool(((starts < 0) | (starts + sizes > len(data))).any()):
        return CHUNK_TOO_LONG
    if bool((sizes < header).any()):
        return HEADER_TOO_SHORT
    levels[:] = _read(data, starts, 2)
    cursor = 2
    position = np.full(len(starts), (header + 7) & -8, dtype=np.int64)
    for part in range(num_levels + num_buffers):
        width = 2 if part < num_levels else size_bytes
        lengths = _read(data, starts + cursor, width)
        cursor += width
        if bool((position + lengths > sizes).any()):
            return PART_TOO_LONG
        part_starts[part] = starts + position
        part_sizes[part] = lengths
        position = (position + lengths + 7) & -8
    return 0


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
    """Find the chunks of pages in their tables; 0, or what is wrong."""
    parsed = _read(words, np.arange(0, len(words), width), width)
    lasts = np.cumsum(numbers) - 1
    firsts = lasts - numbers + 1
    sizes[:] = ((parsed >> 4) + 1) * 8
    ends = np.cumsum(sizes)
    before = ends[firsts] - sizes[firsts]
    starts[:] = ends - sizes - np.repeat(before, numbers)
    counts[:] = np.int64(1) << (parsed & 15)
    counts[lasts] += num_values - np.add.reduceat(counts, firsts)
    if bool((ends[lasts] - before > room).any()):
        return CHUNKS_TOO_LARGE
    rest = counts[lasts]
    return BAD_COUNT if bool(((rest < 0) | (rest > _MAX_COUNT)).any()) else 0


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
    """Decide where chunks and their parts go; 0, or what is wrong."""
    whole, last = counts[:-1], int(counts[-1])
    if bool((whole < 2).any()) or bool((whole & (whole - 1)).any()) or not 0 <= last <= _MAX_COUNT:
        return BAD_COUNT
    if bool((whole > _MAX_COUNT).any()):
        return BAD_COUNT
    limits = np.array([1 << 16] * num_levels + [1 << 8 * size_bytes] * (len(sizes) - num_levels))
    if bool((sizes >= limits[:, np.newaxis]).any()) or bool((levels >= 1 << 16).any()):
        return NUMBER_TOO_LARGE
    header = 2 + 2 * num_levels + size_bytes * (len(sizes) - num_levels)
    position = np.full(len(counts), (header + 7) & -8, dtype=np.int64)
    for part, size in enumerate(sizes):
        places[part] = position
        position = (position + size + 7) & -8
    described = (position // 8 - 1) << 4
    if bool((described >= 1 << 8 * size_bytes).any()):
        return CHUNKS_TOO_LARGE
    described[:-1] |= np.log2(whole).astype(np.int64)
    words[:] = described.astype(f"<u{size_bytes}").view(np.uint8)
    starts[0] = 0
    np.cumsum(position, out=starts[1:])
    places += starts[:-1]
    return 0


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
    """Write the headers of chunks, and zeros between their parts."""
    widths = [2] * (1 + num_levels) + [size_bytes] * (len(sizes) - num_levels)
    for chunk, start in enumerate(starts[:-1].tolist()):
        numbers = [int(levels[chunk]), *sizes[:, chunk].tolist()]
        header = b"".join(
            number.to_bytes(width, "little") for number, width in zip(numbers, widths, strict=True)
        )
        data[start : start + len(header)] = np.frombuffer(header, dtype=np.uint8)
        ends = [start + len(header), *(places[:, chunk] + sizes[:, chunk]).tolist()]
        for end, place in zip(ends, [*places[:, chunk].tolist(), int(starts[chunk + 1])], strict=True):
            data[end:place] = 0


def _read(data: Bytes, places: Integers, width: int) -> Integers:
    words = np.zeros(len(places), dtype=np.int64)
    for byte in range(width):
        words |= data[places + byte].astype(np.int64) << (8 * byte)
    return words
