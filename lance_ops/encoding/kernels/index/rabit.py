"""RaBitQ: rotation of vectors, and levels of their values."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Floats, Integers, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types


@inner(types.void(types.float32[::1], types.int64))
def _hadamard(values, count):
    """Sums and differences of all values, in place; `count`, a power of two, keeps their length."""
    step = 1
    while step < count:
        for start in range(0, count, 2 * step):
            for place in range(start, start + step):
                first, second = values[place], values[place + step]
                values[place] = first + second
                values[place + step] = first - second
        step *= 2
    root = np.float32(np.sqrt(count))
    for place in range(count):
        values[place] /= root


@loop(types.void(types.float32[:, ::1], types.Array(types.uint8, 2, "C", readonly=True)))
def _rotate(vectors, flips):
    count = vectors.shape[1]
    whole = 1
    while 2 * whole <= count:
        whole *= 2
    half = count // 2
    for row in range(vectors.shape[0]):
        values = vectors[row]
        for number in range(flips.shape[0]):
            for place in range(count):
                if flips[number, place]:
                    values[place] = -values[place]
            if whole == count:
                _hadamard(values, whole)
                continue
            first = 0 if number % 2 == 0 else count - whole
            _hadamard(values[first : first + whole], whole)
            for place in range(half):
                one, other = values[place], values[half + place]
                values[place] = one + other
                values[half + place] = one - other
        if whole != count:
            for place in range(count):
                values[place] /= np.float32(flips.shape[0])


_AMOUNTS = types.Array(types.int32, 1, "C", readonly=True)
_SHARES = types.Array(types.int64, 1, "C", readonly=True)


@inner(types.float64(_AMOUNTS, types.int64, types.int64))
def _nearness(values, factor, most):
    """The squared cosine between values and their levels, except for the length of the values."""
    product, square = np.int64(0), np.int64(0)
    for place in range(len(values)):
        value = np.int64(values[place])
        middle = 2 * min(value * factor >> 16, most) + 1
        product += middle * value
        square += middle * middle
    return np.float64(product) * np.float64(product) / np.float64(square)


@loop(
    types.void(
        types.Array(types.int32, 2, "C", readonly=True), _SHARES, _SHARES, types.int64, types.uint8[:, ::1]
    )
)
def _choose_levels(amounts, shares, nearby, most, levels):
    for row in range(amounts.shape[0]):
        values = amounts[row]
        range_of_one = np.int64(1)
        for place in range(len(values)):
            range_of_one = max(range_of_one, np.int64(values[place]))
        whole = ((most + 1) << 26) // range_of_one
        best, chosen, middle = -1.0, np.int64(0), np.int64(0)
        for share in shares:
            near = _nearness(values, whole // share, most)
            if near > best:
                best, chosen, middle = near, whole // share, share
        for offset in nearby:
            factor = whole // (middle + offset)
            near = _nearness(values, factor, most)
            if near > best:
                best, chosen = near, factor
        for place in range(len(values)):
            levels[row, place] = min(np.int64(values[place]) * chosen >> 16, most)


_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_RUNS = types.Array(types.uint64, 2, "C", readonly=True)
_TOGETHER, _HALF = 32, 16


@loop(types.void(_BYTES, types.Array(types.uint64, 1, "C", readonly=True), types.uint64[:, ::1]))
def _spread_signs(packed, spread, numbers):
    rows, width = numbers.shape
    blocks = rows // _TOGETHER
    for block in range(blocks):
        for byte in range(width):
            start = (block * width + byte) * _TOGETHER
            for place in range(_HALF):
                row = block * _TOGETHER + place // 2 + place % 2 * 8
                low, high = packed[start + place], packed[start + _HALF + place]
                numbers[row, byte] = spread[(low & 15) | (high & 15) << 4]
                numbers[row + _HALF, byte] = spread[(low >> 4) | (high & 0xF0)]
    start, left = blocks * _TOGETHER * width, rows - blocks * _TOGETHER
    for byte in range(width):
        for row in range(left):
            numbers[blocks * _TOGETHER + row, byte] = spread[packed[start + byte * left + row]]


@loop(types.void(_WORDS, _RUNS, types.int64, types.uint64[:, ::1]))
def _add_levels(packed, runs, group, numbers):
    words = numbers.shape[1]
    for row in range(packed.shape[0]):
        for number in range(packed.shape[1] // group):
            for run in range(runs.shape[0]):
                to = number * 8 + np.int64(runs[run, 1])
                if to < words:
                    word = packed[row, number * group + np.int64(runs[run, 0])]
                    numbers[row, to] |= ((word >> runs[run, 2]) & runs[run, 3]) << runs[run, 4]


_FACTORS = types.Array(types.float32, 1, "C", readonly=True)


@loop(
    [
        types.void(
            types.Array(number, 2, "C", readonly=True),
            _FACTORS,
            types.float32,
            _FACTORS,
            _FACTORS,
            types.float32,
            types.float32[::1],
        )
        for number in (types.uint8, types.uint16)
    ],  # Sums in any order, so that several are made at once; NaN stays NaN.
    fastmath={"reassoc", "contract"},
)
def _estimate(numbers, weights, middle, add, scale, offset, found):
    for row in range(numbers.shape[0]):
        total = np.float32(0)
        for place in range(len(weights)):
            total += np.float32(numbers[row, place]) * weights[place]
        found[row] = offset + add[row] + scale[row] * (total - middle)


def rotate(*, vectors: Floats, flips: Bytes) -> None:
    """Rotate vectors in place: flips, then sums and differences of values that lie far apart, in rounds.

    Lengths and angles stay, except for an odd dimension that is no power of two: one value takes no part
    there.

    Args:
        vectors: float32 of shape (rows, dimension).
        flips: Shape (rounds, dimension): not zero where a value changes its sign.
    """
    _rotate(vectors, flips)


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
    _choose_levels(amounts, shares, nearby, most, levels)


def spread_signs(*, packed: Bytes, spread: Words64, numbers: Words64) -> None:
    """Write a number for each sign.

    Signs of 32 rows lie together, byte by byte: the lower half bytes of 16 and those of 16 others, then the
    upper ones. The rows behind the last 32 lie byte by byte, too, as they are.

    Args:
        packed: uint8 of shape (rows, bytes): the signs of all rows.
        spread: Shape (256,): the eight numbers of each byte of signs, in the order of memory.
        numbers: Shape (rows, bytes), eight numbers in a word: filled.
    """
    _spread_signs(packed.reshape(-1), spread, numbers)


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
    _add_levels(packed, runs, group, numbers)


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
    _estimate(numbers, weights, middle, add, scale, offset, found)
