"""Joined files: small files of one schema, read as one whose pages follow each other.

The cost of opening and reading a small file hardly depends on its bytes: for many files most of it is paid
once.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.container.read import ALIGNMENT
from lance_ops.file.field_tables import read_fields
from lance_ops.file.io.fetch import Request
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.joined_source import JoinedSource
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema

_Columns = Mapping[int, int] | None


def read_joined(readers: Sequence[FileReader], schema: Schema, column_indices: _Columns) -> pa.Table:
    """Read all rows of some fields of files that follow each other.

    Args:
        readers: The files, at least one.
        schema: See `FileReader.read_table`.
        column_indices: The same for all of them; see `FileReader.read_table`.

    Raises:
        CorruptFileError: A file is damaged.
        UnsupportedError: A column uses an encoding that is not implemented.
    """
    tables: list[pa.Table] = []
    for _, found in groupby(readers, _likeness):
        alike = list(found)
        if len(alike) == 1 or alike[0].whole is None:
            tables += [reader.read_table(schema, column_indices) for reader in alike]
        else:
            tables.append(_JoinedFiles(alike).read_table(schema, column_indices))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _likeness(reader: FileReader) -> tuple[str, Schema, bool]:
    return reader.version, reader.schema, reader.whole is not None


class _JoinedFiles(JoinedSource):
    """Files of one storage version and one schema as one: the `ColumnSource` of all their pages."""

    def __init__(self, readers: Sequence[FileReader]) -> None:
        # Nothing is kept: every page is read once.
        super().__init__(readers, PageHeads(most=0))
        self._num_rows = sum(reader.num_rows for reader in readers)
        self._moves: list[int] = []
        self._data = pa.py_buffer(b"".join(self._align()))

    def read_table(self, schema: Schema, column_indices: _Columns) -> pa.Table:
        """Read all rows of some fields."""
        columns = self._layout.assign_columns(self.schema) if column_indices is None else column_indices
        columns = {field_id: column for field_id, column in columns.items() if column >= 0}
        apart = [field for field in schema.fields if not self._can_join(field, columns)]
        if not apart:
            return self._read_fields(schema, columns)
        part = Schema(tuple(apart), schema.metadata)
        table = pa.concat_tables([reader.read_table(part, column_indices) for reader in self._readers])
        rest = Schema(tuple([field for field in schema.fields if field not in apart]), schema.metadata)
        if rest.fields:
            for column, field in zip(self._read_fields(rest, columns).columns, rest.fields, strict=True):
                table = table.append_column(field.name, column)
        arrow = prepare_schema(schema).arrow
        return pa.Table.from_arrays([table.column(name) for name in arrow.names], schema=arrow)

    def _read_fields(self, schema: Schema, columns: Mapping[int, int]) -> pa.Table:
        rows = RowSelection(0, self._num_rows, None, self._data.size)
        return read_fields(self, self._layout, prepare_schema(schema), columns, rows, self._read)

    def _can_join(self, field: Field, columns: Mapping[int, int]) -> bool:
        below = [columns[node.id] for node in field.walk() if node.id in columns]
        # The values of a blob may be anywhere.
        return not any(map(is_blob_v2, field.walk())) and all(
            self._join(index) is not None for index in below
        )

    def _join(self, index: int) -> object | None:
        if index not in self._columns:
            columns = list(self._parse(index))
            paths = [reader.path for reader in self._readers]
            self._columns[index] = self._layout.join_columns(columns, paths, self._moves)
            # Below fixed-size lists of structs, pages count structs. A column with a wrong row count must not
            # shift its neighbour.
            if self._columns[index] is not None and not self._have_same_span(columns):
                self._columns[index] = None
        return self._columns[index]

    def _parse(self, index: int) -> Iterator[Any]:
        """Parse the column of each file. Small ones often have the same bytes and description."""
        found: dict[tuple[bytes, int], Any] = {}
        for reader in self._readers:
            message = reader.description(index)
            if message is None:
                yield reader.parse_column(index)
                continue
            key = message, reader.size_bytes
            column = found.get(key)
            if column is None:
                column = found[key] = reader.parse_column(index)
            yield column

    def _have_same_span(self, columns: Sequence[Any]) -> bool:
        pairs = zip(self._readers, columns, strict=True)
        spans = {divmod(column.length, reader.num_rows or 1) for reader, column in pairs}
        return len(spans) == 1 and not any(rest for _, rest in spans)

    def _align(self) -> Iterator[pa.Buffer | bytes]:
        position = 0
        for reader in self._readers:
            self._moves.append(position)
            data = reader.whole
            assert data is not None
            yield data
            padding = -data.size % ALIGNMENT
            yield bytes(padding)
            position += data.size + padding

    def _read(self, requests: list[Request]) -> list[pa.Buffer]:
        if any(offset + length > self._data.size for offset, length in requests):
            raise CorruptFileError("a page is outside of its file", path=self.path)
        return [self._data.slice(offset, length) for offset, length in requests]
