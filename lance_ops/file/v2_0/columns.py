"""Physical columns of 2.0, and the descriptions of their pages.

Every field has a column, in depth-first order: a struct one without data, a list one with the extents of its
rows. The exception is a packed struct, whose members are in the struct's own column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.container.read import Column, Encoding
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import is_packed_2_0
from lance_ops.pb import encodings20_pb2 as pb

ARRAY_ENCODING_URL = "/lance.encodings.ArrayEncoding"
COLUMN_ENCODING_URL = "/lance.encodings.ColumnEncoding"

BLOB_KEY = "lance-encoding:blob"

# Bounds what the cache of encodings keeps alive: symbol tables may be long.
_SMALL_ENCODING = 256


@dataclass(frozen=True, slots=True)
class ArrayPage:
    """One page.

    Attributes:
        path: The file, for errors.
        where: Column and page, for errors.
        start: Number of its first row (or item) within the column.
        length: Rows (or items).
        buffers: Position and size in bytes of each buffer.
        encoding: Encoding of the buffers.
        file_size: In bytes, the bound of everything in the page.
    """

    path: str
    where: str
    start: int
    length: int
    buffers: tuple[tuple[int, int], ...]
    encoding: pb.ArrayEncoding
    file_size: int

    def buffer(self, reference: pb.Buffer) -> tuple[int, int]:
        """Position and size of a buffer that the encoding refers to."""
        if reference.buffer_type != pb.Buffer.page:
            raise UnsupportedError(
                "a page refers to a buffer outside of itself", path=self.path, field=self.where
            )
        if reference.buffer_index >= len(self.buffers):
            raise CorruptFileError(
                f"a page refers to buffer {reference.buffer_index} of {len(self.buffers)}",
                path=self.path,
                field=self.where,
            )
        return self.buffers[reference.buffer_index]


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """One physical column.

    Attributes:
        path: The file, for errors.
        where: The column, for errors.
        pages: In the order of their rows.
        starts: First row of each page.
        length: Rows of all pages.
        item_starts: Of a list column, the number of the first item of each page.
        is_blob: True if the pages hold positions and sizes of values that lie elsewhere in the file.
    """

    path: str
    where: str
    pages: tuple[ArrayPage, ...]
    starts: tuple[int, ...]
    length: int
    item_starts: tuple[int, ...]
    is_blob: bool

    def parts(self, rows: RowSelection) -> Iterator[tuple[int, RowSelection]]:
        """Return the number of each page that has some of the rows, and which of its rows they are.

        Raises:
            CorruptFileError: The column ends earlier.
        """
        if rows.stop > self.length:
            raise CorruptFileError(
                f"rows up to {rows.stop} are expected, but the column has {self.length}",
                path=self.path,
                field=self.where,
            )
        return rows.split(self.starts, self.length)


def parse_column(column: Column, index: int, path: str, file_size: int) -> ArrayColumn:
    """Parse the encodings of a column and its pages.

    Raises:
        CorruptFileError: A message is unreadable.
        UnsupportedError: A message is none of 2.0.
    """
    where = f"column {index}"
    starts = [0, *accumulate(page.length for page in column.pages)]
    pages = tuple(
        ArrayPage(
            path=path,
            where=f"{where}, page {number}",
            start=starts[number],
            length=page.length,
            buffers=page.buffers,
            encoding=_parse_page(page.encoding, f"{where}, page {number}", path),
            file_size=file_size,
        )
        for number, page in enumerate(column.pages)
    )
    return ArrayColumn(
        path=path,
        where=where,
        pages=pages,
        starts=tuple(starts[:-1]),
        length=starts[-1],
        item_starts=tuple(accumulate((page.encoding.list.num_items for page in pages), initial=0)),
        is_blob=_parse_is_blob(column.encoding, where, path),
    )


def join_columns(
    columns: Sequence[ArrayColumn], paths: Sequence[str], moves: Sequence[int]
) -> ArrayColumn | None:
    """Return the columns of several files as one, whose pages follow each other.

    Args:
        columns: At least one; files that describe theirs by the same bytes may share one.
        paths: Of the files.
        moves: How much further back the bytes of each file lie where all files are one.

    Returns:
        The column; None where values lie anywhere in the file, or are lists, whose items have rows of their
        own.
    """
    pages = []
    start = 0
    for column, path, move in zip(columns, paths, moves, strict=True):
        for page in column.pages:
            if column.is_blob or page.encoding.HasField("list"):
                return None
            buffers = tuple([(position + move, size) for position, size in page.buffers])
            pages.append(
                ArrayPage(path, page.where, start, page.length, buffers, page.encoding, page.file_size)
            )
            start += page.length
    starts = tuple([page.start for page in pages])
    return ArrayColumn(
        paths[0], columns[0].where, tuple(pages), starts, start, (0,) * (len(pages) + 1), is_blob=False
    )


def column_bytes(column: ArrayColumn) -> int:
    """Estimate what reading a whole column takes in memory."""
    if column.is_blob and column.pages:
        # The values may be anywhere in the file.
        return column.pages[0].file_size
    return sum(_decoded_bytes(page) for page in column.pages)


def _decoded_bytes(page: ArrayPage) -> int:
    stored = sum(size for _, size in page.buffers)
    dictionary = page.encoding.dictionary
    if dictionary.num_dictionary_items:
        return (
            stored + page.length * dictionary.items.binary.null_adjustment // dictionary.num_dictionary_items
        )
    if page.encoding.binary.bytes.flat.HasField("compression"):
        # One more than the plain size of all strings.
        return stored + page.encoding.binary.null_adjustment
    return stored


def is_blob(field: Field) -> bool:
    """Return whether a field's metadata request values outside of their pages."""
    return BLOB_KEY in field.metadata


def stored_fields(field: Field) -> Iterator[Field]:
    """Yield the fields that have a physical column of their own, depth first."""
    yield field
    if not is_packed_2_0(field):
        for child in field.children:
            yield from stored_fields(child)


def assign_columns(schema: Schema) -> dict[int, int]:
    """Physical column of each field id in a new file."""
    stored = (node for top in schema.fields for node in stored_fields(top))
    return {node.id: column for column, node in enumerate(stored)}


def _parse_page(encoding: Encoding, where: str, path: str) -> pb.ArrayEncoding:
    if encoding.type_url != ARRAY_ENCODING_URL:
        raise UnsupportedError(f"a page is encoded as {encoding.type_url!r}", path=path, field=where)
    parse = _recurring_page if len(encoding.value) <= _SMALL_ENCODING else pb.ArrayEncoding.FromString
    try:
        return parse(encoding.value)
    except DecodeError as error:
        raise CorruptFileError(f"unreadable page encoding: {error}", path=path, field=where) from error


@lru_cache(maxsize=1024)
def _recurring_page(data: bytes) -> pb.ArrayEncoding:
    # Most pages of a column have equal encodings. The message is never changed.
    return pb.ArrayEncoding.FromString(data)


def _parse_is_blob(encoding: Encoding, where: str, path: str) -> bool:
    if not encoding.type_url and not encoding.value:
        return False
    if encoding.type_url != COLUMN_ENCODING_URL:
        raise UnsupportedError(f"a column is encoded as {encoding.type_url!r}", path=path, field=where)
    message = pb.ColumnEncoding()
    try:
        message.ParseFromString(encoding.value)
    except DecodeError as error:
        raise CorruptFileError(f"unreadable column encoding: {error}", path=path, field=where) from error
    kind = message.WhichOneof("column_encoding")
    if kind == "zone_index":
        raise UnsupportedError("columns with a zone index are not supported", path=path, field=where)
    return kind == "blob"
