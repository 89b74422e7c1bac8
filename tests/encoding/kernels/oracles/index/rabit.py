"""RaBitQ: rotation of vectors, and levels of their values."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Floats, Integers, Words64

_TOGETHER, _HALF = 32, 16
# The row of the low half byte, by place; that of the high one is 16 rows behind it.
_ORDER = np.array([place // 2 + place % 2 * 8 for place in range(_HALF)])


def rotate(*, vectors: Floats, flips: Bytes) -> None:
    """Rotate vectors in place, all rows at a time."""
    rounds, count = flips.shape
    whole = 1 << (count.bit_length() - 1)
    half = count // 2
    for number in range(rounds):
        np.negative(vectors, out=vectors, where=flips[number] != 0)
        if whole == count:
            vectors[:] = _hadamard(vectors)
            continue
        part = slice(0, whole) if number % 2 == 0 else slice(count - whole, count)
        vectors[:, part] = _hadamard(vectors[:, part])
        first, second = vectors[:, :half].copy(), vectors[:, half : 2 * half].copy()
        vectors[:, :half], vectors[:, half : 2 * half] = first + second, first - second
    if whole != count:
        # Each round of these sums doubles the square of the length.
        vectors /= np.float32(rounds)


def _hadamard(values: Floats) -> Floats:
    rows, count = values.shape
    step = 1
    while step < count:
        pairs = values.reshape(rows, count // (2 * step), 2, step)
        values = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        values = values.reshape(rows, count)
        step *= 2
    return np.asarray(values / np.float32(np.sqrt(count)), np.float32)


def choose_levels(*, amounts: Integers, shares: Integers, nearby: Integers, most: int, levels: Bytes) -> None:
    """Find the levels whose direction is the nearest, for one width after the other."""
    values = amounts.astype(np.int64)
    whole = (most + 1 << 26) // np.maximum(values.max(axis=1, initial=0), 1)
    best = np.full(len(values), -1.0)
    middle = np.zeros(len(values), np.int64)
    levels[:] = 0
    for share in shares.tolist():
        better = _improve(values, whole // share, most, best, levels)
        middle[better] = share
    for offset in nearby.tolist():
        _improve(values, whole // (middle + offset), most, best, levels)


def _improve(values: Integers, factors: Integers, most: int, best: Floats, levels: Bytes) -> Integers:
    """Take the levels of the rows that come nearer so; which ones."""
    found = np.minimum(values * factors[:, None] >> 16, most)
    middles = 2 * found + 1
    product = (middles * values).sum(axis=1).astype(np.float64)
    near = product * product / (middles * middles).sum(axis=1).astype(np.float64)
    better = np.nonzero(near > best)[0]
    levels[better], best[better] = found[better], near[better]
    return better


def spread_signs(*, packed: Bytes, spread: Words64, numbers: Words64) -> None:
    """Write a number for each sign, all rows at a time."""
    rows, width = packed.shape
    whole = rows // _TOGETHER * _TOGETHER
    flat = packed.reshape(-1)
    low, high = np.moveaxis(flat[: whole * width].reshape(-1, width, 2, _HALF), 2, 0)
    signs = np.empty((whole // _TOGETHER, _TOGETHER, width), np.uint8)
    signs[:, _ORDER] = ((low & 15) | (high & 15) << 4).swapaxes(1, 2)
    signs[:, _ORDER + _HALF] = ((low >> 4) | (high & 0xF0)).swapaxes(1, 2)
    numbers[:whole] = spread[signs.reshape(whole, width)]
    numbers[whole:] = spread[flat[whole * width :].reshape(width, rows - whole).T]


def add_levels(*, packed: Words64, runs: Words64, group: int, numbers: Words64) -> None:
    """Add packed numbers to others, group by group."""
    for number in range(packed.shape[1] // group):
        for word, to, right, mask, left in runs:
            target = number * 8 + int(to)
            if target < numbers.shape[1]:
                numbers[:, target] |= (packed[:, number * group + int(word)] >> right & mask) << left


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
    """Estimate distances from a query by a product of matrices."""
    sums = numbers.astype(np.float32) @ weights
    found[:] = np.float32(offset) + add + scale * (sums - np.float32(middle))
