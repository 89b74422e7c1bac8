"""Training: centroids and quantizer from a bounded sample of the vectors."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.kind import Parameters
from lance_ops.index.vector.faiss_library import load_faiss
from lance_ops.index.vector.metric import Vectors, finite_rows, normalized, only
from lance_ops.index.vector.model import GraphParameters, Model
from lance_ops.index.vector.quantizer.base import Quantizer
from lance_ops.index.vector.quantizer.flat import FlatQuantizer
from lance_ops.index.vector.quantizer.pq import ProductQuantizer
from lance_ops.index.vector.quantizer.rq import RabitQuantizer
from lance_ops.index.vector.quantizer.sq import ScalarQuantizer

SEED = 42
_SAMPLE_BYTES = 1 << 30
_STARTS, _LITTLE_WORK = 3, 100_000_000
"""Number of initial centroid sets tried, if a round takes at most so many multiplications."""

_SPREAD_ROWS, _SPREAD_LEAST, _SPREAD_MOST, _CANDIDATES = 16, 4, 1 << 14, 4
"""Vectors for each centroid among which the first ones are sought, if there are few and if there are many of
them, how many vectors are many, and how many are compared for each."""

_MULTIPLIED_AT_ONCE = 1 << 12
"""Number of vectors whose pairwise products take 64 MB."""

_ROUNDS = 5
"""Rounds between checks whether centroids still move."""
_SETTLED = 1e-4
"""Rounds that make the loss less by a smaller share than this are not worth their time, as with pylance."""
_LONGEST_SQUARED = np.finfo(np.float32).max / 16
"""Between vectors that are shorter, and differences of them, squared distances are finite."""


def sample_rows(parameters: Parameters, partitions: int, dimension: int) -> int:
    """Return training vectors: enough for the centroids and the codebook, at most 1 GB."""
    wanted = partitions * int(parameters["sample_rate"])
    if parameters["index_type"].endswith("PQ"):
        wanted = max(wanted, int(parameters["sample_rate"]) << int(parameters["num_bits"]))
    else:
        # The range of values is from it, too.
        wanted = max(wanted, int(parameters["sample_rate"]) * 256)
    return max(min(wanted, _SAMPLE_BYTES // (4 * dimension)), partitions)


def train(sample: Vectors, parameters: Parameters, partitions: int, value_type: pa.DataType) -> Model:
    """Train a model.

    Args:
        sample: Finite vectors of the column, possibly none.
        parameters: Result of `VectorKind.parameters`.
        partitions: Number of partitions; at most the distinct vectors of the sample.
        value_type: Arrow type of the values of the column.

    Raises:
        InvalidArgumentError: Squares of all vectors overflow.
        UnsupportedError: faiss is not installed.
    """
    metric = parameters["metric"]
    dtype = number_dtype(value_type)
    if metric == "hamming":
        quantizer = FlatQuantizer(sample.shape[1], metric, value_type)
        bits, loss = _binary_centroids(sample, partitions, parameters)
        return Model(metric, bits, quantizer, None, loss)
    vectors = sample.astype(np.float32, copy=False)
    if metric == "cosine":
        vectors = normalized(vectors)
        vectors = only(vectors, finite_rows(vectors))
    # If squares overflow there are no distances, and faiss aborts the process.
    with np.errstate(all="ignore"):
        comparable = np.einsum("ij,ij->i", vectors, vectors) < _LONGEST_SQUARED
    if len(vectors) and not comparable.any():
        raise InvalidArgumentError(
            "all vectors are too long for distances in single precision, which is what an index has",
            field="column",
            hint="scale the vectors, or search them without an index",
        )
    vectors = only(vectors, comparable)
    iterations = int(parameters["max_iters"])
    means, loss = _k_means(
        vectors,
        partitions,
        iterations,
        int(parameters["sample_rate"]),
        spherical=metric == "dot",
        spread=True,
    )
    # Readers have them in the type of the column, so rounding is applied first.
    centroids = means.astype(dtype)
    graph = None
    if "_HNSW_" in parameters["index_type"]:
        graph = GraphParameters(
            int(parameters["m"]), int(parameters["ef_construction"]), int(parameters["max_level"])
        )
    flat = Model(metric, centroids, FlatQuantizer(vectors.shape[1], metric, value_type), graph, loss)
    return Model(metric, centroids, _quantizer(flat, vectors, parameters, dtype), graph, loss)


def _quantizer(flat: Model, vectors: Vectors, parameters: Parameters, dtype: Any) -> Quantizer:
    name = parameters["index_type"].rsplit("_", 1)[-1]
    if name == "SQ":
        start, end = (float(vectors.min()), float(vectors.max())) if vectors.size else (0.0, 0.0)
        return ScalarQuantizer(vectors.shape[1], flat.metric, start, end)
    if name == "RQ":
        return RabitQuantizer.create(vectors.shape[1], flat.metric, int(parameters["num_bits"]), SEED)
    if name == "PQ":
        if flat.metric != "dot":
            vectors = vectors - flat.centroids[flat.assign(vectors)].astype(np.float32)
        return ProductQuantizer(flat.metric, _codebook(vectors, parameters).astype(dtype))
    return flat.quantizer


def _codebook(vectors: Vectors, parameters: Parameters) -> npt.NDArray[np.float32]:
    parts, bits = int(parameters["num_sub_vectors"]), int(parameters["num_bits"])
    split = vectors.reshape(len(vectors), parts, vectors.shape[1] // parts)
    iterations, rate = int(parameters["max_iters"]), int(parameters["sample_rate"])
    books = []
    for part in range(parts):
        words, _ = _k_means(
            np.ascontiguousarray(split[:, part]), 1 << bits, iterations, rate, spherical=False
        )
        # Fewer words than numbers for them: the rest is never used.
        books.append(np.concatenate([words, np.repeat(words[:1], (1 << bits) - len(words), axis=0)]))
    return np.stack(books)


def _k_means(
    vectors: Vectors, count: int, iterations: int, rate: int, *, spherical: bool, spread: bool = False
) -> tuple[npt.NDArray[np.float32], float]:
    """Return centroids, at most `count` and at least one, and the loss; `spread` are the initial ones."""
    if len(vectors) <= count:
        distinct = np.unique(vectors, axis=0)
        return (distinct if len(distinct) else np.zeros((1, vectors.shape[1]), np.float32)), 0.0
    most = count * max(rate, 1)
    if len(vectors) > most:
        chosen = np.random.default_rng(SEED).choice(len(vectors), most, replace=False)
        vectors = vectors[np.sort(chosen)]
    work = len(vectors) * count * vectors.shape[1]
    starts = _STARTS if work <= _LITTLE_WORK else 1
    tried = (
        _settle(
            vectors,
            _spread_out(vectors, count, SEED + start) if spread else None,
            count,
            iterations,
            spherical,
            SEED + start,
        )
        for start in range(starts)
    )
    return min(tried, key=lambda found: found[1])


def _spread_out(vectors: Vectors, count: int, seed: int) -> npt.NDArray[np.float32]:
    """Return initial vectors by greedy k-means++: the next is a random one far from all before.

    In clustered data, random vectors miss some clusters, and later rounds do not move centroids between
    clusters.
    """
    rng = np.random.default_rng(seed)
    most = max(_SPREAD_LEAST * count, min(_SPREAD_ROWS * count, _SPREAD_MOST))
    if len(vectors) > most:
        vectors = vectors[np.sort(rng.choice(len(vectors), most, replace=False))]
    squares = np.einsum("ij,ij->i", vectors, vectors)
    # One product of all is done in less than many of a few rows each, for which threads are called together.
    products = vectors @ vectors.T if len(vectors) <= _MULTIPLIED_AT_ONCE else None

    def distances(chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        found = vectors[chosen] @ vectors.T if products is None else products[chosen]
        apart = squares - 2 * found + squares[chosen, None]
        return np.asarray(np.maximum(apart, 0), np.float32)

    places = [int(rng.integers(len(vectors)))]
    nearest = distances(np.array(places))[0]
    while len(places) < count:
        far = np.cumsum(nearest, dtype=np.float64)
        chosen = np.searchsorted(far, rng.random(_CANDIDATES) * far[-1])
        chosen = np.minimum(chosen, len(vectors) - 1)
        found = np.minimum(nearest, distances(chosen))
        best = int(found.sum(axis=1, dtype=np.float64).argmin())
        places.append(int(chosen[best]))
        nearest = found[best]
    return np.ascontiguousarray(vectors[places], np.float32)


def _settle(
    vectors: Vectors,
    centroids: npt.NDArray[np.float32] | None,
    count: int,
    iterations: int,
    spherical: bool,
    seed: int,
) -> tuple[npt.NDArray[np.float32], float]:
    """Centroids and the loss, from first ones, or from any vectors."""
    faiss = load_faiss(len(vectors) * count * vectors.shape[1] * iterations)
    losses: list[float] = []
    while len(losses) < iterations:
        means = faiss.Kmeans(
            vectors.shape[1],
            count,
            niter=min(_ROUNDS, iterations - len(losses)),
            seed=seed,
            spherical=spherical,
            min_points_per_centroid=1,
            max_points_per_centroid=len(vectors),
        )
        means.train(vectors, init_centroids=centroids)
        centroids = np.asarray(means.centroids, np.float32)
        found = [float(loss) for loss in means.obj]
        losses += found
        # It stops when nothing changes any more, and then reports fewer rounds.
        if len(found) < _ROUNDS or abs(found[-2] - found[-1]) <= _SETTLED * abs(found[-2]):
            break
    assert centroids is not None
    return centroids, losses[-1]


def _binary_centroids(
    sample: Vectors, count: int, parameters: Parameters
) -> tuple[npt.NDArray[np.uint8], float]:
    """Centroids of bits: what most of the vectors around them have."""
    bits = np.unpackbits(sample, axis=1).astype(np.float32)
    means, loss = _k_means(
        bits,
        count,
        int(parameters["max_iters"]),
        int(parameters["sample_rate"]),
        spherical=False,
        spread=True,
    )
    return np.unique(np.packbits(means >= 0.5, axis=1), axis=0), loss
