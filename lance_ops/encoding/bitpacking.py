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
