"""A graph of near rows (HNSW), made from the distances of all pairs."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Floats, Integers
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import graph as reference


def connect(
    *,
    distances: Floats,
    levels: Integers,
    level: int,
    fresh: int,
    width: int,
    candidates: int,
    neighbours: npt.NDArray[np.int32],
    lengths: Floats,
) -> None:
    """Connect the rows of a level, in sequence, with those before them.

    A row that comes gets the nearest before it, those first that are nearer to it than to one another, and
    each of these gets it; one that has too many then loses the farthest that is nearer to another of them.

    Args:
        distances: Shape (rows, rows), float32: of all pairs, the same both ways.
        levels: Shape (rows,), int64: the highest level of each row.
        level: Which one is made; rows of lower ones have no place in it.
        fresh: Neighbours that a row is given when it comes, at most `width`.
        width: Neighbours that a row has at most.
        candidates: How many before it are looked at, the nearest; at least one.
        neighbours: Shape (rows, width + 1), int32, all -1: filled from the left, the nearest first.
        lengths: Shape (rows, width + 1), float32: filled with how far these are.
    """
    kernel = load("index.graph")
    if kernel is None:
        reference.connect(
            distances=distances,
            levels=levels,
            level=level,
            fresh=fresh,
            width=width,
            candidates=candidates,
            neighbours=neighbours,
            lengths=lengths,
        )
    else:
        kernel.connect(distances, levels, level, fresh, width, candidates, neighbours, lengths)
