"""Layout 0.1 behind the interface of reader and writer."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_ops.errors import UnsupportedVersionError
from lance_ops.file.container.read import Column
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.layout import SPARSE, ColumnSource, FieldsWriter, Layout, PageSink
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.v0_1.columns import BatchColumn, assign_columns, column_bytes, parse_column
from lance_ops.file.v0_1.read import read_field

_NOT_WRITTEN = "storage version 0.1 is read but not written"


class Layout01:
    """Storage version 0.1; see `Layout` for the methods."""

    name = "0.1"

    def find_problems(self, schema: Schema) -> list[str]:  # noqa: ARG002 - whatever it is
        """Return a problem for any schema: 0.1 is never written."""
        return [_NOT_WRITTEN]

    def assign_columns(self, schema: Schema) -> dict[int, int]:
        """Number the physical columns: by field id."""
        return assign_columns(schema)

    def parse_column(self, column: Column, index: int, path: str, file_size: int) -> BatchColumn:
        """Parse a column."""
        return parse_column(column, f"column {index}", path, file_size)

    def join_columns(
        self, columns: Sequence[BatchColumn], paths: Sequence[str], moves: Sequence[int]
    ) -> None:
        """Return None: files of 0.1 are never joined."""

    def column_bytes(self, column: BatchColumn) -> int:
        """Estimate the memory of a whole column."""
        return column_bytes(column)

    def sparse_from(self, column: BatchColumn) -> int:  # noqa: ARG002 - other layouts need it
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
        self,
        schema: Schema,  # noqa: ARG002 - nothing is written
        columns: Mapping[int, int],  # noqa: ARG002
        sink: PageSink,  # noqa: ARG002
        page_bytes: int,  # noqa: ARG002
    ) -> FieldsWriter:
        """Raise: 0.1 is never written."""
        raise UnsupportedVersionError(_NOT_WRITTEN)


LAYOUT: Layout = Layout01()
