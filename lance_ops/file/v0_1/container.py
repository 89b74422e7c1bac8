"""Container of 0.1 files: pages, a page table, statistics, a manifest, metadata, and a footer.

Layout, from the end of the file backwards: footer (16 bytes: i64 position of the metadata, u16 major, u16
minor, mark), metadata message, manifest message with the file's own schema. A u32 length precedes both
messages. All columns share their batches (row groups), whose row offsets the metadata list. The page table
holds a pair (i64 position, i64 length) for each field and batch, field after field, for every field id from
the least to the greatest of the file; ids that have no pages keep pairs of zeros.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from lance_ops.errors import CorruptFileError, FormatError
from lance_ops.file.container.contents import Contents
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.container.read import ENTRY_SIZE, Column
from lance_ops.file.io.fetch import Steps, fetch
from lance_ops.file.schema.model import Schema
from lance_ops.file.v0_1.page_table import PageTable, decode_pages
from lance_ops.file.v0_1.statistics import read_bounds
from lance_ops.pb import file_pb2, table_pb2

FOOTER_SIZE = 16

_FOOTER = struct.Struct("<qHH4s")
_LENGTH = struct.Struct("<I")

_M = TypeVar("_M", bound=Message)


def read_contents(tail: bytes, size: int, path: str) -> Steps[Contents]:
    """Open a 0.1 file.

    Args:
        tail: Its last bytes, the footer at least.
        size: Of the file.
        path: For errors.

    Raises:
        CorruptFileError: The file is truncated or damaged.
    """
    if len(tail) < FOOTER_SIZE:
        raise CorruptFileError("the file is shorter than its footer", path=path)
    position, *_ = _FOOTER.unpack(tail[-FOOTER_SIZE:])
    end = size - FOOTER_SIZE
    metadata = yield from _read_message(file_pb2.Metadata(), position, end, "metadata", path)
    schema = Schema(())
    if metadata.manifest_position:
        manifest = table_pb2.Manifest()
        yield from _read_message(manifest, metadata.manifest_position, end, "manifest", path)
        try:
            schema = Schema.from_protos(manifest.fields, dict(manifest.schema_metadata))
        except FormatError as error:
            raise CorruptFileError(error.message, path=path, field=error.field) from error
    starts = _check_batches(metadata, path)
    table = _find_page_table(metadata.page_table_position, len(starts) - 1, schema, end, path)
    logical_types = {node.id: node.logical_type for node in schema.walk()}
    first_id = min(logical_types, default=0)

    def parse(data: bytes, index: int) -> Column:
        logical_type = logical_types.get(first_id + index, "")
        return decode_pages(data, starts, logical_type, size, f"column {index}", path)

    def bounds(field_ids: Sequence[int]) -> Steps[dict[int, PageBounds]]:
        return read_bounds(metadata.statistics, starts, field_ids, size, path)

    has_statistics = metadata.HasField("statistics")
    return Contents(schema, starts[-1], table, (), parse, bounds if has_statistics else None)


def _read_message(message: _M, position: int, end: int, what: str, path: str) -> Steps[_M]:
    if not 0 <= position <= end - _LENGTH.size:
        raise CorruptFileError(f"position {position} is outside of the file", path=path, field=what)
    (length,) = _LENGTH.unpack((yield from fetch(position, _LENGTH.size)))
    start = position + _LENGTH.size
    if start + length > end:
        raise CorruptFileError(f"{length} bytes at {start} are outside of the file", path=path, field=what)
    data = yield from fetch(start, length)
    try:
        message.ParseFromString(data.to_pybytes())
    except DecodeError as error:
        raise CorruptFileError(f"metadata cannot be parsed: {error}", path=path, field=what) from error
    return message


def _check_batches(metadata: file_pb2.Metadata, path: str) -> tuple[int, ...]:
    offsets = tuple(metadata.batch_offsets) or (0,)
    if offsets[0] != 0 or any(first > second for first, second in pairwise(offsets)):
        raise CorruptFileError("the row offsets of the batches do not ascend from 0", path=path)
    return offsets


def _find_page_table(position: int, num_batches: int, schema: Schema, end: int, path: str) -> PageTable:
    ids = [node.id for node in schema.walk()]
    width = num_batches * ENTRY_SIZE
    # Without a schema the columns are known from the table's metadata; the remaining space bounds their
    # number.
    columns = max(ids) - min(ids) + 1 if ids else max(end - position, 0) // max(width, 1)
    if position + columns * width > end:
        raise CorruptFileError(
            f"a page table of {columns} fields and {num_batches} batches does not fit at {position}",
            path=path,
            field="page_table_position",
        )
    return PageTable(position, num_batches, columns)
