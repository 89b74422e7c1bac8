"""Joined files: small ones of one schema, read as if they were one whose pages follow each other.

What opening and reading a small file costs is hardly its bytes: of many, all of that is done once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.container.contents import Contents, decode_contents, read_contents
from lance_ops.file.container.read import ALIGNMENT, FOOTER_SIZE, Column, decode_version
from lance_ops.file.field_tables import read_fields
from lance_ops.file.io.fetch import Request
from lance_ops.file.io.page_heads import PageHeads, SharedHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.layout import Layout
from lance_ops.file.schema.blob_fields import has_blob_v2
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.versions import version_of_footer
from lance_ops.storage import Store
from lance_ops.storage.prefetch import read_small


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file to be read with others.

    Attributes:
        store: Where it is.
        path: Relative to the store.
        size: In bytes.
        num_rows: Rows that it should have.
    """

    store: Store
    path: str
    size: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class _Opened:
    path: str
    data: bytes
    contents: Contents


class JoinedFiles:
    """Files whose rows follow each other. All of their bytes are in memory.

    Errors may name a file, but not always the one that is damaged: who meets one should read file by file.

    Args:
        files: At least one, all of one storage version and one schema.

    Raises:
        LanceOpsError: A file cannot be read, or not together with the others.
    """

    def __init__(self, files: Sequence[SmallFile]) -> None:
        self._layout, self._files = _open_all(files)
        self._num_rows = sum(file.num_rows for file in files)
        self._moves: list[int] = []
        self._data = pa.py_buffer(b"".join(self._align()))
        self._columns: dict[int, object] = {}
        self._heads = PageHeads(SharedHeads(0))

    @property
    def path(self) -> str:
        """The first file, for errors."""
        return self._files[0].path

    @property
    def schema(self) -> Schema:
        """The schema in the descriptors of the files."""
        return self._files[0].contents.schema

    @property
    def base_uris(self) -> Mapping[int, str]:
        """None: there are no blobs."""
        return {}

    @property
    def heads(self) -> PageHeads:
        """Keeps nothing: every page is read once."""
        return self._heads

    def description(self, index: int) -> None:
        """None: each file has one of its own."""

    def column(self, index: int) -> object:
        """A physical column; see `Layout.join_columns`."""
        found = self._columns.get(index)
        if found is None:
            described = [_describe_column(file, index) for file in self._files]
            # Below fixed-size lists of structs, pages count structs. A column with too few rows in its own
            # file must not get those of the next.
            spans = {
                divmod(sum([page.length for page in column.pages]), file.contents.num_rows or 1)
                for file, column in zip(self._files, described, strict=True)
            }
            if len(spans) > 1 or any(rest for _, rest in spans):
                raise CorruptFileError("a column has not as many rows as its file", path=self.path)
            parsed = [
                self._layout.parse_column(column, index, file.path, len(file.data))
                for file, column in zip(self._files, described, strict=True)
            ]
            found = self._columns[index] = self._layout.join_columns(parsed, self._moves)
        return found

    def read_table(self, schema: Schema, column_indices: Mapping[int, int] | None) -> pa.Table:
        """Read all rows of some fields; see `FileReader.read_table`.

        Raises:
            LanceOpsError: A file is damaged, or the fields cannot be read from several files at once.
        """
        if has_blob_v2(schema):
            raise UnsupportedError("blobs of several files cannot be read as one", path=self.path)
        columns = self._layout.assign_columns(self.schema) if column_indices is None else column_indices
        columns = {field_id: column for field_id, column in columns.items() if column >= 0}
        rows = RowSelection(0, self._num_rows, None, self._data.size)
        return read_fields(self, self._layout, prepare_schema(schema), columns, rows, self._read)

    def _align(self) -> Iterator[bytes]:
        position = 0
        for file in self._files:
            self._moves.append(position)
            yield file.data
            padding = -len(file.data) % ALIGNMENT
            yield bytes(padding)
            position += len(file.data) + padding

    def _read(self, requests: list[Request]) -> list[pa.Buffer]:
        if any(offset + length > self._data.size for offset, length in requests):
            raise CorruptFileError("a page lies outside of its file", path=self.path)
        return [self._data.slice(offset, length) for offset, length in requests]


def _open_all(files: Sequence[SmallFile]) -> tuple[Layout, list[_Opened]]:
    opened = []
    first: Contents | None = None
    layout: Layout | None = None
    reads = (partial(file.store.read, file.path, 0, file.size) for file in files)
    for file, read in zip(files, read_small(files[0].store, reads), strict=True):
        data = read.to_pybytes()
        version = version_of_footer(*decode_version(data[-FOOTER_SIZE:], file.path), file.path)
        if version.read_contents is not read_contents:
            raise UnsupportedError("files of 0.1 are read one by one", path=file.path)
        contents = decode_contents(data, file.path)
        if first is None:
            first, layout = contents, version.require_layout(file.path)
        if contents.num_rows != file.num_rows:
            raise CorruptFileError(
                f"the file has {contents.num_rows} rows instead of {file.num_rows}", path=file.path
            )
        if version.layout is not layout or contents.schema != first.schema:
            raise UnsupportedError("files of several schemas cannot be read as one", path=file.path)
        opened.append(_Opened(file.path, data, contents))
    if layout is None:
        raise UnsupportedError("there are no files to read")
    return layout, opened


def _describe_column(file: _Opened, index: int) -> Column:
    if not 0 <= index < len(file.contents.columns):
        raise CorruptFileError(f"there is no column {index}", path=file.path)
    offset, length = file.contents.columns[index]
    return file.contents.parse(file.data[offset : offset + length], index)
