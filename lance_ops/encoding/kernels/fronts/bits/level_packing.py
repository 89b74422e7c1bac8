"""Level packing."""

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.bits import level_packing as reference


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
    kernel = load("bits.level_packing")
    if kernel is None:
        return reference.unpack(
            words=words,
            data=data,
            starts=starts,
            sizes=sizes,
            counts=counts,
            width=width,
            levels=levels,
        )
    return bool(kernel.unpack(words, data, starts, sizes, counts, width, levels) == 0)
