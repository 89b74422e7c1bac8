"""FLAT: the vectors themselves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype
from lance_ops.encoding.kernels.index.code_distances import squared_distances
from lance_ops.index.vector.metric import Distances, Vectors, flat_distances
from lance_ops.index.vector.quantizer.base import Codes, Quantizer, lists_of, matrix_of, stops_of
from lance_ops.pb import index_pb2


class FlatQuantizer(Quantizer):
    """Quantizer without compression; vectors of cosine have length one.

    Args:
        dimension: Of the vectors.
        metric: Metric of distances.
        value_type: Arrow type of their values.
    """

    name = "FLAT"

    def __init__(self, dimension: int, metric: str, value_type: pa.DataType) -> None:
        super().__init__(dimension, metric)
        self._list_type = pa.list_(value_type, dimension)

    @property
    def columns(self) -> pa.Schema:
        """See `Quantizer.columns`."""
        return pa.schema([pa.field("flat", self._list_type, nullable=False)])

    @property
    def info(self) -> Mapping[str, Any]:
        """See `Quantizer.info`."""
        return {"dim": self.dimension}

    def describe(self, details: index_pb2.VectorIndexDetails) -> None:
        """See `Quantizer.describe`."""
        details.flat.SetInParent()

    def encode(
        self, vectors: Vectors, centroids: npt.NDArray[Any], partitions: npt.NDArray[np.int64]
    ) -> pa.Table:
        """See `Quantizer.encode`."""
        del centroids, partitions
        stored = vectors.astype(number_dtype(self._list_type.value_type), copy=False)
        return pa.table([lists_of(stored, self._list_type)], schema=self.columns)

    def decode(self, rows: pa.Table) -> Vectors:
        """See `Quantizer.decode`."""
        vectors = matrix_of(rows["flat"])
        return vectors if vectors.dtype == np.uint8 else vectors.astype(np.float32, copy=False)

    def codes(self, rows: pa.Table) -> Codes:
        """See `Quantizer.codes`: the vectors."""
        return (np.ascontiguousarray(matrix_of(rows["flat"])),)

    def distances(
        self, query: npt.NDArray[Any], parts: Sequence[Codes], centroids: npt.NDArray[Any]
    ) -> Distances:
        """See `Quantizer.distances`."""
        del centroids
        stops = stops_of(parts)
        found = np.empty(stops[-1], np.float32)
        kind = self._list_type.value_type
        simple = self.metric == "l2" and kind == pa.float32() and query.dtype == np.float32
        for (vectors,), start, stop in zip(parts, stops[:-1], stops[1:], strict=True):
            if simple:
                squared_distances(vectors=vectors, query=query, sums=found[start:stop])
            else:
                found[start:stop] = flat_distances(self.metric, query, vectors)
        return found
