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
"""Codes of the rows of a partition, one array entry a row; the meaning depends on the quantizer."""


class Quantizer(ABC):
    """Interface of quantizers.

    Attributes:
        dimension: Of the vectors.
        metric: Metric of distances.
    """

    name: ClassVar[str]
    """Suffix of the index type: `IVF_{name}`, `IVF_HNSW_{name}`."""

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
        """Return the storage metadata as JSON values, without the position of a codebook."""

    @property
    def order(self) -> Mapping[str, Any]:
        """Part of `info` with the order of codes in a file, which does not affect their meaning."""
        return {}

    @property
    def codebook(self) -> npt.NDArray[Any] | None:
        """Codebook, which is too large for `info`; written as a tensor."""
        return None

    @property
    def of_residuals(self) -> bool:
        """Return whether what is quantised are the differences from the centroids, and not the vectors."""
        return False

    @property
    def can_encode(self) -> bool:
        """Return whether new rows can be added to those that are stored."""
        return True

    @abstractmethod
    def describe(self, details: index_pb2.VectorIndexDetails) -> None:
        """Set the quantizer in the details of an index."""

    @abstractmethod
    def encode(
        self, vectors: Vectors, centroids: npt.NDArray[Any], partitions: npt.NDArray[np.int64]
    ) -> pa.Table:
        """Return the columns of some vectors.

        Args:
            vectors: Shape (rows, dimension); of length one for cosine.
            centroids: Of the index, shape (partitions, dimension).
            partitions: That of each vector.
        """

    @abstractmethod
    def decode(self, rows: pa.Table) -> Vectors:
        """Decode vectors (or residuals) of some rows approximately, float32 (uint8 for hamming)."""

    @abstractmethod
    def codes(self, rows: pa.Table) -> Codes:
        """Return the codes of the rows of a partition, for distances.

        Args:
            rows: The `searched` columns.
        """

    @abstractmethod
    def distances(
        self, query: npt.NDArray[Any], parts: Sequence[Codes], centroids: npt.NDArray[Any]
    ) -> Distances:
        """Return distances of the rows of partitions, in sequence: pylance's approximations.

        Args:
            query: Shape (dimension,).
            parts: Of each partition, see `codes`.
            centroids: That each is around, shape (partitions, dimension).
        """

    def comparable_bytes(self, rows: pa.Table) -> npt.NDArray[np.uint8] | None:
        """Return byte vectors, shape (rows, dimension), with distances proportional to those of the rows.

        None without such vectors, the usual case.
        """
        del rows
        return None

    def pack(self, rows: pa.Table) -> pa.Table:
        """Convert all rows of a partition to the form in a file."""
        return rows

    def unpack(self, rows: pa.Table) -> pa.Table:
        """Undo `pack`."""
        return rows

    def equals(self, other: "Quantizer") -> bool:
        """Return whether codes of both are compatible, so that rows can be in one index."""
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
    """Return the differences of vectors from the centroids of their partitions, see `Quantizer.encode`."""
    return np.asarray(vectors - centroids[partitions].astype(np.float32), np.float32)


def matrix_of(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column of lists of one length, none null, as an array of shape (rows, length)."""
    # Contiguous memory is read without copies.
    lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks)
    width = lists.type.list_size
    values = (
        lists.flatten() if lists.null_count else lists.values.slice(lists.offset * width, len(lists) * width)
    )
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(lists), width)


def stops_of(parts: Sequence[Codes]) -> list[int]:
    """Return the cumulative row counts of some partitions; 0 first."""
    return list(accumulate((len(part[0]) for part in parts), initial=0))


def lists_of(values: npt.NDArray[Any], list_type: pa.FixedSizeListType) -> pa.Array:
    """Return the column of an array of shape (rows, length)."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), list_type.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, type=list_type)
