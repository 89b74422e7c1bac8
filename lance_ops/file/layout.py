"""Layout of a storage version: the interface between it and the reader and writer."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lance_ops.file.container.read import Column, Encoding
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.io.side_files import SideFiles
from lance_ops.file.schema.model import Field, Schema

SPARSE = 16
"""Default selectivity: reading a whole range is faster unless only one in this many rows is wanted."""


class ColumnSource(Protocol):
    """Columns of an open file, as seen by a layout."""

    @property
    def path(self) -> str:
        """The file, for errors."""

    @property
    def schema(self) -> Schema:
        """The schema in the file's own descriptor."""

    @property
    def base_uris(self) -> Mapping[int, str]:
        """URIs of the other bases of the table, by their ids."""

    @property
    def heads(self) -> PageHeads:
        """Cache of page heads."""

    def description(self, index: int) -> bytes | None:
        """Return the metadata message of a physical column that is not parsed yet; None for any other."""

    def column(self, index: int) -> Any:
        """Return a physical column as parsed by `parse_column` of the layout."""


class PageSink(Protocol):
    """Destination of the pages of a layout's writer."""

    @property
    def side_files(self) -> SideFiles:
        """Side files of the file, for large values."""

    def write_buffer(self, data: pa.Buffer) -> tuple[int, int]:
        """Append an aligned buffer and return its position and size."""

    def add_page(
        self, column: int, buffers: Sequence[tuple[int, int]], length: int, priority: int, encoding: Encoding
    ) -> None:
        """Add the description of the next page of a physical column."""


class FieldsWriter(Protocol):
    """Writer of batches into pages."""

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Write rows with exactly the schema of the writer; full pages go to the sink."""

    def finish(self, num_rows: int) -> None:
        """Write the remaining rows."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of rows that are not in a page yet."""

    @property
    def column_encodings(self) -> Sequence[Encoding]:
        """Encoding of each physical column."""


class Layout(Protocol):
    """One storage version."""

    @property
    def name(self) -> str:
        """Such as "2.0"."""

    def find_problems(self, schema: Schema) -> list[str]:
        """Return problems of a schema with this version, one line a field."""

    def assign_columns(self, schema: Schema) -> dict[int, int]:
        """Number the physical columns of a new file.

        Returns:
            Physical column of each field that the table's metadata list for the file, in their order.
        """

    def parse_column(self, column: Column, index: int, path: str, file_size: int) -> object:
        """Parse the encodings of a column once, for `read_fields`."""

    def join_columns(
        self, columns: Sequence[Any], paths: Sequence[str], moves: Sequence[int]
    ) -> object | None:
        """Join the columns of several files into one, whose pages follow each other.

        Args:
            columns: Results of `parse_column`, at least one; files of equal size and description may share
                one.
            paths: Of the files.
            moves: Offset of each file in the joined address space.

        Returns:
            The column; None if they have to be read file by file.
        """

    def column_bytes(self, column: Any) -> int:
        """Estimate the memory of a whole column.

        Args:
            column: Result of `parse_column`.
        """

    def sparse_from(self, column: Any) -> int:
        """Return the selectivity below which reading single rows is faster.

        Args:
            column: Result of `parse_column`.

        Returns:
            N if reading a whole range is faster until only one in N rows is wanted; 1: never.
        """

    def read_told(
        self, source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
    ) -> pa.Array | None:
        """Return rows of a field whose values are all in the metadata; None if pages must be read.

        Args:
            source: See `read_fields`.
            field: See `read_fields`.
            columns: See `read_fields`.
            rows: See `read_fields`.
        """

    def read_fields(
        self, source: ColumnSource, fields: Sequence[Field], columns: Mapping[int, int], rows: RowSelection
    ) -> Steps[list[list[pa.Array]]]:
        """Read rows of several fields.

        Args:
            source: The columns.
            fields: Fields to read, possibly with fewer children than in the file.
            columns: Physical column of each field id; fields without one are null in this file.
            rows: Rows of the file.

        Returns:
            Consecutive arrays of each field.
        """

    def open_writer(
        self, schema: Schema, columns: Mapping[int, int], sink: PageSink, page_bytes: int
    ) -> FieldsWriter:
        """Return a writer.

        Args:
            schema: Of the file.
            columns: Result of `assign_columns`.
            sink: Destination of the pages.
            page_bytes: Size at which a column's page is full.
        """
