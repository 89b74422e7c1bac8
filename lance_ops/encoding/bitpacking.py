"""Bit packing: integers in fewer bits than their word, in blocks of 1024, in the order of FastLanes.

A block has 1024 / T lanes for words of T bits, and T rows. Row r of a lane occupies the bits from r * width
on of that lane's words; word j of all lanes lies together. Afroozeh and Boncz, "The FastLanes Compression
Layout", VLDB 2023.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.errors import CorruptFileError

BLOCK = 1024
"""Values in a block."""

# Which eighth of the rows comes at which sixteenth of the values.
_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)

Words: TypeAlias = npt.NDArray[Any]
"""Unsigned integers of one width."""

# Zeros take no bits at all, so that no size says how many there can be.
_MAX_ZEROS = 1 << 24

_TYPES: dict[int, np.dtype[Any]] = {
    8: np.dtype("<u1"),
    16: np.dtype("<u2"),
    32: np.dtype("<u4"),
    64: np.dtype("<u8"),
}


def word_type(bits: int) -> np.dtype[Any]:
    """The unsigned integer of so many bits.

    Raises:
        CorruptFileError: There is none.
    """
    found = _TYPES.get(bits)
    if found is None:
        raise CorruptFileError(f"packed integers of {bits} bits")
    return found


def block_bytes(width: int) -> int:
    """Size of a block of values of so many bits."""
    return width * BLOCK // 8


def unpack_blocks(packed: npt.NDArray[np.uint8], width: int, bits: int) -> Words:
    """Unpack whole blocks.

    Args:
        packed: The bytes of any number of blocks.
        width: Bits of a packed value.
        bits: Bits of a word.

    Returns:
        Shape (blocks, 1024).
    """
    word = word_type(bits)
    if not 0 <= width <= bits:
        raise CorruptFileError(f"integers of {bits} bits packed into {width}")
    if width == 0:
        raise CorruptFileError("packed integers without bits")
    blocks = len(packed) // block_bytes(width)
    lanes = BLOCK // bits
    lane_words = packed[: blocks * block_bytes(width)].view(word).reshape(blocks, width, lanes)
    if width == bits:
        # The rows are whole words, but still in the interleaved order.
        lane_words = np.ascontiguousarray(lane_words)
    values = np.empty((blocks, BLOCK), dtype=word)
    mask = word.type((1 << width) - 1)
    for row in range(bits):
        index, shift = divmod(row * width, bits)
        part = lane_words[:, index] >> word.type(shift)
        if shift + width > bits:
            part |= lane_words[:, index + 1] << word.type(bits - shift)
        first = _ORDER[row // 8] * 16 + row % 8 * 128
        np.bitwise_and(part, mask, out=values[:, first : first + lanes])
    return values


def unpack_inline(chunks: ChunkBuffer, counts: npt.NDArray[np.int64], bits: int) -> Words:
    """Unpack chunks that begin with the width of their own values.

    Args:
        chunks: One block each, behind a word with the width.
        counts: Values of each chunk, at most 1024.
        bits: Bits of a word.

    Raises:
        CorruptFileError: A width is impossible, or a chunk too short.
    """
    header = word_type(bits).itemsize
    if len(counts) and int(counts.max()) > BLOCK:
        raise CorruptFileError(f"a block of packed integers cannot hold {int(counts.max())} values")
    widths = chunks.words(0, header)
    if len(widths) and int(widths.max()) > bits:
        raise CorruptFileError(f"integers of {bits} bits packed into {int(widths.max())}")
    packed_bytes = widths.astype(np.int64) * (BLOCK // 8)
    chunks.require(packed_bytes + header)
    values = np.zeros((len(counts), BLOCK), dtype=word_type(bits))
    for width in np.unique(widths).tolist():
        if width:
            chosen = np.flatnonzero(widths == width)
            values[chosen] = unpack_blocks(chunks.join(header, block_bytes(width), chosen), width, bits)
    return take_counts(values, counts)


def bit_widths(values: Words) -> npt.NDArray[np.int64]:
    """Bits that each of some unsigned integers takes, 0 for zero."""
    rest = values.astype(np.uint64)
    widths = np.zeros(len(values), dtype=np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step) != 0
        widths[high] += step
        rest = np.where(high, rest >> np.uint64(step), rest)
    widths += rest != 0
    return widths


def block_widths(values: Words) -> npt.NDArray[np.int64]:
    """Bits that the largest value of each block of 1024 takes.

    Args:
        values: Unsigned integers; the last block may be shorter.
    """
    if not len(values):
        return np.empty(0, dtype=np.int64)
    starts = np.arange(0, len(values), BLOCK)
    return bit_widths(np.bitwise_or.reduceat(values, starts))


def inline_bytes(values: Words) -> int:
    """What `pack_inline` would take.

    Args:
        values: Unsigned integers of 8, 16, 32 or 64 bits.
    """
    widths = block_widths(values)
    return int(widths.sum()) * (BLOCK // 8) + len(widths) * values.dtype.itemsize


def pack_inline(values: Words) -> ChunkBuffer:
    """Pack blocks of 1024 values, each with the width of its own values in a word in front.

    Args:
        values: Unsigned integers of 8, 16, 32 or 64 bits; the last block is filled up with zeros.

    Returns:
        One chunk for each block.
    """
    word = values.dtype
    widths = block_widths(values)
    sizes = widths * (BLOCK // 8) + word.itemsize
    starts = np.cumsum(sizes) - sizes
    packed = np.zeros(int(sizes.sum()) // word.itemsize, dtype=word)
    heads = starts // word.itemsize
    packed[heads] = widths
    blocks = _blocks(values)
    for width in np.unique(widths).tolist():
        if width:
            chosen = np.flatnonzero(widths == width)
            words = _pack_blocks(blocks[chosen], width)
            places = heads[chosen][:, np.newaxis] + 1 + np.arange(words.shape[1])
            packed[places] = words
    return ChunkBuffer(packed.view(np.uint8), starts, sizes)


def pack_out_of_line(values: Words, width: int) -> npt.NDArray[np.uint8]:
    """Pack a run of blocks of one width, which is written somewhere else.

    Args:
        values: Unsigned integers of 8, 16, 32 or 64 bits, none of which takes more than `width` bits.
        width: From 1 to the bits of a value.
    """
    return pack_parts(values, np.array([len(values)], dtype=np.int64), width).data


def pack_parts(values: Words, counts: npt.NDArray[np.int64], width: int) -> ChunkBuffer:
    """Pack each of several parts as a run of blocks; see `pack_out_of_line`.

    Args:
        values: The values of all parts.
        counts: Values of each.
        width: Of all.
    """
    word = values.dtype
    size = block_bytes(width)
    full, tails = np.divmod(counts, BLOCK)
    # A tail as long as a packed block would be read as plain.
    plain = (tails > 0) & (tails * word.itemsize <= size)
    blocks = full + ((tails > 0) & ~plain)
    sizes = blocks * size + np.where(plain, tails * word.itemsize, 0)
    starts = np.cumsum(sizes) - sizes
    if bool((counts[:-1] % BLOCK == 0).all()):
        whole = int(blocks.sum())
        packed = _pack_blocks(_blocks(values[: whole * BLOCK]), width).reshape(-1)
        if len(plain) and plain[-1]:
            packed = np.concatenate([packed, values[whole * BLOCK :]])
        return ChunkBuffer(packed.view(np.uint8), starts, sizes)
    firsts = np.cumsum(counts) - counts
    packed = np.empty(int(sizes.sum()) // word.itemsize, dtype=word)
    for first, count, number, is_plain, start, length in zip(
        *(array.tolist() for array in (firsts, counts, blocks, plain, starts, sizes)), strict=True
    ):
        part = values[first : first + count]
        low = start // word.itemsize
        end = low + number * size // word.itemsize
        packed[low:end] = _pack_blocks(_blocks(part[: number * BLOCK]), width).reshape(-1)
        if is_plain:
            packed[end : (start + length) // word.itemsize] = part[number * BLOCK :]
    return ChunkBuffer(packed.view(np.uint8), starts, sizes)


def _blocks(values: Words) -> Words:
    rest = -len(values) % BLOCK
    if rest:
        values = np.concatenate([values, np.zeros(rest, dtype=values.dtype)])
    return values.reshape(-1, BLOCK)


def _pack_blocks(blocks: Words, width: int) -> Words:
    word = blocks.dtype
    bits = word.itemsize * 8
    lanes = BLOCK // bits
    packed = np.zeros((len(blocks), width, lanes), dtype=word)
    for row in range(bits):
        index, shift = divmod(row * width, bits)
        first = _ORDER[row // 8] * 16 + row % 8 * 128
        part = blocks[:, first : first + lanes]
        packed[:, index] |= part << word.type(shift)
        if shift + width > bits:
            packed[:, index + 1] |= part >> word.type(bits - shift)
    return packed.reshape(len(blocks), width * lanes)


def take_counts(values: Words, counts: npt.NDArray[np.int64]) -> Words:
    """The first values of each row of a matrix, one row after the other."""
    width = values.shape[1] if values.ndim == 2 else 0
    if len(counts) and bool((counts[:-1] == width).all()):
        return values.reshape(-1)[: int(counts.sum())]
    return values[np.arange(width) < counts[:, np.newaxis]]


def unpack_parts(
    parts: Sequence[npt.NDArray[np.uint8]], counts: npt.NDArray[np.int64], width: int, bits: int
) -> Words:
    """Unpack runs of blocks whose common width is known.

    The last block of a run is either padded, or its values are plain words, if that is what the size says.

    Args:
        parts: The bytes of each run.
        counts: Values of each run.
        width: Bits of a packed value.
        bits: Bits of a word.

    Raises:
        CorruptFileError: A run is too short.
    """
    word = word_type(bits)
    size = block_bytes(width)
    if width == 0:
        total = int(counts.sum())
        if total > _MAX_ZEROS:
            raise CorruptFileError(f"{total} packed integers without bits")
        return np.zeros(total, dtype=word)
    full, tails = np.divmod(counts, BLOCK)
    lengths = np.fromiter((len(part) for part in parts), dtype=np.int64, count=len(parts))
    plain = (tails > 0) & (lengths == full * size + tails * word.itemsize)
    blocks = full + ((tails > 0) & ~plain)
    if bool((lengths < blocks * size).any()):
        raise CorruptFileError("packed integers end too early")
    packed = [part[: int(number) * size] for part, number in zip(parts, blocks, strict=True)]
    values = unpack_blocks(np.concatenate(packed) if packed else np.empty(0, np.uint8), width, bits)
    flat = values.reshape(-1)
    if bool((counts[:-1] % BLOCK == 0).all()) and not bool(plain.any()):
        return flat[: int(counts.sum())]
    pieces = []
    first = 0
    for part, count, number, is_plain in zip(
        parts, counts.tolist(), blocks.tolist(), plain.tolist(), strict=True
    ):
        pieces.append(flat[first : first + min(count, number * BLOCK)])
        first += number * BLOCK
        if is_plain:
            pieces.append(np.frombuffer(part[number * size :].tobytes(), dtype=word))
    return np.concatenate(pieces) if pieces else flat
