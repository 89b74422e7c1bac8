"""Segment of the first generation: one file, `index.idx`, in which each partition has its codes and names.

Releases of pylance up to 0.19 write IVF_PQ so, and later ones when asked for `index_file_version="Legacy"`.
Layout, from the end of the file backwards: footer (16 bytes: i64 position of the message, u16 major, u16
minor, mark), message `Index` behind its u32 length, then the partitions. A partition has the codes of its
rows, one row after the other, and their names as u64. The message gives the byte where each partition starts,
and its rows.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.schema.model import Schema
from lance_ops.index.vector.quantizer.pq import CODE_COLUMN
from lance_ops.index.vector.tensor import decode_tensor, encode_tensor
from lance_ops.pb import index_pb2
from lance_ops.storage import Store

_FOOTER = struct.Struct("<qHH4s")
_LENGTH = struct.Struct("<I")
_NAME_BYTES = 8
_BATCH_ROWS = 1 << 17
_METRICS = {0: "l2", 1: "cosine", 2: "dot"}


@dataclass(frozen=True, slots=True, eq=False)
class LegacyRows:
    """Rows of all partitions: `_rowid` and codes, in the current form.

    Attributes:
        store: Store of the file.
        path: Of the file.
        schema: Of the rows.
        places: Byte offset of each partition, int64.
        stops: First row of each partition, and the number of all rows, int64 of (partitions + 1,).
        code_bytes: Of a row.
    """

    store: Store
    path: str
    schema: Schema
    places: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    code_bytes: int

    @property
    def num_rows(self) -> int:
        """Rows of all partitions."""
        return int(self.stops[-1])

    def map(self) -> None:
        """See `FileReader.map`: its rows are not in one piece."""

    def read_table(
        self, schema: Schema | None = None, *, start: int = 0, stop: int | None = None
    ) -> pa.Table:
        """See `FileReader.read_table`."""
        stop = self.num_rows if stop is None else stop
        parts = [self._empty()]
        for number, (first, last) in enumerate(pairwise(self.stops.tolist())):
            low, high = max(first, start), min(last, stop)
            if low < high:
                parts.append(self._read(number, low - first, high - first, last - first))
        rows = pa.concat_tables(parts).combine_chunks()
        return rows if schema is None else rows.select([field.name for field in schema.fields])

    def take(self, positions: npt.NDArray[np.int64], schema: Schema | None = None) -> pa.Table:
        """Read rows by number, consecutive ones at once; see `FileReader.take`."""
        runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
        parts = [
            self.read_table(schema, start=int(run[0]), stop=int(run[-1]) + 1) for run in runs if len(run)
        ]
        return pa.concat_tables(parts) if parts else self.read_table(schema, stop=0)

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """See `FileReader.iter_batches`."""
        for start in range(0, self.num_rows, _BATCH_ROWS):
            yield from self.read_table(start=start, stop=min(start + _BATCH_ROWS, self.num_rows)).to_batches()

    def _read(self, number: int, start: int, stop: int, rows: int) -> pa.Table:
        place = int(self.places[number])
        names = place + rows * self.code_bytes
        count = stop - start
        codes, ids = self.store.read_ranges(
            self.path,
            [
                (place + start * self.code_bytes, count * self.code_bytes),
                (names + start * _NAME_BYTES, count * _NAME_BYTES),
            ],
        )
        kind = self.schema.to_arrow()
        flat = pa.Array.from_buffers(pa.uint8(), count * self.code_bytes, [None, codes])
        lists = pa.FixedSizeListArray.from_arrays(flat, type=kind.types[1])
        return pa.table([pa.Array.from_buffers(pa.uint64(), count, [None, ids]), lists], schema=kind)

    def _empty(self) -> pa.Table:
        return self.schema.to_arrow().empty_table()


@dataclass(frozen=True, slots=True, eq=False)
class LegacySegment:
    """Content of a file of the first generation.

    Attributes:
        rows: The rows of its partitions.
        metric: Metric of distances.
        centroids: Shape (partitions, dimension).
        loss: Of the training, if it is known.
        lengths: Rows of each partition.
        info: Metadata of the codes in the current form, including the codebook.
    """

    rows: LegacyRows
    metric: str
    centroids: npt.NDArray[Any]
    loss: float | None
    lengths: npt.NDArray[np.int64]
    info: dict[str, Any]


def read_legacy(store: Store, path: str, row_id: str) -> LegacySegment | None:
    """Open a segment of the first generation; None for other files.

    Args:
        store: Store of the file.
        path: Of the file.
        row_id: Name of the row id column.

    Raises:
        CorruptFileError: The file is inconsistent.
        UnsupportedError: It is not IVF_PQ.
    """
    found = _read_message(store, path)
    if found is None:
        return None
    message, end = found
    index = message.vector_index
    stages = [stage.WhichOneof("stage") for stage in index.stages]
    if stages != ["ivf", "pq"] or index.metric_type not in _METRICS:
        raise UnsupportedError(
            f"an index of the first generation of {', '.join(map(str, stages))} is not supported",
            path=path,
        )
    ivf, pq = index.stages[0].ivf, index.stages[1].pq
    dimension, code_bytes = index.dimension, pq.num_sub_vectors * pq.num_bits // 8
    places, lengths = np.array(ivf.offsets, np.int64), np.array(ivf.lengths, np.int64)
    if len(places) != len(lengths) or (places + lengths * (code_bytes + _NAME_BYTES) > end).any():
        raise CorruptFileError("its partitions are not inside of the file", path=path, field="offsets")
    centroids = _tensor(ivf, "centroids", len(lengths), dimension, path)
    codebook = _tensor(pq, "codebook", -1, dimension, path)
    info = {
        "nbits": pq.num_bits,
        "num_sub_vectors": pq.num_sub_vectors,
        "dimension": pq.dimension or dimension,
        "transposed": False,
        "codebook_tensor": list(codebook.SerializeToString()),
    }
    columns = [pa.field(row_id, pa.uint64()), pa.field(CODE_COLUMN, pa.list_(pa.uint8(), code_bytes))]
    stops = np.concatenate(([0], np.cumsum(lengths)))
    return LegacySegment(
        LegacyRows(store, path, Schema.from_arrow(pa.schema(columns)), places, stops, code_bytes),
        _METRICS[index.metric_type],
        decode_tensor(centroids, path=path, field="centroids"),
        ivf.loss if ivf.HasField("loss") else None,
        lengths,
        info,
    )


def _read_message(store: Store, path: str) -> tuple[index_pb2.Index, int] | None:
    """Return the message of a file and where it starts; None where there is none."""
    tail, size = store.read_tail(path, _FOOTER.size)
    if len(tail) < _FOOTER.size:
        return None
    position, _, _, mark = _FOOTER.unpack(tail.to_pybytes()[-_FOOTER.size :])
    if mark != b"LANC" or not 0 <= position <= size - _FOOTER.size - _LENGTH.size:
        return None
    body = store.read(path, position, size - _FOOTER.size - position).to_pybytes()
    (length,) = _LENGTH.unpack(body[: _LENGTH.size])
    message = index_pb2.Index()
    try:
        message.ParseFromString(body[_LENGTH.size : _LENGTH.size + length])
    except DecodeError:
        return None
    return (message, position) if message.WhichOneof("implementation") == "vector_index" else None


def _tensor(
    stage: index_pb2.IVF | index_pb2.PQ, name: str, rows: int, width: int, path: str
) -> index_pb2.Tensor:
    """Return numbers of a stage: its tensor, or in older files a plain list."""
    if stage.HasField(f"{name}_tensor"):  # type: ignore[arg-type]
        found: index_pb2.Tensor = getattr(stage, f"{name}_tensor")
        return found
    plain: Sequence[float] = getattr(stage, name)
    values = np.array(plain, np.float32)
    if not width or values.size % width or (rows >= 0 and values.size != rows * width):
        raise CorruptFileError(f"{values.size} numbers for {width} dimensions", path=path, field=name)
    return encode_tensor(values.reshape(-1, width))
