"""Bit packing.

A row of a block is 1024 bits in every word type: 16 words of 64 bits, each of which holds one or several
lanes. Shifting all lanes of such a word at once needs only a mask for the bits that cross from one lane into
the next, so that the same loop, which compilers turn into vector instructions, serves all types.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import copy_bytes

# Of each bit of the word of a block.
_BLOCK_WORDS = 16

_ROW = np.uint64(16)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_EIGHT = np.uint64(8)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# Which eighth of the rows comes at which sixteenth of the values, in four bits each.
_ORDER = np.uint64(0x73516240)
_READ = types.Array(types.uint64, 1, "C", readonly=True, aligned=False)
_WRITE = types.Array(types.uint64, 1, "C", aligned=False)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_COUNTS = types.int64[::1]
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_OUT = types.uint8[::1]
TOO_SHORT = -1
TOO_WIDE = -2
UNEVEN = -3


@inner(types.uint64(types.uint64, types.uint64), inline="always")
def _first_word(row, bits):
    # Word of the values of a block at which a row begins.
    eighth = (_ORDER >> ((row >> _THREE) << np.uint64(2))) & _SEVEN
    return (eighth * _ROW + (row & _SEVEN) * np.uint64(128)) * bits >> np.uint64(6)


@inner(types.void(_READ, types.uint64, types.uint64, _WRITE))
def _unpack_block(source, width, bits, target):
    if width == _ZERO:
        target[:] = _ZERO
        return
    lanes = _ALL // (_ALL >> (np.uint64(64) - bits))
    mask = (_ALL >> (np.uint64(64) - width)) * lanes
    shift = _ZERO
    word = _ZERO
    for row in range(bits):
        first = _first_word(row, bits)
        room = bits - shift
        if width <= room:
            for lane in range(_ROW):
                target[first + lane] = (source[word + lane] >> shift) & mask
            shift += width
            if shift == bits:
                shift = _ZERO
                word += _ROW
        else:
            low = (_ALL >> (np.uint64(64) - room)) * lanes
            high = mask ^ low
            after = word + _ROW
            for lane in range(_ROW):
                target[first + lane] = ((source[word + lane] >> shift) & low) | (
                    (source[after + lane] << room) & high
                )
            shift = width - room
            word = after


@loop(types.void(_READ, _NUMBERS, _NUMBERS, types.uint64, _WRITE))
def _unpack(packed, starts, widths, bits, values):
    size = np.int64(_ROW * bits)
    for block in range(len(starts)):
        width = np.uint64(widths[block])
        source = packed[starts[block] : starts[block] + np.int64(width * _ROW)]
        _unpack_block(source, width, bits, values[block * size : (block + 1) * size])


@loop(
    types.int64(
        _BYTES,
        _READ,
        types.int64,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        types.uint64,
        _WRITE,
        _OUT,
        _WRITE,
        _OUT,
    )
)
def _unpack_inline(data, packed, offset, starts, sizes, counts, bits, values, plain, scratch, block_bytes):
    size = np.int64(_ROW * bits)
    header = np.int64(bits >> _THREE)
    place = 0
    for block in range(len(starts)):
        start = starts[block]
        if start < 0 or sizes[block] < header or start + sizes[block] > len(data):
            return TOO_SHORT
        width = _ZERO
        for byte in range(header):
            width |= np.uint64(data[start + byte]) << np.uint64(8 * byte)
        if width > bits:
            return TOO_WIDE
        words = np.int64(width * _ROW)
        if sizes[block] < header + 8 * words:
            return TOO_SHORT
        first = start + header - offset
        if first & 7:
            return UNEVEN
        first >>= 3
        if counts[block] == 1024 and not place & 7:
            word = place >> 3
            _unpack_block(packed[first : first + words], width, bits, values[word : word + size])
        else:
            _unpack_block(packed[first : first + words], width, bits, scratch)
            copy_bytes(plain, place, block_bytes, 0, counts[block] * header)
        place += counts[block] * header
    return 0


@loop(types.void(_READ, _NUMBERS, _NUMBERS, types.uint64, _WRITE))
def _pack(values, starts, widths, bits, packed):
    size = np.int64(_ROW * bits)
    lanes = _ALL // (_ALL >> (np.uint64(64) - bits))
    for block in range(len(starts)):
        width = np.uint64(widths[block])
        if width == _ZERO:
            continue
        source = values[block * size : (block + 1) * size]
        target = packed[starts[block] : starts[block] + np.int64(width * _ROW)]
        shift = _ZERO
        word = _ZERO
        for row in range(bits):
            first = _first_word(row, bits)
            room = bits - shift
            if shift == _ZERO:
                for lane in range(_ROW):
                    target[word + lane] = source[first + lane]
                shift = width
            elif width <= room:
                for lane in range(_ROW):
                    target[word + lane] |= source[first + lane] << shift
                shift += width
            else:
                low = (_ALL >> (np.uint64(64) - room)) * lanes
                high = (_ALL >> (np.uint64(64) - (width - room))) * lanes
                after = word + _ROW
                for lane in range(_ROW):
                    value = source[first + lane]
                    target[word + lane] |= (value & low) << shift
                    target[after + lane] = (value >> room) & high
                shift = width - room
                word = after
            if shift == bits:
                shift = _ZERO
                word += _ROW


@loop(types.void(_READ, types.uint64, _COUNTS))
def _widths(values, bits, found):
    size = np.int64(_ROW * bits)
    for block in range(len(found)):
        seen = _ZERO
        part = values[block * size : (block + 1) * size]
        for word in range(size):
            seen |= part[word]
        lanes = np.uint64(32)
        while lanes >= bits:
            seen |= seen >> lanes
            lanes >>= _ONE
        seen &= _ALL >> (np.uint64(64) - bits)
        width = 0
        while seen:
            seen >>= _ONE
            width += 1
        found[block] = width


def unpack(*, packed: Words64, starts: Integers, widths: Integers, bits: int, values: Words64) -> None:
    """Unpack blocks.

    Args:
        packed: The bytes of the blocks as words; need not be aligned.
        starts: Shape (blocks,): the word at which each begins; all 16 * width words of it are there.
        widths: Shape (blocks,): bits of a value of each, from 0 to `bits`.
        bits: 8, 16, 32 or 64.
        values: Shape (blocks * 16 * bits,): room for 1024 values of `bits` bits of each block.
    """
    _unpack(packed, starts, widths, bits, values)


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
    """Unpack blocks that begin with the width of their values, in a word of as many bits.

    Args:
        data: The bytes of the blocks; positions in it are checked.
        packed: The same from byte `offset` on, as whole words; need not be aligned.
        offset: From 0 to 7.
        starts: Shape (blocks,): the byte at which each begins.
        sizes: Shape (blocks,): bytes of each, not negative.
        counts: Shape (blocks,): how many of the 1024 values of each are wanted, from the first one on.
        bits: 8, 16, 32 or 64.
        values: Room for the wanted values, in sequence; what is left of the last word is not changed.

    Returns:
        0, or what is wrong with the first block that is wrong: `TOO_SHORT`; `TOO_WIDE`; `UNEVEN`, if its
        values are at no whole number of words from the offset. Then the values hold anything.
    """
    block = np.empty(_BLOCK_WORDS * bits, dtype=np.uint64)
    plain, block_bytes = values.view(np.uint8), block.view(np.uint8)
    return int(
        _unpack_inline(data, packed, offset, starts, sizes, counts, bits, values, plain, block, block_bytes)
    )


def pack(*, values: Words64, starts: Integers, widths: Integers, bits: int, packed: Words64) -> None:
    """Pack blocks.

    Args:
        values: Shape (blocks * 16 * bits,): 1024 values of `bits` bits of each block; need not be aligned.
        starts: Shape (blocks,): the word at which each packed block begins; 16 * width words are there.
        widths: Shape (blocks,): bits that no value of each block exceeds, from 0 to `bits`.
        bits: 8, 16, 32 or 64.
        packed: Where the blocks go; need not be aligned. What is around them stays.
    """
    _pack(values, starts, widths, bits, packed)


def widths(*, values: Words64, bits: int, found: Integers) -> None:
    """Find the bits that the largest value of each block takes.

    Args:
        values: Shape (blocks * 16 * bits,): 1024 values of `bits` bits of each block; need not be aligned.
        bits: 8, 16, 32 or 64.
        found: Shape (blocks,): gets the widths, 0 where all values are.
    """
    _widths(values, bits, found)
