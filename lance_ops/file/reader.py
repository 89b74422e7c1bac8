"""Reader of a data file: projection, row ranges, single rows, and batches in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.column_descriptions import ColumnDescriptions
from lance_ops.file.container.contents import Contents, decode_contents, read_contents
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.container.read import FOOTER_SIZE, MAGIC, Column, decode_version
from lance_ops.file.field_tables import read_fields
from lance_ops.file.io.fetch import fetch_all, run
from lance_ops.file.io.file_ranges import FileRanges
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.io.row_windows import cut_batches, fitting_rows, plan_windows
from lance_ops.file.layout import Layout
from lance_ops.file.schema.blob_fields import has_blob_v2, only_descriptors
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import PreparedSchema, prepare_schema
from lance_ops.file.v2_1.blob.read_v2 import managed_bytes
from lance_ops.file.versions import is_legacy, version_of_footer
from lance_ops.storage import Store

_TAIL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class _Selection:
    """Fields to read, and their columns."""

    prepared: PreparedSchema
    columns: Mapping[int, int]

    @property
    def physical_columns(self) -> list[int]:
        return [self.columns[field_id] for field_id in self.prepared.ids if field_id in self.columns]


class FileReader:
    """An open data file.

    Opening reads the end of the file: the footer, the file's own schema, and the locations of the column
    descriptions. These are read on demand.
    """

    def __init__(
        self,
        ranges: FileRanges,
        path: str,
        size: int,
        layout: Layout,
        contents: Contents,
        heads: PageHeads | None = None,
        base_uris: Mapping[int, str] | None = None,
    ) -> None:
        self._ranges = ranges
        self._path = path
        self._size = size
        self._layout = layout
        self._contents = contents
        self._schema = contents.schema
        self._num_rows = contents.num_rows
        self._columns = ColumnDescriptions(ranges, path, size, layout, contents)
        self._heads = PageHeads() if heads is None else heads
        self._base_uris = base_uris or {}
        self._managed: dict[tuple[int, ...], int] = {}
        self._last: tuple[Schema, Mapping[int, int] | None, _Selection] | None = None

    @classmethod
    def open(
        cls,
        store: Store,
        path: str,
        *,
        size: int | None = None,
        heads: PageHeads | None = None,
        base_uris: Mapping[int, str] | None = None,
        open_base: Callable[[int], Store] | None = None,
    ) -> "FileReader":
        """Open a data file.

        Args:
            store: Store of the file.
            path: Relative to the store.
            size: Of the file in bytes, when it is known; it saves asking.
            heads: Where to keep what its pages need for the next read, if not in a cache of its own.
            base_uris: Of the other bases of the table, by their ids; blobs may be named relative to them.
            open_base: Returns the store of a base by its id, for blobs that are objects there.

        Raises:
            FileMissingError: There is no such file.
            CorruptFileError: The file is truncated or damaged.
            UnsupportedVersionError: The storage version cannot be read.
        """
        if size is None:
            tail, size = store.read_tail(path, _TAIL_BYTES)
        else:
            length = min(size, _TAIL_BYTES)
            tail = store.read(path, size - length, length)
            if bytes(memoryview(tail)[-len(MAGIC) :]) != MAGIC:
                # Some releases of pylance record too few bytes for files of 0.1; otherwise it is damage.
                found, actual = store.read_tail(path, _TAIL_BYTES)
                if is_legacy(*decode_version(found.to_pybytes(), path)):
                    tail, size = found, actual
        view = memoryview(tail)
        end = bytes(view[-FOOTER_SIZE:])
        version = version_of_footer(*decode_version(end, path), path)
        layout = version.layout

        ranges = FileRanges(store, path, size, tail, open_base)
        contents = None
        if version.read_contents is read_contents:
            contents = decode_contents(view, size, path)
        if contents is None:
            contents = run(version.read_contents(end, size, path), ranges.read)
        return cls(ranges, path, size, layout, contents, heads, base_uris)

    @property
    def path(self) -> str:
        """The file, relative to its store."""
        return self._path

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self._size

    @property
    def version(self) -> str:
        """Storage version, such as "2.0"."""
        return self._layout.name

    @property
    def layout(self) -> Layout:
        """Layout of the storage version."""
        return self._layout

    @property
    def whole(self) -> pa.Buffer | None:
        """All bytes of the file if it is small enough to be read when opened, else None."""
        return self._ranges.whole

    @property
    def ranges(self) -> FileRanges:
        """Bytes of the file."""
        return self._ranges

    @property
    def base_uris(self) -> Mapping[int, str]:
        """URIs of the other bases of the table."""
        return self._base_uris

    @property
    def heads(self) -> PageHeads:
        """Cached page heads."""
        return self._heads

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._num_rows

    @property
    def num_columns(self) -> int:
        """Number of physical columns."""
        return len(self._contents.columns)

    @property
    def schema(self) -> Schema:
        """The schema in the file's own descriptor."""
        return self._schema

    @property
    def own_columns(self) -> dict[int, int]:
        """The field id of each physical column by the file's own schema, whose ids may be its own, too."""
        columns = self._layout.assign_columns(self._schema)
        return {column: field_id for field_id, column in columns.items() if column >= 0}

    @property
    def num_global_buffers(self) -> int:
        """Number of global buffers, including the file descriptor."""
        return len(self._contents.global_buffers)

    def global_buffer(self, number: int) -> pa.Buffer:
        """Read a global buffer.

        Args:
            number: Result of `FileWriter.add_global_buffer`; 0 is the file descriptor.

        Raises:
            InvalidArgumentError: There is no such buffer.
        """
        if not 0 <= number < len(self._contents.global_buffers):
            raise InvalidArgumentError(
                f"global buffer {number} does not exist, the file has {len(self._contents.global_buffers)}",
                path=self._path,
            )
        return run(fetch_all([self._contents.global_buffers[number]]), self._ranges.read)[0]

    def column_metadata(self, index: int) -> Column:
        """Return pages and encodings of a physical column.

        Args:
            index: Of the column.

        Raises:
            CorruptFileError: There is no such column, or its metadata are damaged.
        """
        return self._columns.metadata(index)

    def load_columns(self, indices: Iterable[int]) -> None:
        """Read the descriptions of physical columns, in one request."""
        self._columns.load(indices)

    def description(self, index: int) -> bytes | None:
        """Return the metadata message of a physical column that is not parsed yet; None for any other."""
        return self._columns.unparsed(index)

    def column(self, index: int) -> object:
        """Return a parsed physical column; see `Layout.parse_column`."""
        return self._columns.column(index)

    def parse_column(self, index: int) -> Any:
        """Return a parsed column like `column`, without caching it."""
        return self._columns.parse(index)

    def page_bounds(self, field_ids: Sequence[int]) -> dict[int, PageBounds]:
        """Return value bounds of some fields, page by page.

        Args:
            field_ids: The fields.

        Returns:
            Bounds by field id; most storage versions have none.

        Raises:
            CorruptFileError: The statistics are damaged.
        """
        if self._contents.read_bounds is None:
            return {}
        return run(self._contents.read_bounds(field_ids), self._ranges.read)

    def read_table(
        self,
        schema: Schema | None = None,
        column_indices: Mapping[int, int] | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
    ) -> pa.Table:
        """Read rows of some or all fields.

        Args:
            schema: The fields to read; those of the file when None. Fields without a column in this file are
                null.
            column_indices: Physical column of each field id, from the table's metadata; from the file's own
                schema when None.
            start: First row.
            stop: End of the rows; all when None.

        Returns:
            The rows; values of fixed width are not copied where the store maps the file into memory.

        Raises:
            CorruptFileError: The file is damaged.
            UnsupportedError: A column uses an encoding that is not implemented.
            InvalidArgumentError: The rows are out of range.
        """
        selection = self._select(schema, column_indices)
        first, last = self._check_rows(start, stop)
        return self._read(selection, RowSelection(first, last))

    def iter_batches(
        self,
        schema: Schema | None = None,
        column_indices: Mapping[int, int] | None = None,
        *,
        batch_rows: int = 65536,
        start: int = 0,
        stop: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows in batches; memory is bounded by a window of 32 MB or one page, whichever is more.

        Args:
            schema: See `read_table`.
            column_indices: See `read_table`.
            batch_rows: Maximum rows of a batch; fewer for wide rows.
            start: First row.
            stop: End of the rows; all when None.
        """
        if batch_rows < 1:
            raise InvalidArgumentError(f"batch_rows must be at least 1, got {batch_rows}")
        selection = self._select(schema, column_indices)
        first, last = self._check_rows(start, stop)
        for window in plan_windows(first, last, batch_rows, fitting_rows(self._row_bytes(selection))):
            yield from cut_batches(self._read(selection, RowSelection(*window)), batch_rows)

    def window_rows(
        self, schema: Schema | None = None, column_indices: Mapping[int, int] | None = None
    ) -> int:
        """Return the number of rows of some fields that take about 32 MB in memory, at least one.

        Args:
            schema: See `read_table`.
            column_indices: See `read_table`.
        """
        return max(1, fitting_rows(self._row_bytes(self._select(schema, column_indices))))

    def sparse_from(
        self, schema: Schema | None = None, column_indices: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        """Return the selectivity below which reading single rows is faster; see `Layout.sparse_from`.

        Args:
            schema: See `read_table`.
            column_indices: See `read_table`.

        Returns:
            For each top-level field, by its id: the maximum over its columns.
        """
        selection = self._select(schema, column_indices)
        found = {}
        for field in selection.prepared.schema.fields:
            indices = [selection.columns[node.id] for node in field.walk() if node.id in selection.columns]
            shares = [self._layout.sparse_from(self.column(index)) for index in indices]
            found[field.id] = max(shares, default=1)
        return found

    def take(
        self,
        rows: npt.NDArray[np.int64] | Sequence[int],
        schema: Schema | None = None,
        column_indices: Mapping[int, int] | None = None,
    ) -> pa.Table:
        """Read single rows.

        Args:
            rows: Row numbers, ascending, distinct.
            schema: See `read_table`.
            column_indices: See `read_table`.

        Raises:
            InvalidArgumentError: The rows are not ascending, or out of range.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        if len(wanted) and (bool((np.diff(wanted) <= 0).any()) or int(wanted[0]) < 0):
            raise InvalidArgumentError("rows must be ascending and distinct", path=self._path)
        if len(wanted) and int(wanted[-1]) >= self._num_rows:
            raise InvalidArgumentError(
                f"row {int(wanted[-1])} is out of range for the file of {self._num_rows} rows",
                path=self._path,
            )
        selection = self._select(schema, column_indices)
        return self._read(selection, RowSelection.some(wanted, self._ranges.prepare_for_single_rows()))

    def map(self) -> pa.Buffer | None:
        """Map all bytes of the file into memory; None if that is not possible."""
        self._ranges.prepare_for_single_rows()
        return self._ranges.mapped

    def _select(self, schema: Schema | None, column_indices: Mapping[int, int] | None) -> _Selection:
        schema = self._schema if schema is None else schema
        last = self._last
        if last is not None and last[0] is schema and last[1] is column_indices:
            return last[2]
        columns = self._layout.assign_columns(self._schema) if column_indices is None else column_indices
        # -1 means no column.
        columns = {field_id: column for field_id, column in columns.items() if column >= 0}
        selection = _Selection(prepare_schema(schema), columns)
        self._columns.load(selection.physical_columns)
        self._last = (schema, column_indices, selection)
        return selection

    def _check_rows(self, start: int, stop: int | None) -> tuple[int, int]:
        last = self._num_rows if stop is None else stop
        if not 0 <= start <= last <= self._num_rows:
            raise InvalidArgumentError(
                f"rows {start} to {last} are out of range for the file of {self._num_rows} rows",
                path=self._path,
            )
        return start, last

    def _row_bytes(self, selection: _Selection) -> float:
        total = sum(self._layout.column_bytes(self.column(index)) for index in selection.physical_columns)
        if has_blob_v2(selection.prepared.schema):
            total += self._ranges.side_bytes() + self._managed_bytes(selection)
        return max(total / max(self._num_rows, 1), 1 / 8)

    def _managed_bytes(self, selection: _Selection) -> int:
        """Read bytes of blobs that are objects in a base; only a table with bases has any."""
        if not self._base_uris:
            return 0
        key = tuple(selection.physical_columns)
        if key not in self._managed:
            shown = self.read_table(only_descriptors(selection.prepared.schema), selection.columns)
            chunks = (chunk for column in shown.columns for chunk in column.chunks)
            self._managed[key] = sum(map(managed_bytes, chunks))
        return self._managed[key]

    def _read(self, selection: _Selection, rows: RowSelection) -> pa.Table:
        return read_fields(self, self._layout, selection.prepared, selection.columns, rows, self._ranges.read)
