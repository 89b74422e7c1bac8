"""Metric: how far two vectors are from each other.

Distances are those of pylance: l2 is squared, cosine and dot are one less the product (so that the least is
the nearest), hamming counts the bits that differ.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.index.code_distances import squared_distances
from lance_ops.errors import InvalidArgumentError
from lance_ops.pb import index_pb2

Vectors = npt.NDArray[Any]
"""Shape (rows, dimension)."""
Distances = npt.NDArray[np.float32]

METRICS = ("l2", "cosine", "dot", "hamming")
_ALIASES = {"euclidean": "l2"}
_NUMBERS = {
    "l2": index_pb2.L2,
    "cosine": index_pb2.Cosine,
    "dot": index_pb2.Dot,
    "hamming": index_pb2.Hamming,
}
_BLOCK_ROWS = 1 << 16
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


def metric_named(name: object) -> str:
    """Return the metric that a user means, ignoring case.

    Raises:
        InvalidArgumentError: there is none of this name.
    """
    found = name.lower() if isinstance(name, str) else ""
    found = _ALIASES.get(found, found)
    if found not in METRICS:
        raise InvalidArgumentError(
            f"no metric {name!r}", field="metric", hint=f"metrics: {', '.join(METRICS)}"
        )
    return found


def metric_number(name: str) -> "index_pb2.VectorMetricType.ValueType":
    """Return the number of a metric in the details of an index."""
    return _NUMBERS[name]


def metric_numbered(number: "index_pb2.VectorMetricType.ValueType") -> str:
    """Return the metric that the details of an index name; l2 for numbers that are not known."""
    return next((name for name, known in _NUMBERS.items() if known == number), "l2")


def finite_rows(vectors: Vectors) -> npt.NDArray[np.bool_]:
    """Return which of some float vectors have finite values only."""
    kind = np.float32 if vectors.dtype == np.float16 else None
    with np.errstate(all="ignore"):
        # A sum is finite only where all of its terms are: no flag has to be written for each of these.
        finite: npt.NDArray[np.bool_] = np.isfinite(vectors.sum(axis=1, dtype=kind))
    doubtful = np.flatnonzero(~finite)
    if len(doubtful):
        finite[doubtful] = np.isfinite(vectors[doubtful]).all(axis=1)
    return finite


def only(vectors: Vectors, rows: npt.NDArray[np.bool_]) -> Vectors:
    """Return some of the vectors; they are not copied when these are all."""
    return vectors if rows.all() else vectors[rows]


def flat_distances(metric: str, query: npt.NDArray[Any], vectors: Vectors) -> Distances:
    """Return distances of vectors from a query.

    Args:
        metric: One of `METRICS`.
        query: Shape (dimension,).
        vectors: Shape (rows, dimension), of the same values; uint8 (eight bits a value) for hamming.

    Returns:
        Shape (rows,), float32. NaN where a vector has none: with NaN in it, or for cosine of length zero.
    """
    if metric == "hamming":
        return _hamming(query, vectors)
    found = np.empty(len(vectors), np.float32)
    # What is not float64 is float32 at least: half floats overflow, and integers wrap.
    kind: Any = np.float64 if np.float64 in (vectors.dtype, query.dtype) else np.float32
    wanted: npt.NDArray[Any] = np.ascontiguousarray(query, kind)
    if metric == "cosine":
        wanted = normalized(wanted[None])[0]
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block: Vectors = vectors[start : start + _BLOCK_ROWS].astype(kind, copy=False)
        with np.errstate(all="ignore"):
            if metric == "l2" and kind is np.float32:
                distances = np.empty(len(block), np.float32)
                squared_distances(
                    vectors=np.require(block, requirements=["C", "A"]), query=wanted, sums=distances
                )
            elif metric == "l2":
                difference = block - wanted
                distances = np.einsum("ij,ij->i", difference, difference)
            elif metric == "cosine":
                distances = 1 - (block @ wanted) / np.sqrt(np.einsum("ij,ij->i", block, block))
            else:
                distances = 1 - block @ wanted
        found[start : start + len(block)] = distances
    return found


def normalized(vectors: Vectors) -> Vectors:
    """Return vectors of length one in the same directions; NaN for those of length zero."""
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        return np.asarray(vectors / lengths[:, None], dtype=vectors.dtype)


def _hamming(query: npt.NDArray[Any], vectors: Vectors) -> Distances:
    differing = np.bitwise_xor(vectors.astype(np.uint8, copy=False), query.astype(np.uint8))
    return np.asarray(_ONES[differing].sum(axis=1, dtype=np.int64), np.float32)
