"""Distances of rows from a query: of the vector of a row, or of the several vectors that it holds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.index.scored import Scored
from lance_ops.index.vector.metric import Distances, Vectors, flat_distances, only
from lance_ops.index.vector.vectors import stored_lists

OVER_FETCH = 10
"""Vectors searched per requested row, for each vector of a query, as in pylance."""


def row_distances(metric: str, wanted: npt.NDArray[Any], column: pa.Array) -> Distances:
    """Distance of each row; NaN where it has no vector.

    Of several vectors a row those with NaN are passed over. As in pylance, one of length zero, which has no
    cosine distance, leaves its row without a distance.

    Args:
        metric: That distances are in.
        wanted: Shape (dimension,); (vectors, dimension) for several vectors a row.
        column: Vectors, or lists of vectors.
    """
    found = np.full(len(column), np.nan, np.float32)
    if wanted.ndim == 1:
        vectors, known = _vectors_of(column)
        if len(vectors):
            found[known] = flat_distances(metric, wanted, vectors)
        return found
    vectors, known = _vectors_of(pc.list_flatten(column))
    rows = pc.list_parent_indices(column).to_numpy()[known]
    if np.issubdtype(vectors.dtype, np.floating):
        whole = np.asarray(~np.isnan(vectors).any(axis=1), np.bool_)
        vectors, rows = only(vectors, whole), rows[whole]
    if len(rows):
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        found[rows[starts]] = summed_distances(metric, wanted, vectors, starts)
    return found


def summed_distances(
    metric: str, wanted: Vectors, vectors: Vectors, starts: npt.NDArray[np.int64]
) -> Distances:
    """Return distances of rows with several vectors: for each vector of the query the nearest one counts.

    Args:
        metric: That distances are in.
        wanted: Shape (vectors, dimension): the query.
        vectors: Of all rows, one row behind the other; each row has some.
        starts: Where the vectors of each row begin.
    """
    parts = [np.minimum.reduceat(flat_distances(metric, one, vectors), starts) for one in wanted]
    found: Distances = np.sum(parts, axis=0, dtype=np.float32)
    return found


def estimated_distances(parts: Sequence[Scored]) -> Scored:
    """Return rows with several vectors, with distances estimated from searches in an index.

    For each vector of the query the most similar vector of a row counts that the search found. A row that it
    did not find counts as the last one that it found: as in pylance, its true similarity is no greater.

    Args:
        parts: What the search for each vector of the query found, best first: a row once for each of its
            vectors, with cosine distances.
    """
    addresses = np.unique(np.concatenate([part.addresses for part in parts]))
    similarities = np.zeros(len(addresses), np.float32)
    for part in parts:
        if not len(part):
            continue
        each = np.full(len(addresses), 1 - part.scores[-1], np.float32)
        rows, first = np.unique(part.addresses, return_index=True)
        each[np.searchsorted(addresses, rows)] = 1 - part.scores[first]
        similarities += each
    distances = np.float32(len(parts)) - similarities
    order = np.lexsort((addresses, distances))
    return Scored(addresses[order], distances[order])


def _vectors_of(column: pa.Array) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    """Return the vectors that are there, as a matrix, and of which rows they are; a null in one is NaN."""
    column = stored_lists(column)
    width = column.type.list_size
    known = pc.is_valid(column).to_numpy(zero_copy_only=False)
    values = (column if known.all() else column.filter(pa.array(known))).flatten()
    vectors = values.to_numpy(zero_copy_only=False).reshape(-1, width)
    return vectors, known
