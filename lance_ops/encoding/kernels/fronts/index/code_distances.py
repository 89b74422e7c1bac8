"""Distances between a query and vectors, or the codes that stand for them."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Floats, Integers
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import code_distances as reference

_NARROW = 1 << 16
"""Sums of so many squares of bytes fit into 32 bits."""


def fill_tables(*, words: Floats, vectors: Floats, squared: bool, tables: Floats) -> None:
    """Compute the distance table of a codebook (product quantization).

    Args:
        words: Shape (parts, dimension of a part, words).
        vectors: Shape (vectors, parts, dimension of a part).
        squared: True if that is its squared distance from the part of a vector, and not their product.
        tables: Shape (vectors, parts, words): filled.
    """
    kernel = load("index.code_distances")
    if kernel is None:
        reference.fill_tables(words=words, vectors=vectors, squared=squared, tables=tables)
    else:
        kernel.fill_tables(words, vectors, squared, tables)


def sum_words(*, codes: Bytes, table: Floats, sums: Floats) -> None:
    """Add up what the words of codes count for (product quantization).

    Args:
        codes: Shape (rows, parts): the number of a word for each part of a vector.
        table: Shape (parts, words): what each word counts for; words enough for every code.
        sums: Shape (rows,): what is added to, part after part.
    """
    kernel = load("index.code_distances")
    if kernel is None:
        reference.sum_words(codes=codes, table=table, sums=sums)
    else:
        kernel.sum_words(codes, table, sums)


def squared_differences(*, codes: Bytes, query: Bytes, sums: Integers) -> None:
    """Squared distances between vectors of bytes (scalar quantization).

    Args:
        codes: Shape (rows, dimension).
        query: Shape (dimension,).
        sums: Shape (rows,): filled.
    """
    kernel = load("index.code_distances") if codes.shape[1] <= _NARROW else None
    if kernel is None:
        reference.squared_differences(codes=codes, query=query, sums=sums)
    else:
        kernel.squared_differences(codes, query, sums)


def squared_distances(*, vectors: Floats, query: Floats, sums: Floats) -> None:
    """Squared distances between vectors; what is not finite comes out as it does of their sums.

    Args:
        vectors: Shape (rows, dimension).
        query: Shape (dimension,).
        sums: Shape (rows,): filled.
    """
    kernel = load("index.code_distances")
    if kernel is None:
        reference.squared_distances(vectors=vectors, query=query, sums=sums)
    else:
        kernel.squared_distances(vectors, query, sums)


def greatest_of_least(*, distances: Floats, count: int) -> float:
    """Return the greatest of the least of some distances.

    Args:
        distances: Shape (rows,), none NaN.
        count: How many are the least; from one to all.
    """
    kernel = load("index.code_distances")
    if kernel is None:
        return reference.greatest_of_least(distances=distances, count=count)
    kept = np.empty(count, np.float32)
    kernel.keep_least(distances, kept)
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
    kernel = load("index.code_distances")
    if kernel is None:
        reference.compare_pairs(vectors=vectors, ones=ones, others=others, squared=squared, sums=sums)
    else:
        kernel.compare_pairs(vectors, ones, others, squared, sums)
