"""Bit packing in the order of FastLanes, all blocks of one width at a time."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words, Words64

TOO_SHORT = -1
TOO_WIDE = -2
UNEVEN = -3

_BLOCK = 1024
# Words of 64 bits that a block takes for each bit of its width.
_ROW = 16
# Which eighth of the rows comes at which sixteenth of the values.
_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def unpack(*, packed: Words64, starts: Integers, widths: Integers, bits: int, values: Words64) -> None:
    """Unpack blocks."""
    blocks = values.view(f"<u{bits // 8}").reshape(-1, _BLOCK)
    for width in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == width)
        words = packed[starts[chosen][:, np.newaxis] + np.arange(_ROW * width)]
        blocks[chosen] = _unpack_blocks(words, width, bits)


def _unpack_blocks(packed: Words64, width: int, bits: int) -> Words:
    word = np.dtype(f"<u{bits // 8}")
    values = np.zeros((len(packed), _BLOCK), dtype=word)
    if width == 0:
        return values
    lanes = _BLOCK // bits
    lane_words = packed.view(word).reshape(-1, width, lanes)
    mask = word.type((1 << width) - 1)
    for row in range(bits):
        index, shift = divmod(row * width, bits)
        part = lane_words[:, index] >> word.type(shift)
        if shift + width > bits:
            part |= lane_words[:, index + 1] << word.type(bits - shift)
        first = _ORDER[row // 8] * 16 + row % 8 * 128
        np.bitwise_and(part, mask, out=values[:, first : first + lanes])
    return values


def unpack_inline(
    *,
    data: Bytes,
    packed: Words64,
    offset: int,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    bits: int,
    values: Words64,
) -> int:
    """Unpack blocks that begin with their widths; 0, or what is wrong."""
    header = bits // 8
    firsts, found = [], []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        if start < 0 or size < header or start + size > len(data):
            return TOO_SHORT
        width = int.from_bytes(data[start : start + header].tobytes(), "little")
        if width > bits:
            return TOO_WIDE
        if size < header + 8 * _ROW * width:
            return TOO_SHORT
        first, rest = divmod(start + header - offset, 8)
        if rest:
            return UNEVEN
        firsts.append(first)
        found.append(width)
    places, widths = np.array(firsts, dtype=np.int64), np.array(found, dtype=np.int64)
    blocks = np.empty(len(places) * _ROW * bits, dtype=np.uint64)
    unpack(packed=packed, starts=places, widths=widths, bits=bits, values=blocks)
    wanted = np.arange(_BLOCK) < counts[:, np.newaxis]
    joined = blocks.view(f"<u{header}").reshape(-1, _BLOCK)[wanted]
    values.view(joined.dtype)[: len(joined)] = joined
    return 0


def pack(*, values: Words64, starts: Integers, widths: Integers, bits: int, packed: Words64) -> None:
    """Pack blocks."""
    blocks = values.view(f"<u{bits // 8}").reshape(-1, _BLOCK)
    for width in np.unique(widths[widths > 0]).tolist():
        chosen = np.flatnonzero(widths == width)
        places = starts[chosen][:, np.newaxis] + np.arange(_ROW * width)
        packed[places] = _pack_blocks(blocks[chosen], width, bits)


def _pack_blocks(blocks: Words, width: int, bits: int) -> Words64:
    word = blocks.dtype
    lanes = _BLOCK // bits
    packed = np.zeros((len(blocks), width, lanes), dtype=word)
    for row in range(bits):
        index, shift = divmod(row * width, bits)
        first = _ORDER[row // 8] * 16 + row % 8 * 128
        part = blocks[:, first : first + lanes]
        packed[:, index] |= part << word.type(shift)
        if shift + width > bits:
            packed[:, index + 1] |= part >> word.type(bits - shift)
    return packed.reshape(len(blocks), width * lanes).view(np.uint64)


def widths(*, values: Words64, bits: int, found: Integers) -> None:
    """Find the bits that the largest value of each block takes."""
    blocks = values.view(f"<u{bits // 8}").reshape(-1, _BLOCK)
    seen = np.bitwise_or.reduce(blocks, axis=1)
    found[:] = [value.bit_length() for value in seen.tolist()]
