"""Layouts 2.1 and 2.2 behind the interface that reader and writer share."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_ops.file.container.read import Column
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.layout import SPARSE, ColumnSource, FieldsWriter, Layout, PageSink
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.v2_0 import columns as columns_2_0
from lance_ops.file.v2_1.columns import (
    LayoutColumn,
    assign_columns,
    column_bytes,
    join_columns,
    parse_column,
    sparse_from,
)
from lance_ops.file.v2_1.planar import PLANAR_LAYOUT_URL
from lance_ops.file.v2_1.read import read_field, read_fields
from lance_ops.file.v2_1.told_columns import read_told_column
from lance_ops.file.v2_1.types import find_problems


class Layout21:
    """Storage version 2.1 or 2.2; see `Layout` for the methods.

    Pages say themselves what the two versions do differently.

    Args:
        name: Of the version.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """Such as "2.1"."""
        return self._name

    def find_problems(self, schema: Schema) -> list[str]:
        """Return problems of a schema with the version."""
        return find_problems(schema, self._name)

    def assign_columns(self, schema: Schema) -> dict[int, int]:
        """Number the physical columns: one for each field that holds values."""
        return assign_columns(schema)

    def parse_column(
        self, column: Column, index: int, path: str, file_size: int
    ) -> LayoutColumn | columns_2_0.ArrayColumn:
        """Parse the descriptions of a column's pages."""
        if column.pages and column.pages[0].encoding.type_url == columns_2_0.ARRAY_ENCODING_URL:
            # Before 2.1 was final, its files were of 2.0 with more compressions.
            return columns_2_0.parse_column(column, index, path, file_size)
        return parse_column(column, index, path, file_size)

    def join_columns(
        self, columns: Sequence[Any], paths: Sequence[str], moves: Sequence[int]
    ) -> object | None:
        """Return the columns of several files as one; None also where they are of different ages."""
        kinds = {type(column) for column in columns}
        if len(kinds) > 1:
            return None
        join = columns_2_0.join_columns if columns_2_0.ArrayColumn in kinds else join_columns
        return join(columns, paths, moves)

    def column_bytes(self, column: LayoutColumn | columns_2_0.ArrayColumn) -> int:
        """Estimate what reading a whole column takes in memory."""
        if isinstance(column, columns_2_0.ArrayColumn):
            return columns_2_0.column_bytes(column)
        return column_bytes(column)

    def sparse_from(self, column: LayoutColumn | columns_2_0.ArrayColumn) -> int:
        """Return the selectivity below which single rows are read."""
        return SPARSE if isinstance(column, columns_2_0.ArrayColumn) else sparse_from(column)

    def read_told(
        self, source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
    ) -> pa.Array | None:
        """Return rows of a field whose values are all in the metadata of the file."""
        index = None if field.children else columns.get(field.id)
        description = None if index is None else source.description(index)
        return None if description is None else read_told_column(description, field, rows)

    def read_fields(
        self, source: ColumnSource, fields: Sequence[Field], columns: Mapping[int, int], rows: RowSelection
    ) -> Steps[list[list[pa.Array]]]:
        """Read rows of several fields, of columns that are alike together."""
        older = [number for number, field in enumerate(fields) if _is_of_2_0(source, field, columns)]
        if not older:
            return read_fields(source, fields, columns, rows)
        from lance_ops.file.v2_0.read import read_field as read_field_2_0

        return gather(
            [
                (read_field_2_0 if number in older else read_field)(source, field, columns, rows)
                for number, field in enumerate(fields)
            ]
        )

    def open_writer(
        self, schema: Schema, columns: Mapping[int, int], sink: PageSink, page_bytes: int
    ) -> FieldsWriter:
        """Start to write."""
        # Readers need nothing of it.
        from lance_ops.file.v2_1.write import Fields21Writer

        # Columns are numbered in one way only.
        del columns
        return Fields21Writer(schema, sink, page_bytes, self._name)


def _is_of_2_0(source: ColumnSource, field: Field, columns: Mapping[int, int]) -> bool:
    """Return whether a field has columns of 2.0, as files of the first writers of 2.1 may."""
    first = next((columns[node.id] for node in field.walk() if node.id in columns), None)
    return first is not None and isinstance(source.column(first), columns_2_0.ArrayColumn)


class Layout23(Layout21):
    """Storage version 2.3, whose pages describe structure and values separately."""

    def parse_column(
        self, column: Column, index: int, path: str, file_size: int
    ) -> LayoutColumn | columns_2_0.ArrayColumn:
        """Parse the descriptions of a column's pages."""
        return parse_column(column, index, path, file_size, PLANAR_LAYOUT_URL)


LAYOUT_2_1: Layout = Layout21("2.1")
LAYOUT_2_2: Layout = Layout21("2.2")
LAYOUT_2_3: Layout = Layout23("2.3")
