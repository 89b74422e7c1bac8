"""Layout 2.0 behind the interface that reader and writer share."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_ops.file.container.read import Column
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.layout import SPARSE, ColumnSource, FieldsWriter, Layout, PageSink
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.v2_0.columns import (
    ArrayColumn,
    assign_columns,
    column_bytes,
    join_columns,
    parse_column,
)
from lance_ops.file.v2_0.read import read_field
from lance_ops.file.v2_0.types import find_problems


class Layout20:
    """Storage version 2.0; see `Layout` for the methods."""

    name = "2.0"

    def find_problems(self, schema: Schema) -> list[str]:
        """Return problems of a schema with 2.0."""
        return find_problems(schema)

    def assign_columns(self, schema: Schema) -> dict[int, int]:
        """Number the physical columns: one a field, but none for the members of a packed struct."""
        return assign_columns(schema)

    def parse_column(self, column: Column, index: int, path: str, file_size: int) -> ArrayColumn:
        """Parse the encodings of a column."""
        return parse_column(column, index, path, file_size)

    def join_columns(
        self, columns: Sequence[ArrayColumn], paths: Sequence[str], moves: Sequence[int]
    ) -> ArrayColumn | None:
        """Return the columns of several files as one."""
        return join_columns(columns, paths, moves)

    def column_bytes(self, column: ArrayColumn) -> int:
        """Estimate what reading a whole column takes in memory."""
        return column_bytes(column)

    def sparse_from(self, column: ArrayColumn) -> int:  # noqa: ARG002 - other layouts need it
        """Return the selectivity below which single rows are read: values are not compressed."""
        return SPARSE

    def read_told(
        self,
        source: ColumnSource,  # noqa: ARG002 - other layouts need it
        field: Field,  # noqa: ARG002
        columns: Mapping[int, int],  # noqa: ARG002
        rows: RowSelection,  # noqa: ARG002
    ) -> pa.Array | None:
        """Return None: all values are in pages."""
        return None

    def read_fields(
        self, source: ColumnSource, fields: Sequence[Field], columns: Mapping[int, int], rows: RowSelection
    ) -> Steps[list[list[pa.Array]]]:
        """Read rows of several fields."""
        return gather([read_field(source, field, columns, rows) for field in fields])

    def open_writer(
        self, schema: Schema, columns: Mapping[int, int], sink: PageSink, page_bytes: int
    ) -> FieldsWriter:
        """Start to write."""
        # Readers need nothing of it.
        from lance_ops.file.v2_0.write import Fields20Writer

        return Fields20Writer(schema, columns, sink, page_bytes)


LAYOUT: Layout = Layout20()
