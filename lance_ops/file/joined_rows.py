"""Joined rows: single rows of several files of one schema, read as if these were one file.

The cost of a few rows of a file hardly depends on their bytes: for many files most of it is paid once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.field_tables import read_fields
from lance_ops.file.io.fetch import Request
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import Integers, RowSelection
from lance_ops.file.joined_source import JoinedSource
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema

_SPACING = 1 << 44
"""Distance of the files in the joined address space: more than the size of any file."""
_GAP_BYTES = 256
"""Gaps between two values are copied, so only small ones are read."""


class JoinedRows(JoinedSource):
    """Files of one storage version and one schema as one: the `ColumnSource` of all their pages.

    Args:
        readers: The files, at least one, each with the same columns in the same places.
    """

    def __init__(self, readers: Sequence[FileReader]) -> None:
        super().__init__(readers, PageHeads())
        self._mapped = [reader.map() for reader in readers]
        self._joinable: dict[tuple[Field, ...], bool] = {}

    @classmethod
    def of(cls, readers: Sequence[FileReader]) -> Self | None:
        """The files as one; None when they are not alike."""
        first = readers[0]
        alike = all(reader.version == first.version and reader.schema == first.schema for reader in readers)
        return cls(readers) if alike else None

    def take(self, rows: Integers, schema: Schema, columns: Mapping[int, int]) -> pa.Table:
        """Read single rows.

        Args:
            rows: Their numbers through all files, ascending, distinct, existing.
            schema: The fields to read.
            columns: Physical column of each field id, the same in all files.

        Raises:
            CorruptFileError: A file is damaged.
            UnsupportedError: A column has to be read file by file, or has an unknown encoding.
        """
        if not self._can_join(schema.fields, columns):
            raise UnsupportedError("the columns of these files cannot be read as one", path=self.path)
        selection = RowSelection.some(rows, _GAP_BYTES)
        return read_fields(self, self._layout, prepare_schema(schema), columns, selection, self._read)

    def _can_join(self, fields: tuple[Field, ...], columns: Mapping[int, int]) -> bool:
        found = self._joinable.get(fields)
        if found is None:
            nodes = [node for field in fields for node in field.walk()]
            below = [columns[node.id] for node in nodes if node.id in columns]
            # The values of a blob may be anywhere.
            found = not any(map(is_blob_v2, nodes)) and all(self._join(index) is not None for index in below)
            self._joinable[fields] = found
        return found

    def _join(self, index: int) -> object | None:
        if index not in self._columns:
            columns: list[Any] = [reader.column(index) for reader in self._readers]
            # A column with a wrong row count must not shift its neighbour.
            same = all(
                column.length == reader.num_rows
                for column, reader in zip(columns, self._readers, strict=True)
            )
            moves = [number * _SPACING for number in range(len(columns))]
            paths = [reader.path for reader in self._readers]
            joined: Any = self._layout.join_columns(columns, paths, moves) if same else None
            if joined is not None:
                # Page heads are cached by location, which all files share.
                pages = [replace(page, where=f"{page.where}, {page.path}") for page in joined.pages]
                joined = replace(joined, pages=tuple(pages))
            self._columns[index] = joined
        return self._columns[index]

    def _read(self, requests: list[Request]) -> list[pa.Buffer]:
        found: list[pa.Buffer] = []
        for offset, length in requests:
            number, place = divmod(offset, _SPACING)
            data = self._mapped[number]
            size = self._readers[number].size_bytes if data is None else data.size
            if place + length > size:
                raise CorruptFileError("a page is outside of its file", path=self._readers[number].path)
            if data is None:
                found += self._readers[number].read_bytes([(place, length)])
            else:
                found.append(data.slice(place, length))
        return found
