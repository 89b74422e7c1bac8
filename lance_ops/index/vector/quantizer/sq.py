"""SQ: every value as one byte, a step in the range of all values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index.code_distances import squared_differences
from lance_ops.errors import CorruptFileError
from lance_ops.index.vector.metric import Distances, Vectors
from lance_ops.index.vector.quantizer.base import Codes, Quantizer, lists_of, matrix_of, stops_of
from lance_ops.pb import index_pb2

_STEPS = 255
_BLOCK = 1 << 15
"""Maximum values quantized at once."""


class ScalarQuantizer(Quantizer):
    """Scalar quantizer: l2 and cosine compare steps, dot compares the query with decoded values.

    For cosine the distance is the squared one of vectors of length one, which is twice the cosine distance.

    Args:
        dimension: Of the vectors.
        metric: Metric of distances.
        start: Least value.
        end: Greatest value.
    """

    name = "SQ"

    def __init__(self, dimension: int, metric: str, start: float, end: float) -> None:
        super().__init__(dimension, metric)
        self._start, self._end = start, end
        self._list_type = pa.list_(pa.uint8(), dimension)

    @property
    def columns(self) -> pa.Schema:
        """See `Quantizer.columns`."""
        return pa.schema([pa.field("__sq_code", self._list_type)])

    @property
    def info(self) -> Mapping[str, Any]:
        """See `Quantizer.info`."""
        bounds = {"start": self._start, "end": self._end}
        return {"dim": self.dimension, "num_bits": 8, "bounds": bounds}

    @classmethod
    def read(cls, metric: str, info: Mapping[str, Any], path: str) -> "ScalarQuantizer":
        """Return the quantizer of a storage.

        Raises:
            CorruptFileError: it does not say what it should.
        """
        start, end = float(info["bounds"]["start"]), float(info["bounds"]["end"])
        if info["num_bits"] != 8 or not np.isfinite([start, end]).all() or start > end:
            raise CorruptFileError(
                f"{info} is not a valid scalar quantizer", path=path, field="storage_metadata"
            )
        return cls(int(info["dim"]), metric, start, end)

    def describe(self, details: index_pb2.VectorIndexDetails) -> None:
        """See `Quantizer.describe`."""
        details.sq.num_bits = 8

    def encode(
        self, vectors: Vectors, centroids: npt.NDArray[Any], partitions: npt.NDArray[np.int64]
    ) -> pa.Table:
        """See `Quantizer.encode`."""
        del centroids, partitions
        return pa.table([lists_of(self._steps(vectors), self._list_type)], schema=self.columns)

    def decode(self, rows: pa.Table) -> Vectors:
        """See `Quantizer.decode`."""
        return self._values(matrix_of(rows["__sq_code"]))

    def codes(self, rows: pa.Table) -> Codes:
        """See `Quantizer.codes`: the steps."""
        return (np.ascontiguousarray(matrix_of(rows["__sq_code"])),)

    def distances(
        self, query: npt.NDArray[Any], parts: Sequence[Codes], centroids: npt.NDArray[Any]
    ) -> Distances:
        """See `Quantizer.distances`."""
        del centroids
        stops = stops_of(parts)
        if self.metric == "dot":
            products = [self._values(codes) @ query.astype(np.float32) for (codes,) in parts]
            return np.asarray(1 - np.concatenate([np.zeros(0, np.float32), *products]), np.float32)
        wanted = self._steps(query)
        steps = np.empty(stops[-1], np.int64)
        for (codes,), start, stop in zip(parts, stops[:-1], stops[1:], strict=True):
            squared_differences(codes=codes, query=wanted, sums=steps[start:stop])
        return np.asarray(steps * self._width**2, np.float32)

    def comparable_bytes(self, rows: pa.Table) -> npt.NDArray[np.uint8] | None:
        """Return None for dot: products do not depend on steps alone."""
        return None if self.metric == "dot" else matrix_of(rows["__sq_code"])

    @property
    def _width(self) -> float:
        return (self._end - self._start) / _STEPS

    def _values(self, steps: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Decode steps."""
        return steps.astype(np.float32) * np.float32(self._width) + np.float32(self._start)

    def _steps(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Steps below the values: pylance cuts off what is between, on both sides."""
        if self._end == self._start:
            return np.zeros(values.shape, np.uint8)
        flat = values.reshape(-1)
        steps = np.empty(flat.shape, np.uint8)
        # Chunks fit into the CPU cache, which is not reloaded for each operation.
        room = np.empty(min(len(flat), _BLOCK), np.float64)
        for first in range(0, len(flat), _BLOCK):
            block = flat[first : first + _BLOCK]
            scaled = room[: len(block)]
            np.subtract(block, self._start, out=scaled, dtype=np.float64)
            scaled *= _STEPS
            scaled /= self._end - self._start
            np.clip(scaled, 0, _STEPS, out=scaled)
            steps[first : first + len(block)] = scaled
        return steps.reshape(values.shape)
