"""Quantizer: how vectors are stored in a partition, and how far a query is from what is stored.

The rows of a partition are a table of the quantizer's columns. In files it may have another order than that
of the rows (`pack`, `unpack`); everything else works on one row after the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.index.vector.metric import Distances, Vectors
from lance_ops.pb import index_pb2

Codes = tuple[npt.NDArray[Any], ...]
"""Of the rows of a partition, each array with an entry a row; what they are is up to the quantizer."""


class Quantizer(ABC):
    """What every quantizer can do.

    Attributes:
        dimension: Of the vectors.
        metric: That distances are in.
    """

    name: ClassVar[str]
    """As the type of an index ends: `IVF_{name}`, `IVF_HNSW_{name}`."""

    def __init__(self, dimension: int, metric: str) -> None:
        self.dimension = dimension
        self.metric = metric

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """Columns of the storage, without the one of the rows' names."""

    @property
    def searched(self) -> Sequence[str]:
        """The columns that `codes` needs."""
        return list(self.columns.names)

    @property
    @abstractmethod
    def info(self) -> Mapping[str, Any]:
        """What the storage says of itself, as JSON values, without the position of a codebook."""

    @property
    def order(self) -> Mapping[str, Any]:
        """The part of `info` that says in which order codes lie in a file: no part of what they mean."""
        return {}

    @property
    def codebook(self) -> npt.NDArray[Any] | None:
        """What `info` is too small for; written as a tensor."""
        return None

    @property
    def of_residuals(self) -> bool:
        """Whether what is quantised are the differences from the centroids, and not the vectors."""
        return False

    @property
    def can_encode(self) -> bool:
        """Whether new rows can lie beside those that are stored."""
        return True

    @abstractmethod
    def describe(self, details: index_pb2.VectorIndexDetails) -> None:
        """Say in the details of an index how its vectors are stored."""

    @abstractmethod
    def encode(
        self, vectors: Vectors, centroids: npt.NDArray[Any], partitions: npt.NDArray[np.int64]
    ) -> pa.Table:
        """The columns of some vectors.

        Args:
            vectors: Shape (rows, dimension); of length one for cosine.
            centroids: Of the index, shape (partitions, dimension).
            partitions: That of each vector.
        """

    @abstractmethod
    def decode(self, rows: pa.Table) -> Vectors:
        """The vectors (or residuals) of some rows, as near as they are known, float32 (uint8 for hamming)."""

    @abstractmethod
    def codes(self, rows: pa.Table) -> Codes:
        """What distances are made from, of the rows of a partition as they lie in a file.

        Args:
            rows: The `searched` columns.
        """

    @abstractmethod
    def distances(
        self, query: npt.NDArray[Any], parts: Sequence[Codes], centroids: npt.NDArray[Any]
    ) -> Distances:
        """Distances of the rows of partitions, one behind the other: the peer's approximations.

        Args:
            query: Shape (dimension,).
            parts: Of each partition, see `codes`.
            centroids: That each is around, shape (partitions, dimension).
        """

    def comparable_bytes(self, rows: pa.Table) -> npt.NDArray[np.uint8] | None:
        """Vectors of bytes, shape (rows, dimension), with the distances of the rows on a scale of their own.

        None where there are none, as a rule.
        """
        del rows
        return None

    def pack(self, rows: pa.Table) -> pa.Table:
        """All rows of a partition, as they lie in a file."""
        return rows

    def unpack(self, rows: pa.Table) -> pa.Table:
        """Undo `pack`."""
        return rows

    def equals(self, other: "Quantizer") -> bool:
        """Whether rows of both mean the same, so that they can lie in one index."""
        mine, others = self.codebook, other.codebook
        return (
            (self.name, self.metric, self.dimension) == (other.name, other.metric, other.dimension)
            and self.columns.equals(other.columns)
            and {**self.info, **other.order} == dict(other.info)
            and (others is None if mine is None else others is not None and np.array_equal(mine, others))
        )


def residuals(
    vectors: Vectors, centroids: npt.NDArray[Any], partitions: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """How vectors differ from the centroids of their partitions, see `Quantizer.encode`."""
    return np.asarray(vectors - centroids[partitions].astype(np.float32), np.float32)


def matrix_of(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """A column of lists of one length, none null, as an array of shape (rows, length)."""
    # What is in one piece is looked at where it lies.
    lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks)
    width = lists.type.list_size
    values = (
        lists.flatten() if lists.null_count else lists.values.slice(lists.offset * width, len(lists) * width)
    )
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(lists), width)


def stops_of(parts: Sequence[Codes]) -> list[int]:
    """Where the rows of some partitions end, one behind the other; 0 before them."""
    return list(accumulate((len(part[0]) for part in parts), initial=0))


def lists_of(values: npt.NDArray[Any], list_type: pa.FixedSizeListType) -> pa.Array:
    """The column of an array of shape (rows, length)."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), list_type.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, type=list_type)
