"""Compiled loops of bit packing.

A row of a block is 1024 bits in every word type: 16 words of 64 bits, each of which holds one or several
lanes. Shifting all lanes of such a word at once needs only a mask for the bits that cross from one lane into
the next, so that the same loop, which compilers turn into vector instructions, serves all types.
"""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.words import copy_bytes

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


@njit(types.uint64(types.uint64, types.uint64), cache=True, nogil=True, inline="always")
def _first_word(row, bits):  # type: ignore[no-untyped-def]
    # Word of the values of a block at which a row begins.
    eighth = (_ORDER >> ((row >> _THREE) << np.uint64(2))) & _SEVEN
    return (eighth * _ROW + (row & _SEVEN) * np.uint64(128)) * bits >> np.uint64(6)


@njit(types.void(_READ, types.uint64, types.uint64, _WRITE), cache=True, nogil=True)
def _unpack_block(source, width, bits, target):  # type: ignore[no-untyped-def]
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


@njit(types.void(_READ, _NUMBERS, _NUMBERS, types.uint64, _WRITE), cache=True, nogil=True)
def unpack(packed, starts, widths, bits, values):  # type: ignore[no-untyped-def]
    """Unpack blocks.

    Args:
        packed: The bytes of the blocks as words.
        starts: Word at which each block begins.
        widths: Bits of a value of each block, at most `bits`.
        bits: 8, 16, 32 or 64.
        values: Room for all blocks, 16 * bits words each.
    """
    size = np.int64(_ROW * bits)
    for block in range(len(starts)):
        width = np.uint64(widths[block])
        source = packed[starts[block] : starts[block] + np.int64(width * _ROW)]
        _unpack_block(source, width, bits, values[block * size : (block + 1) * size])


@njit(
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
    ),
    cache=True,
    nogil=True,
)
def unpack_inline(data, packed, offset, starts, sizes, counts, bits, values, plain, scratch, block_bytes):  # type: ignore[no-untyped-def]
    """Unpack blocks that begin with the width of their values, in a word of as many bits.

    Args:
        data: The bytes of the blocks.
        packed: The same from byte `offset` on, as words.
        offset: Below 8.
        starts: Byte at which each block begins.
        sizes: Bytes of each.
        counts: Values of each that are wanted, at most 1024.
        bits: 8, 16, 32 or 64.
        values: Room for all wanted values.
        plain: The same room as bytes.
        scratch: Room for one block.
        block_bytes: The same room as bytes.

    Returns:
        0, or what is wrong.
    """
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


@njit(types.void(_READ, _NUMBERS, _NUMBERS, types.uint64, _WRITE), cache=True, nogil=True)
def pack(values, starts, widths, bits, packed):  # type: ignore[no-untyped-def]
    """Pack blocks.

    Args:
        values: The values of all blocks as words, 16 * bits each.
        starts: Word at which each packed block begins.
        widths: Bits that no value of each block exceeds, at most `bits`.
        bits: 8, 16, 32 or 64.
        packed: Where the blocks go.
    """
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


@njit(types.void(_READ, types.uint64, _COUNTS), cache=True, nogil=True)
def widths(values, bits, found):  # type: ignore[no-untyped-def]
    """Find the bits that the largest value of each block takes.

    Args:
        values: The values of all blocks as words, 16 * bits each.
        bits: 8, 16, 32 or 64.
        found: Room for one width a block.
    """
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
