"""Bit packing."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.bits import bitpacking as reference

TOO_SHORT, TOO_WIDE, UNEVEN = reference.TOO_SHORT, reference.TOO_WIDE, reference.UNEVEN

# Of each bit of the word of a block.
_BLOCK_WORDS = 16


def unpack(*, packed: Words64, starts: Integers, widths: Integers, bits: int, values: Words64) -> None:
    """Unpack blocks.

    Args:
        packed: The bytes of the blocks as words; need not be aligned.
        starts: Shape (blocks,): the word at which each begins; all 16 * width words of it are there.
        widths: Shape (blocks,): bits of a value of each, from 0 to `bits`.
        bits: 8, 16, 32 or 64.
        values: Shape (blocks * 16 * bits,): room for 1024 values of `bits` bits of each block.
    """
    kernel = load("bits.bitpacking")
    if kernel is None:
        reference.unpack(packed=packed, starts=starts, widths=widths, bits=bits, values=values)
    else:
        kernel.unpack(packed, starts, widths, bits, values)


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
    kernel = load("bits.bitpacking")
    if kernel is None:
        return reference.unpack_inline(
            data=data,
            packed=packed,
            offset=offset,
            starts=starts,
            sizes=sizes,
            counts=counts,
            bits=bits,
            values=values,
        )
    block = np.empty(_BLOCK_WORDS * bits, dtype=np.uint64)
    plain, block_bytes = values.view(np.uint8), block.view(np.uint8)
    return int(
        kernel.unpack_inline(
            data, packed, offset, starts, sizes, counts, bits, values, plain, block, block_bytes
        )
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
    kernel = load("bits.bitpacking")
    if kernel is None:
        reference.pack(values=values, starts=starts, widths=widths, bits=bits, packed=packed)
    else:
        kernel.pack(values, starts, widths, bits, packed)


def widths(*, values: Words64, bits: int, found: Integers) -> None:
    """Find the bits that the largest value of each block takes.

    Args:
        values: Shape (blocks * 16 * bits,): 1024 values of `bits` bits of each block; need not be aligned.
        bits: 8, 16, 32 or 64.
        found: Shape (blocks,): gets the widths, 0 where all values are.
    """
    kernel = load("bits.bitpacking")
    if kernel is None:
        reference.widths(values=values, bits=bits, found=found)
    else:
        kernel.widths(values, bits, found)
