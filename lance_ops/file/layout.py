"""Layout of a storage version: all that reader and writer need not know of any of them."""

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
"""Reading a whole range beats picking rows until only one in this many is wanted, where nothing is known."""


class ColumnSource(Protocol):
    """The columns of an open file, as a layout sees them."""

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
        """Keeps what pages need for every read."""

    def description(self, index: int) -> bytes | None:
        """The metadata message of a physical column that nobody has parsed yet; None for any other."""

    def column(self, index: int) -> Any:
        """What the layout's `parse_column` made of a physical column."""


class PageSink(Protocol):
    """Where a layout's writer puts its pages."""

    @property
    def side_files(self) -> SideFiles:
        """Files beside this one, for large values."""

    def write_buffer(self, data: pa.Buffer) -> tuple[int, int]:
        """Append an aligned buffer and return its position and size."""

    def add_page(
        self, column: int, buffers: Sequence[tuple[int, int]], length: int, priority: int, encoding: Encoding
    ) -> None:
        """Describe the next page of a physical column."""


class FieldsWriter(Protocol):
    """Turns batches into pages."""

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Take rows, whose schema is exactly the writer's; pages go to the sink when they are full."""

    def finish(self, num_rows: int) -> None:
        """Write what is left."""

    @property
    def pending_bytes(self) -> int:
        """Bytes taken that are not in a page yet."""

    @property
    def column_encodings(self) -> Sequence[Encoding]:
        """Encoding of each physical column."""


class Layout(Protocol):
    """One storage version."""

    @property
    def name(self) -> str:
        """Such as "2.0"."""

    def find_problems(self, schema: Schema) -> list[str]:
        """Say what of a schema this version cannot hold, one line a field."""

    def assign_columns(self, schema: Schema) -> dict[int, int]:
        """Number the physical columns of a new file.

        Returns:
            Physical column of each field that the table's metadata list for the file, in their order.
        """

    def parse_column(self, column: Column, index: int, path: str, file_size: int) -> object:
        """Parse the encodings of a column once, for `read_field`."""

    def join_columns(
        self, columns: Sequence[Any], paths: Sequence[str], moves: Sequence[int]
    ) -> object | None:
        """The columns of several files as one, whose pages follow each other.

        Args:
            columns: As `parse_column` made them, at least one; files as large as each other that describe
                theirs by the same bytes may share one.
            paths: Of the files.
            moves: How much further back the bytes of each file lie where all files are one.

        Returns:
            The column; None of those that have to be read file by file.
        """

    def column_bytes(self, column: Any) -> int:
        """Estimate what reading a whole column takes in memory.

        Args:
            column: As `parse_column` made it.
        """

    def sparse_from(self, column: Any) -> int:
        """Say where picking rows begins to pay.

        Args:
            column: As `parse_column` made it.

        Returns:
            Reading a whole range of rows takes less until only one in this many is wanted; 1: never.
        """

    def read_told(
        self, source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
    ) -> pa.Array | None:
        """Rows of a field of which the file's metadata tell every value; None where pages must be read.

        Args:
            source: See `read_field`.
            field: See `read_field`.
            columns: See `read_field`.
            rows: See `read_field`.
        """

    def read_field(
        self, source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
    ) -> Steps[list[pa.Array]]:
        """Read rows of a field.

        Args:
            source: The columns.
            field: What to read, possibly with fewer children than the file has.
            columns: Physical column of each field id; fields without are null in this file.
            rows: Which rows of the file.

        Returns:
            Arrays that follow each other.
        """

    def open_writer(
        self, schema: Schema, columns: Mapping[int, int], sink: PageSink, page_bytes: int
    ) -> FieldsWriter:
        """Start to write.

        Args:
            schema: Of the file.
            columns: As `assign_columns` gave them.
            sink: Takes the pages.
            page_bytes: Size at which a column's page is full.
        """
