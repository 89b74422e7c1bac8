"""Scored searches: rows by nearness to a vector, or by how well their text fits, best first."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.scan.search import Scored

__all__ = ["Locate", "NearestQuery", "Scored"]

Locate = Callable[[Addresses], tuple[Addresses, npt.NDArray[np.bool_]]]
"""For rows as a segment names them (by address or stable row id), in any order: where they lie now, and which
of them count: rows that are deleted, that the segment does not cover any more or that a filter leaves out do
not, and their addresses mean nothing."""


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A search for the vectors nearest to one.

    Attributes:
        column: Path of the column of vectors.
        vector: The vector: one dimension, of the column's values (float32 for float16); of a column with
            several vectors a row all vectors of the query, shape (vectors, dimension).
        k: Rows to find at most.
        metric: "l2" (squared, as the peer says it), "cosine", "dot" or "hamming"; None for that of the index,
            or "l2" without one.
        minimum_nprobes: Partitions to look into at least; see `index.vector.probes` for how many these are.
        maximum_nprobes: At most, when those hold fewer than k rows that count; None for all.
        refine_factor: Look for k times as many rows and order them by their true distances; None not to.
        ef: Candidates that a search in a graph keeps; None for the default of the kind.
        distance_range: Least (included) and greatest (excluded) distance; None for no bound.
    """

    column: str
    vector: npt.NDArray[np.generic]
    k: int = 10
    metric: str | None = None
    minimum_nprobes: int = 1
    maximum_nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None
    distance_range: tuple[float | None, float | None] = (None, None)
