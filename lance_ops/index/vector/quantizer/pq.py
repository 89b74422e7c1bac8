"""PQ: parts of a vector as the numbers of their nearest words in a codebook."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index.code_distances import fill_tables, sum_words
from lance_ops.errors import CorruptFileError
from lance_ops.index.vector.metric import Distances, Vectors
from lance_ops.index.vector.quantizer.base import Codes, Quantizer, lists_of, matrix_of, residuals, stops_of
from lance_ops.pb import index_pb2
from lance_ops.storage.fork_safe import cached_property

CODE_COLUMN = "__pq_code"
_BLOCK_ROWS = 1 << 14


class ProductQuantizer(Quantizer):
    """Words for the parts of residuals (l2, cosine) or of vectors (dot).

    For cosine the distance is the squared one of vectors of length one, which is twice the cosine distance.

    Args:
        metric: That distances are in.
        codebook: Shape (parts, words, dimension of a part), 16 or 256 words.
        transposed: True if the files of the index hold all numbers of the first part, then those of the next.
    """

    name = "PQ"

    def __init__(self, metric: str, codebook: npt.NDArray[Any], *, transposed: bool = True) -> None:
        parts, words, width = codebook.shape
        super().__init__(parts * width, metric)
        self._parts = parts
        self._bits = words.bit_length() - 1
        self._codebook = codebook
        self._transposed = transposed
        self._list_type = pa.list_(pa.uint8(), parts * self._bits // 8)

    @property
    def columns(self) -> pa.Schema:
        """See `Quantizer.columns`."""
        return pa.schema([pa.field(CODE_COLUMN, self._list_type)])

    @property
    def info(self) -> Mapping[str, Any]:
        """See `Quantizer.info`."""
        return {
            "nbits": self._bits,
            "num_sub_vectors": self._parts,
            "dimension": self.dimension,
            "codebook_tensor": [],
            "transposed": self._transposed,
        }

    @property
    def codebook(self) -> npt.NDArray[Any]:
        """See `Quantizer.codebook`: words part by part, in rows as long as a vector."""
        return self._codebook.reshape(-1, self.dimension)

    @property
    def order(self) -> Mapping[str, Any]:
        """See `Quantizer.order`."""
        return {"transposed": self._transposed}

    @property
    def of_residuals(self) -> bool:
        """See `Quantizer.of_residuals`."""
        return self.metric != "dot"

    @classmethod
    def read(
        cls, metric: str, info: Mapping[str, Any], codebook: npt.NDArray[Any], path: str
    ) -> "ProductQuantizer":
        """Return the quantizer of a storage.

        Raises:
            CorruptFileError: it does not say what it should, or has another codebook.
        """
        bits, parts, dimension = int(info["nbits"]), int(info["num_sub_vectors"]), int(info["dimension"])
        known = (
            bits in (4, 8) and parts > 0 and dimension > 0 and not dimension % parts and not parts * bits % 8
        )
        if not known or codebook.size != dimension << bits or not np.isfinite(codebook).all():
            raise CorruptFileError(
                f"a codebook of shape {codebook.shape} for {parts} x {bits} bits of {dimension} dimensions",
                path=path,
                field="storage_metadata",
            )
        shaped = codebook.reshape(parts, 1 << bits, dimension // parts)
        return cls(metric, shaped, transposed=bool(info.get("transposed", False)))

    def describe(self, details: index_pb2.VectorIndexDetails) -> None:
        """See `Quantizer.describe`."""
        details.pq.num_bits = self._bits
        details.pq.num_sub_vectors = self._parts

    def encode(
        self, vectors: Vectors, centroids: npt.NDArray[Any], partitions: npt.NDArray[np.int64]
    ) -> pa.Table:
        """See `Quantizer.encode`."""
        if self.of_residuals:
            vectors = residuals(vectors, centroids, partitions)
        words = self._codebook.astype(np.float32)
        squares = np.einsum("pwd,pwd->pw", words, words)
        numbers = np.empty((len(vectors), self._parts), np.uint8)
        # A damaged codebook holds any numbers; what overflows is far away.
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(vectors), _BLOCK_ROWS):
                block = vectors[start : start + _BLOCK_ROWS].astype(np.float32)
                split = block.reshape(len(block), self._parts, -1)
                for part in range(self._parts):
                    far = squares[part] - 2 * (split[:, part] @ words[part].T)
                    numbers[start : start + len(block), part] = far.argmin(axis=1)
        return self._table(numbers)

    def decode(self, rows: pa.Table) -> Vectors:
        """See `Quantizer.decode`."""
        numbers = self._numbers(rows)
        words = self._codebook.astype(np.float32)
        return words[np.arange(self._parts), numbers].reshape(len(numbers), self.dimension)

    def codes(self, rows: pa.Table) -> Codes:
        """See `Quantizer.codes`: the number of the word of each part."""
        codes = matrix_of(rows[CODE_COLUMN])
        if self._transposed:
            codes = codes.reshape(codes.shape[::-1]).T
        return (np.ascontiguousarray(self._words_of(codes)),)

    def distances(
        self, query: npt.NDArray[Any], parts: Sequence[Codes], centroids: npt.NDArray[Any]
    ) -> Distances:
        """Compute distances by table lookups of codes."""
        stops = stops_of(parts)
        found = np.full(stops[-1], 1 if self.metric == "dot" else 0, np.float32)
        tables = self._tables(query, centroids)
        for number, (codes,) in enumerate(parts):
            table = tables[number if self.of_residuals else 0]
            sum_words(codes=codes, table=table, sums=found[stops[number] : stops[number + 1]])
        return found

    def _tables(self, query: npt.NDArray[Any], centroids: npt.NDArray[Any]) -> Distances:
        """Return the distance contribution of each code: shape (partitions or 1, parts, words)."""
        wanted = query.astype(np.float32)[None]
        if self.of_residuals:
            wanted = wanted - centroids.astype(np.float32)
        words = self._words_by_value
        vectors = np.ascontiguousarray(wanted.reshape(len(wanted), self._parts, -1))
        tables = np.empty((len(wanted), self._parts, words.shape[2]), np.float32)
        fill_tables(words=words, vectors=vectors, squared=self.metric != "dot", tables=tables)
        return -tables if self.metric == "dot" else tables

    @cached_property
    def _words_by_value(self) -> npt.NDArray[np.float32]:
        """The codebook, shape (parts, dimension of a part, words)."""
        return np.ascontiguousarray(self._codebook.swapaxes(1, 2), np.float32)

    def pack(self, rows: pa.Table) -> pa.Table:
        """See `Quantizer.pack`."""
        if not self._transposed:
            return rows
        codes = matrix_of(rows[CODE_COLUMN])
        return self._as_table(np.ascontiguousarray(codes.T).reshape(codes.shape))

    def unpack(self, rows: pa.Table) -> pa.Table:
        """See `Quantizer.unpack`."""
        if not self._transposed:
            return rows
        codes = matrix_of(rows[CODE_COLUMN])
        return self._as_table(codes.reshape(codes.shape[::-1]).T)

    def _numbers(self, rows: pa.Table) -> npt.NDArray[np.uint8]:
        """Return shape (rows, parts): the word of each part."""
        return self._words_of(matrix_of(rows[CODE_COLUMN]))

    def _words_of(self, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        if self._bits == 8:
            return codes
        return np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), self._parts)

    def _table(self, numbers: npt.NDArray[np.uint8]) -> pa.Table:
        if self._bits == 4:
            numbers = numbers[:, ::2] | (numbers[:, 1::2] * np.uint8(16))
        return self._as_table(numbers)

    def _as_table(self, codes: npt.NDArray[np.uint8]) -> pa.Table:
        return pa.table([lists_of(codes, self._list_type)], schema=self.columns)
