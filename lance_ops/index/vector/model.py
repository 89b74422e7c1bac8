"""Model: the trained part of a vector index, shared by mergeable segments."""

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.index.vector.metric import Distances, Vectors, flat_distances, metric_number, normalized
from lance_ops.index.vector.quantizer.base import Codes, Quantizer
from lance_ops.index.vector.quantizer.flat import FlatQuantizer
from lance_ops.index.vector.quantizer.pq import ProductQuantizer
from lance_ops.index.vector.quantizer.rq import RabitQuantizer, layout
from lance_ops.index.vector.quantizer.sq import ScalarQuantizer
from lance_ops.pb import index_pb2

HINT = "lance."
_TRAINING_HINT = "lance_ops.training"


@dataclass(frozen=True, slots=True)
class GraphParameters:
    """Build parameters of HNSW graphs.

    Attributes:
        m: Neighbours of a node; twice as many at the lowest level.
        ef_construction: Candidates during construction.
        max_level: Maximum number of levels.
    """

    m: int = 20
    ef_construction: int = 150
    max_level: int = 7


@dataclass(frozen=True, slots=True)
class Training:
    """Training statistics in the details of an index entry.

    Attributes:
        rows: Live rows that the index had then.
        distance: Mean distance of vectors from their centroids, see `fit`.
        imbalance: Of the partitions, see `fit.imbalance_of`.
    """

    rows: int
    distance: float
    imbalance: float

    @classmethod
    def read(cls, message: index_pb2.VectorIndexDetails | None) -> "Training | None":
        """Read them from the details of an entry; None without valid ones."""
        text = "" if message is None else message.runtime_hints.get(_TRAINING_HINT, "")
        try:
            rows, distance, imbalance = json.loads(text)
            found = cls(int(rows), float(distance), float(imbalance))
        except (TypeError, ValueError, OverflowError):
            return None
        sound = found.rows >= 0 and 0 <= found.distance < math.inf and 1 <= found.imbalance < math.inf
        return found if sound else None

    def to_json(self) -> str:
        """Convert to JSON for the details of an entry."""
        return json.dumps([self.rows, self.distance, self.imbalance])


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Centroids and quantizer of an index.

    Attributes:
        metric: That distances are in.
        centroids: Shape (partitions, dimension), of the type of the column; of cosine those of vectors of
            length one.
        quantizer: How vectors are stored.
        graph: True if partitions have graphs, and how they are made.
        loss: Of the training.
        training: What is remembered of it; None for models of other writers.
    """

    metric: str
    centroids: npt.NDArray[Any]
    quantizer: Quantizer
    graph: GraphParameters | None = None
    loss: float | None = None
    training: Training | None = None

    @property
    def index_type(self) -> str:
        """Name of the index type in pylance, such as "IVF_HNSW_SQ"."""
        return f"IVF_{'HNSW_' if self.graph else ''}{self.quantizer.name}"

    def prepare(self, vectors: Vectors) -> Vectors:
        """Return vectors (or queries) for comparison: float32, of length one for cosine; bytes unchanged."""
        if self.metric == "hamming":
            return vectors
        prepared = vectors.astype(np.float32, copy=False)
        return normalized(prepared) if self.metric == "cosine" else prepared

    def assign(self, vectors: Vectors) -> npt.NDArray[np.int64]:
        """Return the partition of each of some prepared vectors."""
        if self.metric == "hamming":
            nearest = np.full(len(vectors), np.inf, np.float32)
            found = np.zeros(len(vectors), np.int64)
            for number, centroid in enumerate(self.centroids):
                far = flat_distances("hamming", centroid, vectors)
                found[far < nearest] = number
                nearest = np.minimum(nearest, far)
            return found
        centroids = self.centroids.astype(np.float32, copy=False)
        weights = np.zeros(len(centroids), np.float32)
        if self.metric != "dot":
            weights = np.einsum("ij,ij->i", centroids, centroids) / 2
        found = np.empty(len(vectors), np.int64)
        step = max(1, (1 << 24) // len(centroids))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(vectors), step):
                block = vectors[start : start + step]
                found[start : start + len(block)] = (block @ centroids.T - weights).argmax(axis=1)
        return found

    def encode(self, vectors: Vectors, partitions: npt.NDArray[np.int64]) -> pa.Table:
        """Return the columns of some prepared vectors."""
        return self.quantizer.encode(vectors, self.centroids, partitions)

    def decode(self, rows: pa.Table, partition: int) -> Vectors:
        """Decode the prepared vectors of some rows of a partition."""
        vectors = self.quantizer.decode(rows)
        if self.quantizer.of_residuals:
            vectors = vectors + self.centroids[partition].astype(np.float32)
        return vectors

    def centroid_distances(self, query: npt.NDArray[Any]) -> Distances:
        """Return the distances of the centroids from a prepared query; for cosine, squared."""
        metric = "l2" if self.metric == "cosine" else self.metric
        return flat_distances(metric, query, self.centroids)

    def distances(
        self, query: npt.NDArray[Any], parts: Sequence[Codes], partitions: Sequence[int]
    ) -> npt.NDArray[np.float32]:
        """Return distances of the rows of some partitions, in sequence, from a prepared query.

        Args:
            query: Shape (dimension,).
            parts: Of each partition, see `Quantizer.codes`.
            partitions: Which they are.
        """
        # Damaged files hold any numbers; a distance that overflows is a great one.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.quantizer.distances(query, parts, self.centroids[list(partitions)])

    def equals(self, other: "Model") -> bool:
        """Return whether rows of both can be in one segment."""
        return (
            (self.metric, self.index_type) == (other.metric, other.index_type)
            and self.centroids.dtype == other.centroids.dtype
            and np.array_equal(self.centroids, other.centroids)
            and self.quantizer.equals(other.quantizer)
        )

    def details(self, hints: Mapping[str, str], target_partition_size: int = 0) -> bytes:
        """Return the message of an index entry."""
        message = index_pb2.VectorIndexDetails(
            metric_type=metric_number(self.metric),
            target_partition_size=target_partition_size,
            runtime_hints={HINT + name: value for name, value in hints.items()},
        )
        if self.graph:
            message.hnsw_index_config.CopyFrom(
                index_pb2.HnswParameters(
                    max_connections=self.graph.m,
                    construction_ef=self.graph.ef_construction,
                    max_level=self.graph.max_level,
                )
            )
        if self.training is not None:
            message.runtime_hints[_TRAINING_HINT] = self.training.to_json()
        self.quantizer.describe(message)
        return message.SerializeToString(deterministic=True)

    def to_bytes(self) -> bytes:
        """Serialise for tasks on other machines."""
        graph = self.graph and [self.graph.m, self.graph.ef_construction, self.graph.max_level]
        about = {
            "metric": self.metric,
            "loss": self.loss,
            "graph": graph,
            "quantizer": self.quantizer.name,
            "info": dict(self.quantizer.info),
            "training": self.training and astuple(self.training),
        }
        arrays = {"about": np.frombuffer(json.dumps(about).encode(), np.uint8), "centroids": self.centroids}
        if self.quantizer.codebook is not None:
            arrays["codebook"] = self.quantizer.codebook
        output = io.BytesIO()
        np.savez(output, **arrays)  # type: ignore[arg-type]
        return output.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Model":
        """Undo `to_bytes`."""
        with np.load(io.BytesIO(data)) as arrays:
            about = json.loads(arrays["about"].tobytes())
            centroids = arrays["centroids"]
            book = arrays.get("codebook")
        quantizer = read_quantizer(
            about["quantizer"],
            about["metric"],
            about["info"],
            lambda: book,
            columns=None,
            value_type=pa.from_numpy_dtype(centroids.dtype),
            path="the model",
        )
        graph = GraphParameters(*about["graph"]) if about["graph"] else None
        training = Training(*about["training"]) if about["training"] else None
        return cls(about["metric"], centroids, quantizer, graph, about["loss"], training)


def read_quantizer(
    name: str,
    metric: str,
    info: Mapping[str, Any],
    codebook: Callable[[], npt.NDArray[Any] | None],
    *,
    columns: pa.Schema | None,
    value_type: pa.DataType,
    path: str,
) -> Quantizer:
    """Return the quantizer that a storage describes.

    Args:
        name: As the type of the index ends.
        metric: That distances are in.
        info: What the storage says of itself.
        codebook: Reads its codebook.
        columns: Of the storage, for a quantizer that has more of them or fewer; None for those we write.
        value_type: Of the vectors.
        path: The file.

    Raises:
        CorruptFileError: it describes none, or one that is not known.
    """
    try:
        if name == "FLAT":
            return FlatQuantizer(int(info["dim"]), metric, value_type)
        if name == "SQ":
            return ScalarQuantizer.read(metric, info, path)
        if name == "RQ":
            return RabitQuantizer.read(metric, info, layout(info) if columns is None else columns, path)
        book = codebook()
        if name == "PQ" and book is not None:
            return ProductQuantizer.read(metric, info, book, path)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{dict(info)} is not a valid quantizer: {error!r}", path=path, field="storage_metadata"
        ) from error
    raise CorruptFileError(f"quantizer {name!r} is not known", path=path, field="storage_metadata")
