"""Bit packing: integers in fewer bits than their word, in blocks of 1024, in the order of FastLanes.

A block has 1024 / T lanes for words of T bits, and T rows. Row r of a lane occupies the bits from r * width
on of that lane's words; word j of all lanes lies together. Afroozeh and Boncz, "The FastLanes Compression
Layout", VLDB 2023.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import CHUNK_ROOM, ChunkBuffer, allocate_parts, copy_parts
from lance_ops.encoding.kernels.bits import bitpacking
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError

BLOCK = 1024
"""Values in a block."""

Words: TypeAlias = npt.NDArray[Any]
"""Unsigned integers of one width."""

_AT_ONCE = 256

# Zeros take no bits at all, so that no size says how many there can be.
_MAX_ZEROS = 1 << 24

_TYPES: dict[int, np.dtype[Any]] = {
    8: np.dtype("<u1"),
    16: np.dtype("<u2"),
    32: np.dtype("<u4"),
    64: np.dtype("<u8"),
}


def word_type(bits: int) -> np.dtype[Any]:
    """Return the unsigned integer of so many bits.

    Raises:
        CorruptFileError: There is none.
    """
    found = _TYPES.get(bits)
    if found is None:
        raise CorruptFileError(f"packed integers of {bits} bits")
    return found


def block_bytes(width: int) -> int:
    """Return the size of a block of values of so many bits."""
    return width * BLOCK // 8


def unpack_blocks(packed: npt.NDArray[np.uint8], width: int, bits: int) -> Words:
    """Unpack whole blocks that follow each other.

    Args:
        packed: The bytes of any number of blocks.
        width: Bits of a packed value.
        bits: Bits of a word.

    Returns:
        Shape (blocks, 1024).
    """
    _check_width(width, bits)
    if width == 0:
        raise CorruptFileError("packed integers without bits")
    blocks = len(packed) // block_bytes(width)
    starts = np.arange(blocks, dtype=np.int64) * block_bytes(width)
    return _unpack(packed, starts, np.full(blocks, width, dtype=np.int64), bits).reshape(-1, BLOCK)


def _check_width(width: int, bits: int) -> None:
    if not 0 <= width <= word_type(bits).itemsize * 8:
        raise CorruptFileError(f"integers of {bits} bits packed into {width}")


def _unpack(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], bits: int
) -> Words:
    """Unpack blocks at any places of some bytes."""
    sizes = widths * (BLOCK // 8)
    if len(starts) and int((starts + sizes).max()) > len(data):
        raise CorruptFileError("packed integers end too early")
    values: Words = empty(len(starts) * BLOCK, word_type(bits))
    if len(starts):
        # The words need no alignment in memory, but must be at a whole number of words from the first one.
        offset = int(starts[0]) & 7
        if bool(((starts - offset) & 7).any()):
            data = ChunkBuffer(data, starts, sizes).join_prefixes(sizes)
            starts, offset = np.cumsum(sizes) - sizes, 0
        words = data[offset : len(data) - (len(data) - offset) % 8].view(np.uint64)
        bitpacking.unpack(
            packed=words,
            starts=(starts - offset) >> 3,
            widths=widths,
            bits=bits,
            values=values.view(np.uint64),
        )
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
    if len(counts):
        unpacked = _unpack_inline(chunks, counts, bits)
        if unpacked is not None:
            return unpacked
    found = chunks.words(0, header)
    if len(found) and int(found.max()) > bits:
        raise CorruptFileError(f"integers of {bits} bits packed into {int(found.max())}")
    widths = found.astype(np.int64)
    chunks.require(widths * (BLOCK // 8) + header)
    starts = chunks.starts + header
    if bool((counts[:-1] == BLOCK).all()):
        return _unpack(chunks.data, starts, widths, bits)[: int(counts.sum())]
    joined: Words = empty(int(counts.sum()), word_type(bits))
    sizes = counts * header
    places = np.cumsum(sizes) - sizes
    blocks = np.arange(min(_AT_ONCE, len(counts))) * (BLOCK * header)
    # Blocks of few values take as much room as full ones: never more than some of them at once.
    for first in range(0, len(counts), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        values = _unpack(chunks.data, starts[some], widths[some], bits).view(np.uint8)
        parts = ChunkBuffer(values, blocks[: len(sizes[some])], sizes[some])
        copy_parts(parts, joined.view(np.uint8), places[some])
    return joined


def _unpack_inline(chunks: ChunkBuffer, counts: npt.NDArray[np.int64], bits: int) -> Words | None:
    """Return the same in one go; None where that does not work, or is wrong in a way to be told."""
    data, starts = chunks.data, chunks.starts
    offset = (int(starts[0]) + bits // 8) & 7
    packed = data[offset : offset + (len(data) - offset) // 8 * 8].view(np.uint64)
    total = int(counts.sum())
    values: Words = empty(-(-total * bits // 64), np.uint64)
    status = bitpacking.unpack_inline(
        data=data,
        packed=packed,
        offset=offset,
        starts=starts,
        sizes=chunks.sizes,
        counts=np.ascontiguousarray(counts),
        bits=bits,
        values=values,
    )
    return values.view(word_type(bits))[:total] if status == 0 else None


def unpack_parts(parts: ChunkBuffer, counts: npt.NDArray[np.int64], width: int, bits: int) -> Words:
    """Unpack runs of blocks whose common width is known.

    The last block of a run is either padded, or its values are plain words, if that is what the size says.

    Args:
        parts: The runs.
        counts: Values of each run.
        width: Bits of a packed value.
        bits: Bits of a word.

    Raises:
        CorruptFileError: A run is too short.
    """
    word = word_type(bits)
    _check_width(width, bits)
    total = int(counts.sum())
    if width == 0:
        if total > _MAX_ZEROS:
            raise CorruptFileError(f"{total} packed integers without bits")
        return np.zeros(total, dtype=word)
    size = block_bytes(width)
    full, tails = np.divmod(counts, BLOCK)
    plain = (tails > 0) & (parts.sizes == full * size + tails * word.itemsize)
    blocks = full + ((tails > 0) & ~plain)
    if bool((parts.sizes < blocks * size).any()):
        raise CorruptFileError("packed integers end too early")
    firsts = np.cumsum(blocks) - blocks
    numbers = np.arange(int(blocks.sum())) - np.repeat(firsts, blocks)
    starts = np.repeat(parts.starts, blocks) + numbers * size
    values = _unpack(parts.data, starts, np.full(len(starts), width, dtype=np.int64), bits)
    if bool((counts[:-1] % BLOCK == 0).all()) and not bool(plain.any()):
        return values[:total]
    # Close the gaps behind the last blocks, and put the plain values in.
    joined: Words = empty(total, word)
    target = joined.view(np.uint8)
    places = (np.cumsum(counts) - counts) * word.itemsize
    packed = np.minimum(counts, blocks * BLOCK) * word.itemsize
    copy_parts(ChunkBuffer(values.view(np.uint8), firsts * BLOCK * word.itemsize, packed), target, places)
    rest = counts * word.itemsize - packed
    copy_parts(ChunkBuffer(parts.data, parts.starts + blocks * size, rest), target, places + packed)
    return joined


def block_widths(values: Words) -> npt.NDArray[np.int64]:
    """Return bits that the largest value of each block of 1024 takes.

    Args:
        values: Unsigned integers; the last block may be shorter.
    """
    if not len(values):
        return np.empty(0, dtype=np.int64)
    full = len(values) // BLOCK
    found = np.empty(-(-len(values) // BLOCK), dtype=np.int64)
    words = np.ascontiguousarray(values[: full * BLOCK]).view(np.uint64)
    bitpacking.widths(values=words, bits=values.dtype.itemsize * 8, found=found[:full])
    if full < len(found):
        found[full] = int(np.bitwise_or.reduce(values[full * BLOCK :])).bit_length()
    return found


def pack_inline(values: Words, widths: npt.NDArray[np.int64] | None = None) -> ChunkBuffer:
    """Pack blocks of 1024 values, each with the width of its own values in a word in front.

    Args:
        values: Unsigned integers of 8, 16, 32 or 64 bits; the last block is filled up with zeros.
        widths: What `block_widths` says, if that is known already.

    Returns:
        One chunk for each block.
    """
    word = values.dtype
    if widths is None:
        widths = block_widths(values)
    sizes = widths * (BLOCK // 8) + word.itemsize
    starts, packed = allocate_parts(sizes, CHUNK_ROOM)
    heads = widths.astype(word).view(np.uint8).reshape(-1, word.itemsize)
    packed[starts[:, np.newaxis] + np.arange(word.itemsize)] = heads
    _pack(values, widths, packed, starts + word.itemsize)
    return ChunkBuffer(packed, starts, sizes)


def pack_out_of_line(values: Words, width: int) -> npt.NDArray[np.uint8]:
    """Pack a run of blocks of one width, which is written somewhere else.

    Args:
        values: Unsigned integers of 8, 16, 32 or 64 bits, none of which takes more than `width` bits.
        width: From 1 to the bits of a value.
    """
    (packed,) = pack_parts(values, np.array([len(values)], dtype=np.int64), width).parts()
    return packed


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
    starts, packed = allocate_parts(sizes, 0)
    firsts = np.cumsum(blocks) - blocks
    numbers = np.arange(int(blocks.sum())) - np.repeat(firsts, blocks)
    data, places = values.view(np.uint8), (np.cumsum(counts) - counts) * word.itemsize
    taken = np.minimum(counts, blocks * BLOCK) * word.itemsize
    if bool((counts[:-1] % BLOCK != 0).any()):
        # Fill up the last block of each part, and leave out the values that are stored as they are.
        padded = np.zeros(len(numbers) * BLOCK, dtype=word)
        copy_parts(ChunkBuffer(data, places, taken), padded.view(np.uint8), firsts * (BLOCK * word.itemsize))
    else:
        padded = values[: int(taken.sum()) // word.itemsize]
    widths = np.full(len(numbers), width, dtype=np.int64)
    _pack(padded, widths, packed, np.repeat(starts, blocks) + numbers * size)
    copy_parts(ChunkBuffer(data, places + taken, sizes - blocks * size), packed, starts + blocks * size)
    return ChunkBuffer(packed, starts, sizes)


def _pack(
    values: Words, widths: npt.NDArray[np.int64], packed: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]
) -> None:
    """Pack blocks of 1024 values, the last of which is filled up with zeros, to where they begin."""
    full = len(values) // BLOCK
    rest = np.zeros(BLOCK if full < len(widths) else 0, dtype=values.dtype)
    rest[: len(values) - full * BLOCK] = values[full * BLOCK :]
    bits = values.dtype.itemsize * 8
    offset = int(starts[0]) & 7 if len(starts) else 0
    words = packed[offset : len(packed) - (len(packed) - offset) % 8].view(np.uint64)
    numbers = (starts - offset) >> 3
    whole = values[: full * BLOCK].view(np.uint64)
    bitpacking.pack(values=whole, starts=numbers[:full], widths=widths[:full], bits=bits, packed=words)
    last = rest.view(np.uint64)
    bitpacking.pack(values=last, starts=numbers[full:], widths=widths[full:], bits=bits, packed=words)
