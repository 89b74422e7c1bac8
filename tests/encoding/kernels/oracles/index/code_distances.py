"""Distances between a query and vectors, or the codes that stand for them."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Floats, Integers

_ROWS = 1 << 12


def fill_tables(*, words: Floats, vectors: Floats, squared: bool, tables: Floats) -> None:
    """What each word of a codebook counts for, value after value of a part."""
    tables[:] = 0
    for place in range(words.shape[1]):
        values, others = vectors[:, :, place, None], words[None, :, place]
        tables += (others - values) ** 2 if squared else others * values


def sum_words(*, codes: Bytes, table: Floats, sums: Floats) -> None:
    """Add up what the words of codes count for, part by part."""
    for part in range(codes.shape[1]):
        sums += table[part][codes[:, part]]


def squared_differences(*, codes: Bytes, query: Bytes, sums: Integers) -> None:
    """Add up the squares of differences, some rows at a time."""
    wanted = query.astype(np.int64)
    for start in range(0, len(codes), _ROWS):
        difference = codes[start : start + _ROWS] - wanted
        sums[start : start + _ROWS] = np.einsum("ij,ij->i", difference, difference)


def squared_distances(*, vectors: Floats, query: Floats, sums: Floats) -> None:
    """Add up the squares of differences of floats, some rows at a time."""
    for start in range(0, len(vectors), _ROWS):
        difference = vectors[start : start + _ROWS] - query
        sums[start : start + _ROWS] = np.einsum("ij,ij->i", difference, difference)


def greatest_of_least(*, distances: Floats, count: int) -> float:
    """Return the greatest of the least of some distances."""
    return float(np.partition(distances, count - 1)[count - 1])


def compare_pairs(*, vectors: Floats, ones: Integers, others: Integers, squared: bool, sums: Floats) -> None:
    """Compare pairs of vectors, some at a time."""
    for start in range(0, len(ones), _ROWS):
        one, other = vectors[ones[start : start + _ROWS]], vectors[others[start : start + _ROWS]]
        if squared:
            one = other = one - other
        sums[start : start + _ROWS] = np.einsum("ij,ij->i", one, other)
