"""Distances between a query and vectors, or the codes that stand for them."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Floats, Integers
from lance_ops.encoding.kernels.loops import loop, types

_NARROW = 1 << 16
"""Sums of so many squares of bytes fit into 32 bits."""

_CODES = types.Array(types.uint8, 2, "C", readonly=True)
_FLOATS = types.Array(types.float32, 3, "C", readonly=True)


@loop(types.void(_FLOATS, _FLOATS, types.boolean, types.float32[:, :, ::1]))
def _fill_tables(words, vectors, squared, tables):
    for vector in range(vectors.shape[0]):
        for part in range(vectors.shape[1]):
            table = tables[vector, part]
            table[:] = np.float32(0)
            for place in range(vectors.shape[2]):
                value, others = vectors[vector, part, place], words[part, place]
                if squared:
                    for word in range(len(others)):
                        difference = others[word] - value
                        table[word] += difference * difference
                else:
                    for word in range(len(others)):
                        table[word] += others[word] * value


@loop(types.void(_CODES, types.Array(types.float32, 2, "C", readonly=True), types.float32[::1]))
def _sum_words(codes, table, sums):
    for row in range(codes.shape[0]):
        total = sums[row]
        for part in range(codes.shape[1]):
            total += table[part, codes[row, part]]
        sums[row] = total


@loop(types.void(_CODES, types.Array(types.uint8, 1, "C", readonly=True), types.int64[::1]))
def _squared_differences(codes, query, sums):
    dimension = query.shape[0]
    for row in range(codes.shape[0]):
        total = np.uint32(0)
        for place in range(dimension):
            difference = np.int16(codes[row, place]) - np.int16(query[place])
            total = np.uint32(total + np.uint32(difference * difference))
        sums[row] = total


@loop(
    types.void(
        types.Array(types.float32, 2, "C", readonly=True),
        types.Array(types.float32, 1, "C", readonly=True),
        types.float32[::1],
    ),  # Sums in any order, so that several are made at once; NaN stays NaN.
    fastmath={"reassoc", "contract"},
)
def _squared_distances(vectors, query, sums):
    dimension = query.shape[0]
    for row in range(vectors.shape[0]):
        total = np.float32(0)
        for place in range(dimension):
            difference = vectors[row, place] - query[place]
            total += difference * difference
        sums[row] = total


@loop(types.void(types.Array(types.float32, 1, "C", readonly=True), types.float32[::1]))
def _keep_least(distances, kept):
    count = len(kept)
    for place in range(count):
        distance, at = distances[place], place
        while at > 0 and distance > kept[(at - 1) // 2]:
            kept[at] = kept[(at - 1) // 2]
            at = (at - 1) // 2
        kept[at] = distance
    for place in range(count, len(distances)):
        distance = distances[place]
        if distance < kept[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= count:
                    break
                if child + 1 < count and kept[child + 1] > kept[child]:
                    child += 1
                if kept[child] <= distance:
                    break
                kept[at] = kept[child]
                at = child
            kept[at] = distance


_PLACES = types.Array(types.int64, 1, "C", readonly=True)


@loop(
    types.void(
        types.Array(types.float32, 2, "C", readonly=True), _PLACES, _PLACES, types.boolean, types.float32[::1]
    ),  # Sums in any order, so that several are made at once; NaN stays NaN.
    fastmath={"reassoc", "contract"},
)
def _compare_pairs(vectors, ones, others, squared, sums):
    for pair in range(len(ones)):
        one, other = vectors[ones[pair]], vectors[others[pair]]
        total = np.float32(0)
        if squared:
            for place in range(len(one)):
                difference = one[place] - other[place]
                total += difference * difference
        else:
            for place in range(len(one)):
                total += one[place] * other[place]
        sums[pair] = total


def fill_tables(*, words: Floats, vectors: Floats, squared: bool, tables: Floats) -> None:
    """Compute the distance table of a codebook (product quantization).

    Args:
        words: Shape (parts, dimension of a part, words).
        vectors: Shape (vectors, parts, dimension of a part).
        squared: True if that is its squared distance from the part of a vector, and not their product.
        tables: Shape (vectors, parts, words): filled.
    """
    _fill_tables(words, vectors, squared, tables)


def sum_words(*, codes: Bytes, table: Floats, sums: Floats) -> None:
    """Add up what the words of codes count for (product quantization).

    Args:
        codes: Shape (rows, parts): the number of a word for each part of a vector.
        table: Shape (parts, words): what each word counts for; words enough for every code.
        sums: Shape (rows,): what is added to, part after part.
    """
    _sum_words(codes, table, sums)


def squared_differences(*, codes: Bytes, query: Bytes, sums: Integers) -> None:
    """Squared distances between vectors of bytes (scalar quantization).

    Args:
        codes: Shape (rows, dimension).
        query: Shape (dimension,).
        sums: Shape (rows,): filled.
    """
    if codes.shape[1] <= _NARROW:
        _squared_differences(codes, query, sums)
        return
    wanted = query.astype(np.int64)
    for row, code in enumerate(codes):
        difference = code - wanted
        sums[row] = difference @ difference


def squared_distances(*, vectors: Floats, query: Floats, sums: Floats) -> None:
    """Squared distances between vectors; what is not finite comes out as it does of their sums.

    Args:
        vectors: Shape (rows, dimension).
        query: Shape (dimension,).
        sums: Shape (rows,): filled.
    """
    _squared_distances(vectors, query, sums)


def greatest_of_least(*, distances: Floats, count: int) -> float:
    """Return the greatest of the least of some distances.

    Args:
        distances: Shape (rows,), none NaN.
        count: How many are the least; from one to all.
    """
    kept = np.empty(count, np.float32)
    _keep_least(distances, kept)
    return float(kept[0])


def compare_pairs(*, vectors: Floats, ones: Integers, others: Integers, squared: bool, sums: Floats) -> None:
    """Squared distances, or products, of pairs of vectors.

    Args:
        vectors: float32 of shape (rows, dimension).
        ones: int64 of shape (pairs,): the first of each, below the number of rows.
        others: The second, likewise.
        squared: True if it is squared distances.
        sums: float32 of shape (pairs,): filled.
    """
    _compare_pairs(vectors, ones, others, squared, sums)
