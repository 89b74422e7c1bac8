"""Compiled loops of distances between a query and vectors, or the codes that stand for them."""

import numpy as np
from numba import njit, types

_CODES = types.Array(types.uint8, 2, "C", readonly=True)


_FLOATS = types.Array(types.float32, 3, "C", readonly=True)


@njit(types.void(_FLOATS, _FLOATS, types.boolean, types.float32[:, :, ::1]), cache=True, nogil=True)
def fill_tables(words, vectors, squared, tables):  # type: ignore[no-untyped-def]
    """What each word of a codebook counts for.

    Args:
        words: Part by part, value by value, all words.
        vectors: Vector by vector, part by part.
        squared: True if that is its squared distance, and not its product.
        tables: Vector by vector, part by part, all words.
    """
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


@njit(
    types.void(_CODES, types.Array(types.float32, 2, "C", readonly=True), types.float32[::1]),
    cache=True,
    nogil=True,
)
def sum_words(codes, table, sums):  # type: ignore[no-untyped-def]
    """Add up what the words of codes count for.

    Args:
        codes: One row a vector, one column a part.
        table: What each word of each part counts for.
        sums: What is added to.
    """
    for row in range(codes.shape[0]):
        total = sums[row]
        for part in range(codes.shape[1]):
            total += table[part, codes[row, part]]
        sums[row] = total


@njit(
    types.void(_CODES, types.Array(types.uint8, 1, "C", readonly=True), types.int64[::1]),
    cache=True,
    nogil=True,
)
def squared_differences(codes, query, sums):  # type: ignore[no-untyped-def]
    """Add up the squares of differences.

    Args:
        codes: One row a vector, of 65,536 values at most: sums are below 2**32.
        query: What they differ from.
        sums: One of each row.
    """
    dimension = query.shape[0]
    for row in range(codes.shape[0]):
        total = np.uint32(0)
        for place in range(dimension):
            difference = np.int16(codes[row, place]) - np.int16(query[place])
            total = np.uint32(total + np.uint32(difference * difference))
        sums[row] = total


@njit(
    types.void(
        types.Array(types.float32, 2, "C", readonly=True),
        types.Array(types.float32, 1, "C", readonly=True),
        types.float32[::1],
    ),
    cache=True,
    nogil=True,
    # Sums in any order, so that several are made at once; NaN stays NaN.
    fastmath={"reassoc", "contract"},
)
def squared_distances(vectors, query, sums):  # type: ignore[no-untyped-def]
    """Add up the squares of differences of floats.

    Args:
        vectors: One a row.
        query: What they differ from.
        sums: One of each row.
    """
    dimension = query.shape[0]
    for row in range(vectors.shape[0]):
        total = np.float32(0)
        for place in range(dimension):
            difference = vectors[row, place] - query[place]
            total += difference * difference
        sums[row] = total


@njit(
    types.void(types.Array(types.float32, 1, "C", readonly=True), types.float32[::1]), cache=True, nogil=True
)
def keep_least(distances, kept):  # type: ignore[no-untyped-def]
    """Fill a heap, the greatest at its top, with the least of some distances.

    Args:
        distances: None is NaN, and there are at least as many as places in the heap.
        kept: The heap.
    """
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


@njit(
    types.void(
        types.Array(types.float32, 2, "C", readonly=True), _PLACES, _PLACES, types.boolean, types.float32[::1]
    ),
    cache=True,
    nogil=True,
    fastmath={"reassoc", "contract"},
)
def compare_pairs(vectors, ones, others, squared, sums):  # type: ignore[no-untyped-def]
    """Add up the squares of differences, or the products, of pairs of vectors.

    Args:
        vectors: One a row.
        ones: The first of each pair.
        others: The second.
        squared: True if it is differences.
        sums: One of each pair.
    """
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
