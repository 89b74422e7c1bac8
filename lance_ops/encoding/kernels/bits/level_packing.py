"""Level packing.

A row of a block is 16 words of 64 bits, each with four levels, which are shifted at once. Chunks begin at any
level of the array, so that a block is unpacked apart from it, and copied.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64
from lance_ops.encoding.kernels.loops import loop, types

_WORDS = types.Array(types.uint64, 1, "C", readonly=True, aligned=False)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_BLOCK = np.uint64(1024)
_ROWS = np.uint64(16)
_ROW = np.uint64(16)
_LEVEL = np.uint64(16)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)
_EIGHT = np.uint64(8)
_LANES = np.uint64(0x0001000100010001)
# Which eighth of the rows comes at which sixteenth of the values, in four bits each.
_ORDER = np.uint64(0x73516240)


@loop(types.int64(_WORDS, _BYTES, _NUMBERS, _NUMBERS, _NUMBERS, types.uint64, types.uint16[::1]))
def _unpack(words, data, starts, sizes, counts, width, levels):
    mask = ((_ONE << width) - _ONE) * _LANES
    scratch = np.empty(_BLOCK // np.uint64(4), dtype=np.uint64)
    block = scratch.view(np.uint16)
    block_words = _ROW * width
    done = _ZERO
    for chunk in range(len(starts)):
        left = np.uint64(counts[chunk])
        size = np.uint64(sizes[chunk])
        start = np.uint64(starts[chunk])
        tail = left % _BLOCK
        blocks = left // _BLOCK
        plain = tail > _ZERO and size == blocks * block_words * _EIGHT + tail * _TWO
        if tail > _ZERO and not plain:
            blocks += _ONE
        if size < blocks * block_words * _EIGHT:
            return -1
        word = start >> _THREE
        for _ in range(blocks):
            shift = _ZERO
            source = word
            for row in range(_ROWS):
                eighth = (_ORDER >> ((row >> _THREE) << _TWO)) & _SEVEN
                first = (eighth * _ROW + (row & _SEVEN) * np.uint64(128)) >> _TWO
                room = _LEVEL - shift
                if width <= room:
                    for lane in range(_ROW):
                        scratch[first + lane] = (words[source + lane] >> shift) & mask
                    shift += width
                    if shift == _LEVEL:
                        shift = _ZERO
                        source += _ROW
                else:
                    low = ((_ONE << room) - _ONE) * _LANES
                    high = mask ^ low
                    after = source + _ROW
                    for lane in range(_ROW):
                        scratch[first + lane] = ((words[source + lane] >> shift) & low) | (
                            (words[after + lane] << room) & high
                        )
                    shift = width - room
                    source = after
            word += block_words
            taken = min(left, _BLOCK)
            for item in range(taken):
                levels[done + item] = block[item]
            done += taken
            left -= taken
        if plain:
            byte = start + blocks * block_words * _EIGHT
            for item in range(tail):
                levels[done + item] = np.uint16(data[byte + _TWO * item]) | (
                    np.uint16(data[byte + _TWO * item + _ONE]) << np.uint16(8)
                )
            done += tail
    return 0


def unpack(
    *,
    words: Words64,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    levels: Levels,
) -> bool:
    """Unpack the levels of chunks of any size into one array.

    Args:
        words: All bytes as whole words; need not be aligned.
        data: The bytes.
        starts: Shape (chunks,): first byte of each chunk's levels, multiples of 8.
        sizes: Shape (chunks,): bytes of each, all of them within the data, and packed ones within the words.
        counts: Shape (chunks,): levels of each.
        width: Bits of a level, 1 to 16.
        levels: Room for the sum of `counts`.

    Returns:
        True if all chunks are long enough; if not, the levels hold anything.
    """
    return bool(_unpack(words, data, starts, sizes, counts, width, levels) == 0)
