"""Descriptions of the physical columns of an open file: read on demand, parsed once."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from lance_ops.errors import CorruptFileError
from lance_ops.file.container.contents import ColumnParser, Contents
from lance_ops.file.container.read import Column
from lance_ops.file.io.fetch import fetch_all, run
from lance_ops.file.io.file_ranges import FileRanges
from lance_ops.file.layout import Layout

# Bounds the memory for columns: those with more pages are parsed each time.
_SMALL_COLUMN = 1024


class ColumnDescriptions:
    """Messages that describe columns, and their parsed form.

    Args:
        ranges: The bytes of the file.
        path: Of the file.
        size: Of the file in bytes.
        layout: Of its storage version.
        contents: Locations of the messages.
    """

    def __init__(self, ranges: FileRanges, path: str, size: int, layout: Layout, contents: Contents) -> None:
        self._ranges = ranges
        self._path = path
        self._size = size
        self._layout = layout
        self._contents = contents
        self._messages: dict[int, bytes] = {}
        self._columns: dict[int, object] = {}

    def metadata(self, index: int) -> Column:
        """Return pages and encodings of a column; see `FileReader.column_metadata`."""
        return self._contents.parse(self._message(index), index)

    def unparsed(self, index: int) -> bytes | None:
        """Return the message of a column that is not parsed yet; None for any other."""
        return None if index in self._columns else self._message(index)

    def column(self, index: int) -> object:
        """Return a parsed column; see `Layout.parse_column`."""
        found = self._columns.get(index)
        if found is None:
            parse, data = self._contents.parse, self._message(index)
            if isinstance(parse, ColumnParser) and len(data) <= _SMALL_COLUMN:
                layout: Any = self._layout
                found = _recurring_column(layout, parse, data, index)
            else:
                found = self._layout.parse_column(parse(data, index), index, self._path, self._size)
            self._columns[index] = found
        return found

    def parse(self, index: int) -> Any:
        """Return a parsed column like `column`, without caching it."""
        return self._layout.parse_column(self.metadata(index), index, self._path, self._size)

    def load(self, indices: Iterable[int]) -> None:
        """Read missing descriptions of columns, with one request.

        Raises:
            CorruptFileError: There is no such column.
        """
        missing = sorted({index for index in indices if index not in self._messages})
        for index in missing:
            if not 0 <= index < len(self._contents.columns):
                raise CorruptFileError(
                    f"column {index} does not exist, the file has {len(self._contents.columns)}",
                    path=self._path,
                )
        data = run(fetch_all([self._contents.columns[index] for index in missing]), self._ranges.read)
        for index, message in zip(missing, data, strict=True):
            self._messages[index] = message.to_pybytes()

    def _message(self, index: int) -> bytes:
        found = self._messages.get(index)
        if found is not None:
            return found
        whole = self._ranges.whole
        if whole is None or not 0 <= index < len(self._contents.columns):
            self.load([index])
            return self._messages[index]
        # Datasets can have very many small files.
        offset, length = self._contents.columns[index]
        message: bytes = whole.slice(offset, length).to_pybytes()
        self._messages[index] = message
        return message


@lru_cache(maxsize=1024)
def _recurring_column(layout: Any, parse: ColumnParser, data: bytes, index: int) -> object:
    # Datasets opened for each read mostly find the same files, with equal descriptions.
    return layout.parse_column(parse(data, index), index, parse.path, parse.size)
