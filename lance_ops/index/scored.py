"""Scored searches: rows by nearness to a vector, or by how well their text fits, best first."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.scan.search import Scored

__all__ = ["Locate", "NearestQuery", "Scored"]

Locate = Callable[[Addresses], tuple[Addresses, npt.NDArray[np.bool_]]]
"""Function from row references of a segment to current addresses and a mask of rows that count.

References are addresses or stable row ids, in any order. Deleted, uncovered and filtered rows do not count.
"""


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A search for the vectors nearest to one.

    Attributes:
        column: Path of the column of vectors.
        vector: The vector: one dimension, of the column's values (float32 for float16); of a column with
            several vectors a row all vectors of the query, shape (vectors, dimension).
        k: Maximum rows to find.
        metric: "l2" (squared, as pylance says it), "cosine", "dot" or "hamming"; None for that of the index,
            or "l2" without one.
        minimum_nprobes: Minimum partitions to search; see `index.vector.probes` for the default.
        maximum_nprobes: Maximum, if those have fewer than k rows that count; None for all.
        refine_factor: Search for k times as many rows and sort them by exact distances; None to disable.
        ef: Candidates of a graph search; None for the default of the kind.
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
