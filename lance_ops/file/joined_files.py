"""Joined files: files of one schema, read as one whose pages follow each other.

The cost of a page or of a few rows hardly depends on their bytes: for many files most of it is paid once.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.field_tables import read_fields
from lance_ops.file.io.fetch import Request
from lance_ops.file.io.file_ranges import join_ranges
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import Integers, RowSelection, join_lengths
from lance_ops.file.layout import Layout
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema

_SPACING = 1 << 44
"""Distance of the files in the joined address space: more than the size of any file."""
_GAP_BYTES = 4 << 10
"""Gaps between two values are copied, so only small ones are read."""

_NOTHING = pa.py_buffer(b"")

_Columns = Mapping[int, int] | None


def join_alike(readers: Sequence[FileReader]) -> tuple["JoinedFiles", ...]:
    """Join files that follow each other, as far as they have one storage version and one schema."""
    return tuple([JoinedFiles(list(alike)) for _, alike in groupby(readers, _likeness)])


def read_joined(
    files: Sequence["JoinedFiles"],
    schema: Schema,
    column_indices: _Columns,
    rows: Integers | None = None,
) -> pa.Table:
    """Read rows of some fields of files that follow each other.

    Args:
        files: Result of `join_alike`, at least one.
        schema: See `FileReader.read_table`.
        column_indices: The same for all of them; see `FileReader.read_table`.
        rows: Numbers of the rows through all files, ascending, distinct, existing; all when None.

    Raises:
        CorruptFileError: A file is damaged.
        UnsupportedError: A column uses an encoding that is not implemented.
    """
    tables: list[pa.Table] = []
    start = 0
    for alike in files:
        own = None if rows is None else _within(rows, start, start + alike.num_rows)
        start += alike.num_rows
        if own is None or len(own):
            tables.append(alike.read_table(schema, column_indices, own))
    if not tables:
        return prepare_schema(schema).arrow.empty_table()
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _likeness(reader: FileReader) -> tuple[str, Schema]:
    return reader.version, reader.schema


def _within(rows: Integers, start: int, stop: int) -> Integers:
    first, last = np.searchsorted(rows, [start, stop]).tolist()
    own: Integers = rows[first:last] - start if start else rows[first:last]
    return own


class JoinedFiles:
    """Files of one storage version and one schema as one: the `ColumnSource` of all their pages.

    Args:
        readers: The files, at least one, each with the same columns in the same places.
        heads: Cache of page heads; none are kept by default, as where each page is read once.
    """

    def __init__(self, readers: Sequence[FileReader], heads: PageHeads | None = None) -> None:
        self._readers = readers
        self._layout: Layout = readers[0].layout
        self._heads = PageHeads(most=0) if heads is None else heads
        self._columns: dict[int, object | None] = {}
        self._parsed: dict[int, list[Any]] = {}
        self._joinable: dict[tuple[Field, ...], bool] = {}
        self._starts = join_lengths(np.array([reader.num_rows for reader in readers], dtype=np.int64))
        self._data: pa.Buffer | None = None
        self._moves: Sequence[int] = [number * _SPACING for number in range(len(readers))]
        joined = join_ranges([reader.ranges for reader in readers])
        if joined is not None:
            self._data, self._moves = joined

    @classmethod
    def of(cls, readers: Sequence[FileReader]) -> Self | None:
        """Join files for repeated reads; None when they are not alike."""
        return cls(readers, PageHeads()) if len({_likeness(reader) for reader in readers}) == 1 else None

    @property
    def path(self) -> str:
        """Paths of all files, for errors without a page."""
        return f"{self._readers[0].path} to {self._readers[-1].path}"

    @property
    def schema(self) -> Schema:
        """The schema in the descriptors of the files."""
        return self._readers[0].schema

    @property
    def base_uris(self) -> Mapping[int, str]:
        """Return no bases: blobs are read file by file."""
        return {}

    @property
    def heads(self) -> PageHeads:
        """Cached page heads."""
        return self._heads

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return int(self._starts[-1])

    def description(self, index: int) -> None:
        """Return None: each file has its own description."""
        del index

    def column(self, index: int) -> object:
        """Return a physical column of all files; see `Layout.join_columns`."""
        column = self._join(index)
        assert column is not None
        return column

    def read_table(
        self, schema: Schema, column_indices: _Columns = None, rows: Integers | None = None
    ) -> pa.Table:
        """Read rows of some fields.

        Args:
            schema: See `FileReader.read_table`.
            column_indices: See `FileReader.read_table`.
            rows: Numbers of the rows through all files, ascending, distinct, existing; all when None.

        Raises:
            CorruptFileError: A file is damaged.
            UnsupportedError: A column uses an encoding that is not implemented.
        """
        if len(self._readers) == 1:
            return self._read_apart(schema, column_indices, rows)
        columns = self._layout.assign_columns(self.schema) if column_indices is None else column_indices
        if any(column < 0 for column in columns.values()):
            columns = {field_id: column for field_id, column in columns.items() if column >= 0}
        if self._can_join(schema.fields, columns):
            try:
                return self._read_together(schema, columns, rows)
            except (CorruptFileError, UnsupportedError):
                if rows is None:
                    raise
                # Single rows are picked from several pages at once: file by file, the error names its page.
                return self._read_apart(schema, column_indices, rows)
        apart = [field for field in schema.fields if not self._can_join((field,), columns)]
        table = self._read_apart(Schema(tuple(apart), schema.metadata), column_indices, rows)
        rest = Schema(tuple([field for field in schema.fields if field not in apart]), schema.metadata)
        if rest.fields:
            together = self._read_together(rest, columns, rows)
            for column, field in zip(together.columns, rest.fields, strict=True):
                table = table.append_column(field.name, column)
        arrow = prepare_schema(schema).arrow
        return pa.Table.from_arrays([table.column(name) for name in arrow.names], schema=arrow)

    def decoded_bytes(self, schema: Schema, column_indices: _Columns = None) -> Integers:
        """Estimate the memory of all rows of some fields of each file, in bytes.

        Args:
            schema: See `FileReader.read_table`.
            column_indices: See `FileReader.read_table`.
        """
        prepared = prepare_schema(schema)
        sizes = np.diff(self._starts) * prepared.fixed_bytes
        columns = self._layout.assign_columns(self.schema) if column_indices is None else column_indices
        for field in prepared.variable:
            for node in field.walk():
                index = columns.get(node.id, -1)
                if index >= 0:
                    self._join(index)
                    # Files whose columns are described alike often share them.
                    sizes += [self._layout.column_bytes(column) for column in self._parsed[index]]
        return sizes

    def _read_apart(self, schema: Schema, column_indices: _Columns, rows: Integers | None) -> pa.Table:
        """Read rows file by file."""
        if rows is None:
            return pa.concat_tables([reader.read_table(schema, column_indices) for reader in self._readers])
        starts = self._starts.tolist()
        parts = [
            (reader, _within(rows, start, stop))
            for reader, start, stop in zip(self._readers, starts, starts[1:], strict=False)
        ]
        tables = [reader.take(own, schema, column_indices) for reader, own in parts if len(own)]
        return pa.concat_tables(tables) if tables else prepare_schema(schema).arrow.empty_table()

    def _read_together(self, schema: Schema, columns: Mapping[int, int], rows: Integers | None) -> pa.Table:
        gap = 0 if self._data is None else self._data.size
        if rows is None:
            selection = RowSelection(0, self.num_rows, None, gap)
        else:
            selection = RowSelection.some(rows, gap or _GAP_BYTES)
        return read_fields(self, self._layout, prepare_schema(schema), columns, selection, self._read)

    def _can_join(self, fields: tuple[Field, ...], columns: Mapping[int, int]) -> bool:
        found = self._joinable.get(fields)
        if found is None:
            nodes = [node for field in fields for node in field.walk()]
            below = [columns[node.id] for node in nodes if node.id in columns]
            missing = [index for index in below if index not in self._columns]
            for reader in self._readers if missing else ():
                reader.load_columns(missing)
            # The values of a blob may be anywhere.
            found = not any(map(is_blob_v2, nodes)) and all(self._join(index) is not None for index in below)
            self._joinable[fields] = found
        return found

    def _join(self, index: int) -> object | None:
        if index not in self._columns:
            columns = self._parsed[index] = list(self._parse(index))
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
                yield reader.column(index)
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

    def _read(self, requests: list[Request]) -> list[pa.Buffer]:
        data = self._data
        if data is not None:
            if any(offset + length > data.size for offset, length in requests):
                raise CorruptFileError("a page is outside of its file", path=self.path)
            return [data.slice(offset, length) for offset, length in requests]
        found = [_NOTHING] * len(requests)
        by_file: dict[int, tuple[list[int], list[Request]]] = {}
        for index, (offset, length) in enumerate(requests):
            number, place = divmod(offset, _SPACING)
            indices, ranges = by_file.setdefault(number, ([], []))
            indices.append(index)
            ranges.append((place, length))
        for number, (indices, ranges) in by_file.items():
            reader = self._readers[number]
            if any(place + length > reader.size_bytes for place, length in ranges):
                raise CorruptFileError("a page is outside of its file", path=reader.path)
            for index, buffer in zip(indices, reader.ranges.read(ranges), strict=True):
                found[index] = buffer
        return found
