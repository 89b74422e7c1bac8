"""What RQ does with vectors: a rotation, and levels that stand for their values."""

from lance_ops.encoding.arrays import Bytes, Floats, Integers
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import rabit as reference


def rotate(*, vectors: Floats, flips: Bytes) -> None:
    """Rotate vectors in place: flips, then sums and differences of values that lie far apart, in rounds.

    Lengths and angles stay, but for an odd dimension that is no power of two: one value takes no part there.

    Args:
        vectors: float32 of shape (rows, dimension).
        flips: Shape (rounds, dimension): not zero where a value changes its sign.
    """
    kernel = load("index.rabit")
    if kernel is None:
        reference.rotate(vectors=vectors, flips=flips)
    else:
        kernel.rotate(vectors, flips)


def choose_levels(*, amounts: Integers, shares: Integers, nearby: Integers, most: int, levels: Bytes) -> None:
    """Find the levels whose direction is the nearest to that of the amounts, by steps of several widths.

    The level of an amount is how many steps it is, cut off; it stands for the middle of its step. All of it
    is of whole numbers, so that every machine finds the same.

    Args:
        amounts: int32 of shape (rows, dimension), from 0 to 2**22.
        shares: int64 of shape (widths,): shares of the greatest amount of a row that all steps together are
            tried to be, in 1,024ths, above zero; at least one.
        nearby: int64: what is added to the best of them and tried, too; sums are above zero.
        most: Greatest level, at most 255.
        levels: uint8 of the shape of the amounts: filled.
    """
    kernel = load("index.rabit")
    if kernel is None:
        reference.choose_levels(amounts=amounts, shares=shares, nearby=nearby, most=most, levels=levels)
    else:
        kernel.choose_levels(amounts, shares, nearby, most, levels)
