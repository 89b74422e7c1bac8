"""RaBitQ: rotation of vectors, and levels of their values."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Floats, Integers, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import rabit as reference


def rotate(*, vectors: Floats, flips: Bytes) -> None:
    """Rotate vectors in place: flips, then sums and differences of values that lie far apart, in rounds.

    Lengths and angles stay, except for an odd dimension that is no power of two: one value takes no part
    there.

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
    is of integers, so that every machine finds the same.

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


def spread_signs(*, packed: Bytes, spread: Words64, numbers: Words64) -> None:
    """Write a number for each sign.

    Signs of 32 rows lie together, byte by byte: the lower half bytes of 16 and those of 16 others, then the
    upper ones. The rows behind the last 32 lie byte by byte, too, as they are.

    Args:
        packed: uint8 of shape (rows, bytes): the signs of all rows.
        spread: Shape (256,): the eight numbers of each byte of signs, in the order of memory.
        numbers: Shape (rows, bytes), eight numbers in a word: filled.
    """
    kernel = load("index.rabit")
    if kernel is None:
        reference.spread_signs(packed=packed, spread=spread, numbers=numbers)
    else:
        kernel.spread_signs(packed.reshape(-1), spread, numbers)


def add_levels(*, packed: Words64, runs: Words64, group: int, numbers: Words64) -> None:
    """Add packed numbers to others, eight at once.

    Args:
        packed: Shape (rows, words), whole groups.
        runs: Shape (runs, 5): a word of a group, and which eight of its 64 numbers it has a part of; how many
            bits it is moved to the right, the mask of it then, and how many bits that is moved to the left.
        group: Words of a group.
        numbers: Shape (rows, words), eight in a word: what is added to, where these bits are zero. Numbers
            behind the last are left out.
    """
    kernel = load("index.rabit")
    if kernel is None:
        reference.add_levels(packed=packed, runs=runs, group=group, numbers=numbers)
    else:
        kernel.add_levels(packed, runs, group, numbers)


def estimate(
    *,
    numbers: npt.NDArray[np.uint8] | npt.NDArray[np.uint16],
    weights: Floats,
    middle: float,
    add: Floats,
    scale: Floats,
    offset: float,
    found: Floats,
) -> None:
    """Estimate distances from a query: `offset + add + scale * (numbers @ weights - middle)`.

    Args:
        numbers: uint8 or uint16 of shape (rows, dimension).
        weights: float32 of shape (dimension,).
        middle: Of all rows.
        add: float32 of shape (rows,).
        scale: float32 of shape (rows,).
        offset: Of all rows.
        found: float32 of shape (rows,): filled.
    """
    kernel = load("index.rabit")
    if kernel is None:
        reference.estimate(
            numbers=numbers,
            weights=weights,
            middle=middle,
            add=add,
            scale=scale,
            offset=offset,
            found=found,
        )
    else:
        kernel.estimate(numbers, weights, middle, add, scale, offset, found)
