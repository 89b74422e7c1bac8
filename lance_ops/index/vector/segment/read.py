"""Segment, read: its model, and the rows of its partitions."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.index.vector.graph.model import read_graph_parameters
from lance_ops.index.vector.ivf import Partitions, read_partitions
from lance_ops.index.vector.metric import METRICS
from lance_ops.index.vector.model import GraphParameters, Model, read_quantizer
from lance_ops.index.vector.segment.legacy import LegacyRows, LegacySegment, read_legacy
from lance_ops.index.vector.tensor import decode_tensor
from lance_ops.pb import index_pb2
from lance_ops.storage import Store
from lance_ops.table.manifest.row_set import Addresses

INDEX_FILE = "index.idx"
STORAGE_FILE = "auxiliary.idx"
ROW_ID = "_rowid"
INDEX_METADATA = "lance:index"
STORAGE_METADATA = "storage_metadata"

MERGED_COLUMN = "__vector_id"
"""A column of the nodes of graphs, which the file of a merged segment has without graphs, too."""

_READ_ROWS = 1 << 18
_WHOLE_BYTES = 4 << 20
"""Maximum bytes of columns of which all rows may be read for a few."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorSegment:
    """An open segment.

    Attributes:
        index: Reader of `index.idx`: centroids, graphs. The same for the first generation, which has one
            file.
        storage: Reader of `auxiliary.idx`: the rows by partition.
        index_type: Name in pylance, such as "IVF_PQ".
        metric: Metric of distances.
        centroids: Of the partitions, shape (partitions, dimension).
        loss: Of the training.
        partitions: Positions of the rows of each partition in the storage.
        info: Metadata of the storage.
        graph: Build parameters of the graphs; None without any.
    """

    index: FileReader | LegacyRows
    storage: FileReader | LegacyRows
    index_type: str
    metric: str
    centroids: npt.NDArray[Any]
    loss: float | None
    partitions: Partitions
    info: dict[str, Any]
    graph: GraphParameters | None

    @classmethod
    def open(cls, store: Store, directory: str) -> "VectorSegment":
        """Open a segment.

        Args:
            store: Store of the base that holds the segment.
            directory: `_indices/{uuid}`.

        Raises:
            CorruptFileError: a file is not what it should be, or the two do not belong together.
        """
        try:
            index = FileReader.open(store, f"{directory}/{INDEX_FILE}")
        except CorruptFileError:
            legacy = read_legacy(store, f"{directory}/{INDEX_FILE}", ROW_ID)
            if legacy is None:
                raise
            return cls._of_legacy(legacy)
        storage = FileReader.open(store, f"{directory}/{STORAGE_FILE}")
        about = _json(index, INDEX_METADATA)
        index_type, metric = str(about.get("type")), str(about.get("distance_type")).lower()
        stored = storage.schema.metadata.get("distance_type")
        if metric not in METRICS or (stored is not None and _text(stored).lower() != metric):
            raise CorruptFileError(f"metric {metric!r}", path=index.path, field=INDEX_METADATA)
        partitions = read_partitions(storage)
        of_index = _centroids(index, storage.num_rows, graphs=index_type.startswith("IVF_HNSW_"))
        if of_index.centroids is None or len(of_index) != len(partitions) or not len(partitions):
            raise CorruptFileError(
                f"{len(of_index):,} partitions, {len(partitions):,} with rows",
                path=index.path,
                field="centroids",
            )
        described = _json(storage, STORAGE_METADATA)
        info = described[0] if isinstance(described, list) and described else None
        try:
            info = json.loads(info) if isinstance(info, str) else info
        except ValueError:
            info = None
        if not isinstance(info, dict):
            raise CorruptFileError("no description", path=storage.path, field=STORAGE_METADATA)
        if not storage.schema.fields or storage.schema.fields[0].name != ROW_ID:
            raise CorruptFileError("its first column is not that of rows", path=storage.path, field="schema")
        graph = read_graph_parameters(index) if index_type.startswith("IVF_HNSW_") else None
        return cls(
            index, storage, index_type, metric, of_index.centroids, of_index.loss, partitions, info, graph
        )

    @classmethod
    def _of_legacy(cls, found: LegacySegment) -> "VectorSegment":
        partitions = Partitions.of_lengths(found.lengths)
        rows = found.rows
        return cls(
            rows, rows, "IVF_PQ", found.metric, found.centroids, found.loss, partitions, found.info, None
        )

    @property
    def quantizer_name(self) -> str:
        """Name of the quantizer: the suffix of the index type."""
        return self.index_type.rsplit("_", 1)[-1]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the storage."""
        return sum(self._widths)

    @property
    def _widths(self) -> list[int]:
        """Bytes of a row in each column."""
        types = self.storage.schema.to_arrow().types
        return [kind.list_size * kind.value_type.bit_width // 8 if _is_list(kind) else 8 for kind in types]

    def model(self) -> Model:
        """Centroids and quantizer.

        Raises:
            CorruptFileError: they do not match each other or the storage, or the quantizer is unknown.
        """
        columns = self.storage.schema.to_arrow()
        value_type = (
            columns.types[1].value_type if len(columns) > 1 and _is_list(columns.types[1]) else pa.null()
        )
        quantizer = read_quantizer(
            self.quantizer_name,
            self.metric,
            self.info,
            self._codebook,
            columns=pa.schema(list(columns)[1:]),
            value_type=value_type,
            path=self.storage.path,
        )
        if [(field.name, field.type) for field in quantizer.columns] != [
            (field.name, field.type) for field in columns
        ][1:]:
            raise CorruptFileError(
                f"its columns are {columns.names[1:]} of {columns.types[1:]}",
                path=self.storage.path,
                field="schema",
            )
        if self.centroids.shape[1] != quantizer.dimension or not np.isfinite(self.centroids).all():
            raise CorruptFileError(
                f"centroids of shape {self.centroids.shape} for {quantizer.dimension} dimensions",
                path=self.index.path,
                field="centroids",
            )
        return Model(self.metric, self.centroids, quantizer, self.graph, self.loss)

    def read_partition(self, number: int) -> pa.Table:
        """Read all rows of a partition as stored: `_rowid`, then the columns of the quantizer."""
        start = int(self.partitions.offsets[number])
        stop = start + int(self.partitions.lengths[number])
        return self._with_vectors(self.storage.read_table(start=start, stop=stop))

    def read_narrow(self, columns: Sequence[str]) -> pa.Table:
        """Return all rows of those of some columns that are read whole; see `read_partitions`.

        Where a read is no request, all of a few bytes a row takes less time than finding out where some are.
        """
        most = _WHOLE_BYTES // max(1, self.storage.num_rows) if self.storage.map() is not None else 0
        widths = zip(self.storage.schema.fields, self._widths, strict=True)
        narrow = tuple(field for field, width in widths if field.name in columns and width <= most)
        return self.storage.read_table(Schema(narrow)) if narrow else pa.table({})

    def read_partitions(
        self, numbers: Sequence[int], columns: Sequence[str], narrow: pa.Table
    ) -> list[pa.Table]:
        """Read several partitions at once, each contiguous.

        Args:
            numbers: Distinct partitions.
            columns: `_rowid`, and columns of the quantizer.
            narrow: Result of `read_narrow` for these columns; the result does not refer to its memory.
        """
        by_place = sorted(numbers, key=lambda number: int(self.partitions.offsets[number]))
        ranges = [
            np.arange(self.partitions.lengths[number], dtype=np.int64) + self.partitions.offsets[number]
            for number in by_place
        ]
        picked = Schema(
            tuple(
                field
                for field in self.storage.schema.fields
                if field.name in columns and field.name not in narrow.column_names
            )
        )
        rows = None
        if picked.fields:
            rows = self.storage.take(np.concatenate([np.zeros(0, np.int64), *ranges]), picked)
        found: dict[int, pa.Table] = {}
        start = 0
        for number, places in zip(by_place, ranges, strict=True):
            part = narrow.slice(int(self.partitions.offsets[number]), len(places))
            parts = {
                # Concatenating copies; a single array would be returned as it is.
                name: pa.chunked_array([pa.concat_arrays([*column.chunks, pa.array([], column.type)])])
                for name, column in zip(part.column_names, part.columns, strict=True)
            }
            if rows is not None:
                part = rows.slice(start, len(places))
                parts.update(zip(part.column_names, part.columns, strict=True))
            one = pa.table({name: parts[name] for name in columns})
            found[number] = self._with_vectors(one.combine_chunks())
            start += len(places)
        return [found[number] for number in numbers]

    def _with_vectors(self, rows: pa.Table) -> pa.Table:
        """Return rows without those of null vectors, which releases of pylance up to 0.25 stored.

        A graph numbers all of them, so that none can be left out under one.
        """
        if self.graph is not None or not any(column.null_count for column in rows.columns):
            return rows
        return rows.drop_null()

    def addresses(self) -> Iterator[Addresses]:
        """Yield names of all rows in the order of the file, a part at a time."""
        for start in range(0, self.storage.num_rows, _READ_ROWS):
            yield self.names(start, min(start + _READ_ROWS, self.storage.num_rows))

    def names(self, start: int, stop: int) -> Addresses:
        """Return names of the rows from one to another (excluded) in the order of the file."""
        names = Schema(self.storage.schema.fields[:1])
        return row_ids(self.storage.read_table(names, start=start, stop=stop), self.storage.path)

    def _codebook(self) -> npt.NDArray[Any] | None:
        position = self.info.get("codebook_position")
        inline = self.info.get("codebook_tensor")
        if inline and isinstance(inline, list):
            # Releases up to 0.25 store it there.
            return self._tensor(bytes(inline))
        assert isinstance(self.storage, FileReader)
        if not isinstance(position, int) or not 0 < position < self.storage.num_global_buffers:
            raise CorruptFileError("no codebook", path=self.storage.path, field="codebook_position")
        return self._tensor(self.storage.global_buffer(position).to_pybytes())

    def _tensor(self, data: bytes) -> npt.NDArray[Any]:
        message = index_pb2.Tensor()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise CorruptFileError(
                "its codebook cannot be read", path=self.storage.path, field="codebook"
            ) from error
        return decode_tensor(message, path=self.storage.path, field="codebook")


def _centroids(index: FileReader, rows: int, *, graphs: bool) -> Partitions:
    """Read the centroids, and the partitions that their file counts: of nodes of graphs, or of nothing.

    A segment that pylance merged of several counts the rows of the storage, where it has no graphs.
    """
    merged = not graphs and index.num_rows == 0 and MERGED_COLUMN in index.schema.to_arrow().names
    return read_partitions(index, rows=rows if merged else None)


def row_ids(rows: pa.Table, path: str) -> Addresses:
    """Return the names of some rows of a storage.

    Raises:
        CorruptFileError: rows without a name.
    """
    column = rows[ROW_ID]
    if column.null_count or column.type != pa.uint64():
        raise CorruptFileError(f"{column.null_count} rows without a name", path=path, field=ROW_ID)
    return np.asarray(column.to_numpy(), np.uint64)


def _json(reader: FileReader, name: str) -> Any:
    try:
        return json.loads(reader.schema.metadata[name])
    except (KeyError, ValueError) as error:
        raise CorruptFileError(f"its {name} cannot be read", path=reader.path, field=name) from error


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def _is_list(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(arrow_type))
