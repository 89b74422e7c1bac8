"""What opening a file tells about it, whatever its container looks like."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from lance_ops.errors import CorruptFileError, FormatError
from lance_ops.file.blob_fields import show_logical_blobs
from lance_ops.file.container import (
    ENTRY_SIZE,
    FOOTER_SIZE,
    Column,
    decode_column,
    decode_descriptor,
    decode_footer,
    decode_table,
)
from lance_ops.file.fetch import Request, Steps, fetch
from lance_ops.file.page_bounds import PageBounds
from lance_ops.file.schema import Schema

# Up to here a file holds blobs of the old kind, or none.
_WITH_DESCRIPTORS = (2, 2)


@dataclass(frozen=True, slots=True)
class Contents:
    """An open file, before any column is looked at.

    Attributes:
        schema: The file's own; without fields when the file does not say.
        num_rows: Number of rows.
        columns: Where each physical column is described.
        global_buffers: Where the buffers of the file as a whole are.
        parse: Turns the description of a column, given its bytes and number, into pages.
        read_bounds: Reads what the file knows of the values of some fields, page by page; None for files that
            know nothing.
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
    columns, buffers = yield [
        (footer.column_table, footer.num_columns * ENTRY_SIZE),
        (footer.global_table, footer.num_global_buffers * ENTRY_SIZE),
    ]
    column_table = decode_table(columns.to_pybytes(), size, "column", path)
    global_table = decode_table(buffers.to_pybytes(), size, "global buffer", path)
    described = yield from fetch(*global_table[0])
    try:
        schema, num_rows = _parse_descriptor(described.to_pybytes(), (footer.major, footer.minor))
    except (CorruptFileError, FormatError) as error:
        raise CorruptFileError(error.message, path=path, field=error.field) from error

    def parse(data: bytes, index: int) -> Column:
        return decode_column(data, size, index, path)

    return Contents(schema, num_rows, column_table, global_table, parse)


@lru_cache(maxsize=64)
def _parse_descriptor(data: bytes, version: tuple[int, int]) -> tuple[Schema, int]:
    # The files of a dataset mostly have the same schema, and often as many rows.
    descriptor = decode_descriptor(data, "")
    # Writers of 2.2 list the parts of a blob's description without ids, behind the blob's own field.
    fields = [field for field in descriptor.schema.fields if field.id >= 0]
    schema = Schema.from_protos(fields, dict(descriptor.schema.metadata))
    if version >= _WITH_DESCRIPTORS:
        schema = replace(schema, fields=tuple(show_logical_blobs(field) for field in schema.fields))
    return schema, descriptor.length
