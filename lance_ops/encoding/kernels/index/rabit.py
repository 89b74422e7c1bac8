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
    """The squared cosine between values and their levels, but for the length of the values."""
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
        range_of_one = np.int64(max(values.max(), 1))
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
