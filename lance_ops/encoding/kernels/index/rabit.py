"""Compiled loops of RQ: the rotation of vectors, and the levels that stand for their values."""

import numpy as np
from numba import njit, types


@njit(types.void(types.float32[::1], types.int64), cache=True, nogil=True)
def _hadamard(values, count):  # type: ignore[no-untyped-def]
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


@njit(
    types.void(types.float32[:, ::1], types.Array(types.uint8, 2, "C", readonly=True)), cache=True, nogil=True
)
def rotate(vectors, flips):  # type: ignore[no-untyped-def]
    """Rotate vectors in place.

    Args:
        vectors: One a row.
        flips: Round by round, one of each value: not zero where it changes its sign.
    """
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


@njit(types.float64(_AMOUNTS, types.int64, types.int64), cache=True, nogil=True)
def _nearness(values, factor, most):  # type: ignore[no-untyped-def]
    """The squared cosine between values and their levels, except for the length of the values."""
    product, square = np.int64(0), np.int64(0)
    for place in range(len(values)):
        value = np.int64(values[place])
        middle = 2 * min(value * factor >> 16, most) + 1
        product += middle * value
        square += middle * middle
    return np.float64(product) * np.float64(product) / np.float64(square)


@njit(
    types.void(
        types.Array(types.int32, 2, "C", readonly=True), _SHARES, _SHARES, types.int64, types.uint8[:, ::1]
    ),
    cache=True,
    nogil=True,
)
def choose_levels(amounts, shares, nearby, most, levels):  # type: ignore[no-untyped-def]
    """Write the levels whose direction is the nearest to that of the amounts.

    Args:
        amounts: One vector a row, none below zero.
        shares: Shares of the greatest amount that are tried as the range of the levels, in 1,024ths.
        nearby: What is added to the best of them and tried, too.
        most: Greatest level.
        levels: As many: filled.
    """
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


@njit(
    types.void(_BYTES, types.Array(types.uint64, 1, "C", readonly=True), types.uint64[:, ::1]),
    cache=True,
    nogil=True,
)
def spread_signs(packed, spread, numbers):  # type: ignore[no-untyped-def]
    """Write a number for each sign.

    Args:
        packed: Signs of all rows in sequence, as they lie in a file.
        spread: The eight numbers of each byte of signs.
        numbers: One row a vector, eight in a word.
    """
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


@njit(types.void(_WORDS, _RUNS, types.int64, types.uint64[:, ::1]), cache=True, nogil=True)
def add_levels(packed, runs, group, numbers):  # type: ignore[no-untyped-def]
    """Add packed numbers of some bits, 64 at a time, to numbers, eight at once.

    Args:
        packed: One row a vector, whole groups of words.
        runs: Of a group: a word, the word of its numbers, steps right, mask, steps left.
        group: Words of 64 packed numbers.
        numbers: What is added to, eight in a word; a group may be cut off behind the last.
    """
    words = numbers.shape[1]
    for row in range(packed.shape[0]):
        for number in range(packed.shape[1] // group):
            for run in range(runs.shape[0]):
                to = number * 8 + np.int64(runs[run, 1])
                if to < words:
                    word = packed[row, number * group + np.int64(runs[run, 0])]
                    numbers[row, to] |= ((word >> runs[run, 2]) & runs[run, 3]) << runs[run, 4]


_FACTORS = types.Array(types.float32, 1, "C", readonly=True)


@njit(
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
    ],
    cache=True,
    nogil=True,
    # Sums in any order, so that several are made at once; NaN stays NaN.
    fastmath={"reassoc", "contract"},
)
def estimate(numbers, weights, middle, add, scale, offset, found):  # type: ignore[no-untyped-def]
    """Estimate distances from numbers.

    Args:
        numbers: One row a vector.
        weights: What each value of the query counts for.
        middle: What is taken from the sum of all numbers times their weights.
        add: Of each row.
        scale: Of each row: what that counts for.
        offset: Of all.
        found: One of each row.
    """
    for row in range(numbers.shape[0]):
        total = np.float32(0)
        for place in range(len(weights)):
            total += np.float32(numbers[row, place]) * weights[place]
        found[row] = offset + add[row] + scale[row] * (total - middle)
