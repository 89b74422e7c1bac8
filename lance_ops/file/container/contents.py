"""Contents of a file: the result of opening it, independent of the container."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from lance_ops.errors import CorruptFileError, FormatError
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.container.read import (
    ENTRY_SIZE,
    FOOTER_SIZE,
    Column,
    Footer,
    decode_column,
    decode_descriptor,
    decode_footer,
    decode_table,
)
from lance_ops.file.io.fetch import Request, Steps, fetch
from lance_ops.file.schema.blob_fields import show_logical_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.pb import file_pb2

# Up to here a file may have blobs of the old kind.
_WITH_DESCRIPTORS = (2, 2)


@dataclass(frozen=True, slots=True)
class ColumnParser:
    """Parser of column descriptions of a 2.x file.

    Attributes:
        size: Of the file.
        path: For errors.
    """

    size: int
    path: str

    def __call__(self, data: bytes, index: int) -> Column:
        """Return the pages of a column, given its description and number."""
        return decode_column(data, self.size, index, self.path)


@dataclass(frozen=True, slots=True)
class Contents:
    """An open file before any column is read.

    Attributes:
        schema: The file's own; without fields if the file has none.
        num_rows: Number of rows.
        columns: Location of the description of each physical column.
        global_buffers: Locations of the global buffers.
        parse: Parses the description of a column, given its bytes and number.
        read_bounds: Reads bounds of the values of some fields, page by page; None for files without bounds.
    """

    schema: Schema
    num_rows: int
    columns: Sequence[Request]
    global_buffers: tuple[Request, ...]
    parse: Callable[[bytes, int], Column]
    read_bounds: Callable[[Sequence[int]], Steps[dict[int, PageBounds]]] | None = None


def read_contents(tail: bytes, size: int, path: str) -> Steps[Contents]:
    """Open a 2.x file.

    Args:
        tail: Its last bytes, the footer at least.
        size: Of the file.
        path: For errors.

    Raises:
        CorruptFileError: The file is truncated or damaged.
    """
    footer = decode_footer(tail[-FOOTER_SIZE:], size, path)
    columns, buffers = yield _tables(footer)
    global_table = decode_table(buffers.to_pybytes(), size, "global buffer", path)
    described = yield from fetch(*global_table[0])
    return _build_contents(footer, columns.to_pybytes(), global_table, described.to_pybytes(), size, path)


def decode_contents(tail: memoryview, size: int, path: str) -> Contents | None:
    """Open a 2.x file by its last bytes alone; None if they are not enough. See `read_contents`."""
    start = size - len(tail)
    footer = decode_footer(bytes(tail[-FOOTER_SIZE:]), size, path)
    columns, buffers = _tables(footer)
    # Both are within the file, as checked with the footer.
    if columns[0] < start or buffers[0] < start:
        return None
    global_table = decode_table(_cut(tail, buffers, start), size, "global buffer", path)
    described = global_table[0]
    if described[0] < start:
        return None
    return _build_contents(
        footer, _cut(tail, columns, start), global_table, _cut(tail, described, start), size, path
    )


def _cut(tail: memoryview, request: Request, start: int) -> bytes:
    offset, length = request
    return bytes(tail[offset - start : offset - start + length])


def _tables(footer: Footer) -> list[Request]:
    return [
        (footer.column_table, footer.num_columns * ENTRY_SIZE),
        (footer.global_table, footer.num_global_buffers * ENTRY_SIZE),
    ]


def _build_contents(
    footer: Footer, columns: bytes, global_table: tuple[Request, ...], described: bytes, size: int, path: str
) -> Contents:
    column_table = decode_table(columns, size, "column", path)
    try:
        schema, num_rows = _parse_descriptor(described, (footer.major, footer.minor))
    except (CorruptFileError, FormatError) as error:
        raise CorruptFileError(error.message, path=path, field=error.field) from error

    return Contents(schema, num_rows, column_table, global_table, ColumnParser(size, path))


@lru_cache(maxsize=64)
def _parse_descriptor(data: bytes, version: tuple[int, int]) -> tuple[Schema, int]:
    descriptor = decode_descriptor(data, "")
    return _parse_schema(descriptor.schema.SerializeToString(deterministic=True), version), descriptor.length


@lru_cache(maxsize=64)
def _parse_schema(data: bytes, version: tuple[int, int]) -> Schema:
    # The files of a dataset mostly have the same schema, but different numbers of rows.
    message = file_pb2.Schema.FromString(data)
    # Writers of 2.2 list the members of a blob descriptor without ids, after the blob's own field.
    fields = [field for field in message.fields if field.id >= 0]
    schema = Schema.from_protos(fields, dict(message.metadata))
    if version >= _WITH_DESCRIPTORS:
        schema = replace(schema, fields=tuple(show_logical_blobs(field) for field in schema.fields))
    return schema
