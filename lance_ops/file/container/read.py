"""Reader of the 2.x container: data buffers, a description of each column, two tables, and a footer.

Layout, from the end of the file backwards: footer (40 bytes), table of global buffers, table of columns,
column metadata; everything before is data. Global buffer 0 is the file descriptor (schema and number of
rows). Readers check every position against the size of the file before they use or allocate anything (format
text, "File layout").
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from google.protobuf import any_pb2
from google.protobuf.message import DecodeError, Message

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.pb import file2_pb2, file_pb2

MAGIC = b"LANC"
FOOTER_SIZE = 40
ALIGNMENT = 64
"""Alignment of data buffers in bytes."""

# Bound the memory of the caches: symbol tables may be long, and columns have many pages.
_SMALL_ENCODING = 256
# Row positions are signed 64-bit numbers, and some are multiplied by values per row.
_MAX_ROWS = 1 << 56

_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
_BYTES = tuple(bytes([number]) for number in range(128))
_VERSION = struct.Struct("<HH4s")

ENTRY_SIZE = _ENTRY.size

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 40 bytes.

    Attributes:
        column_metadata_start: Position of the first column's metadata.
        column_table: Position of the column table.
        global_table: Position of the table of global buffers.
        num_global_buffers: At least 1.
        num_columns: Physical columns.
        major: Major number of the storage version.
        minor: Minor number of the storage version.
    """

    column_metadata_start: int
    column_table: int
    global_table: int
    num_global_buffers: int
    num_columns: int
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Encoding:
    """Encoding of a page or column: a message of the storage version.

    Attributes:
        type_url: Type of the message.
        value: Its bytes.
    """

    type_url: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a column.

    Attributes:
        buffers: Position and size in bytes of each buffer.
        length: Rows; for the items of a list, items.
        priority: Number of the top-level row that the page starts with.
        encoding: Encoding of the buffers.
    """

    buffers: tuple[tuple[int, int], ...]
    length: int
    priority: int
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Column:
    """One physical column.

    Attributes:
        encoding: Encoding of the column.
        pages: In the order of their rows.
        buffers: Position and size in bytes of the buffers that all pages share.
    """

    encoding: Encoding
    pages: tuple[Page, ...]
    buffers: tuple[tuple[int, int], ...] = ()


def decode_version(tail: bytes, path: str) -> tuple[int, int]:
    """Decode the version numbers at the very end, which files of all versions share.

    Args:
        tail: The last bytes of the file.
        path: For errors.

    Raises:
        CorruptFileError: This is not a Lance file, or its end is missing.
    """
    if len(tail) < _VERSION.size or tail[-4:] != MAGIC:
        raise CorruptFileError(
            "the file does not end with the magic bytes LANC",
            path=path,
            hint="the file is truncated or not a Lance data file",
        )
    major, minor, _ = _VERSION.unpack(tail[-_VERSION.size :])
    return major, minor


def decode_footer(tail: bytes, size: int, path: str) -> Footer:
    """Parse and check the footer.

    Args:
        tail: At least the last 40 bytes.
        size: Of the whole file.
        path: For errors.

    Raises:
        CorruptFileError: Positions are inconsistent with each other or with the size of the file.
    """
    decode_version(tail, path)
    if len(tail) < FOOTER_SIZE:
        raise CorruptFileError("the file is shorter than its footer", path=path)
    *fields, _magic = _FOOTER.unpack(tail[-FOOTER_SIZE:])
    footer = Footer(*fields)
    end = size - FOOTER_SIZE
    # Both tables are between the column metadata and the footer, which bounds the counts.
    _check_range(footer.column_table, footer.num_columns * ENTRY_SIZE, end, "column table", path)
    _check_range(footer.global_table, footer.num_global_buffers * ENTRY_SIZE, end, "global buffers", path)
    if footer.column_metadata_start > end:
        raise CorruptFileError("the column metadata start after the end of the file", path=path)
    if footer.num_global_buffers < 1:
        raise CorruptFileError("the file has no descriptor", path=path, field="num_global_buffers")
    return footer


def encode_footer(footer: Footer) -> bytes:
    """Serialise the footer of 40 bytes."""
    return _FOOTER.pack(
        footer.column_metadata_start,
        footer.column_table,
        footer.global_table,
        footer.num_global_buffers,
        footer.num_columns,
        footer.major,
        footer.minor,
        MAGIC,
    )


def decode_table(data: bytes, size: int, what: str, path: str) -> tuple[tuple[int, int], ...]:
    """Parse a table of positions and sizes.

    Args:
        data: The whole table.
        size: Size of the whole file, which bounds all entries.
        what: Name of the entries, for errors.
        path: For errors.

    Raises:
        CorruptFileError: An entry lies outside of the file.
    """
    entries = tuple(_ENTRY.iter_unpack(data))
    for index, (position, length) in enumerate(entries):
        if position + length > size:
            _check_range(position, length, size, f"{what} {index}", path)
    return entries


def encode_table(entries: Iterable[tuple[int, int]]) -> bytes:
    """Serialise a table of positions and sizes."""
    return b"".join(_ENTRY.pack(position, size) for position, size in entries)


def decode_descriptor(data: bytes, path: str) -> file_pb2.FileDescriptor:
    """Parse the file descriptor.

    Raises:
        CorruptFileError: The bytes are not such a message.
    """
    return _parse(file_pb2.FileDescriptor(), data, "file descriptor", path)


def decode_column(data: bytes, size: int, index: int, path: str) -> Column:
    """Parse the metadata of one column.

    Args:
        data: The message.
        size: Size of the whole file, which bounds all buffers.
        index: Of the column, for errors.
        path: For errors.

    Raises:
        CorruptFileError: The bytes are not such a message, or a buffer lies outside of the file.
        UnsupportedError: The encoding is stored separately.
    """
    try:
        return _decode_column(data, size)
    except DecodeError as error:
        raise _unreadable(error, f"column {index}", path) from error
    except (CorruptFileError, UnsupportedError) as error:
        where = f"column {index}{error.field or ''}"
        raise type(error)(error.message, path=path, field=where) from error


def _decode_column(data: bytes, size: int) -> Column:
    message = file2_pb2.ColumnMetadata.FromString(data)
    pages = []
    rows = 0
    for number, page in enumerate(message.pages):
        try:
            buffers = _decode_buffers(page, size)
            encoding = _decode_encoding(page.encoding)
        except (CorruptFileError, UnsupportedError) as error:
            raise type(error)(error.message, field=f", page {number}") from error
        rows += page.length
        pages.append(Page(buffers, page.length, page.priority, encoding))
    if rows > _MAX_ROWS:
        raise CorruptFileError("the pages of a column have more rows than supported")
    return Column(_decode_encoding(message.encoding), tuple(pages), _decode_buffers(message, size))


def encode_column(column: Column) -> bytes:
    """Serialise the metadata message of one column."""
    # Written by hand: files of wide tables have thousands of them, and message objects are slow.
    if len(column.pages) == 1 and not column.buffers:
        page = column.pages[0]
        value = page.encoding.value
        if not page.buffers and 0 < len(value) <= _SMALL_ENCODING:
            own = column.encoding
            head, tail = _around(
                own.type_url, own.value, page.encoding.type_url, len(value), page.length, page.priority
            )
            return head + value + tail
    return _encode_column(column)


@lru_cache(maxsize=256)
def _around(
    type_url: str, value: bytes, page_url: str, size: int, length: int, priority: int
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the encoding of the only page."""
    page = Page((), length, priority, Encoding(page_url, bytes(size)))
    whole = _encode_column(Column(Encoding(type_url, value), (page,)))
    tail = _encode_priority(priority)
    return whole[: len(whole) - size - len(tail)], tail


def _encode_column(column: Column) -> bytes:
    parts = [b"\x0a", _delimited(_direct(column.encoding))]
    for page in column.pages:
        described = _encode_page(page)
        parts += (b"\x12", _varint(len(described)), described)
    parts += _encode_buffers(column.buffers, b"\x1a", b"\x22")
    return b"".join(parts)


def _encode_page(page: Page) -> bytes:
    parts = _encode_buffers(page.buffers, b"\x0a", b"\x12")
    # Zero fields are omitted.
    if page.length:
        parts += (b"\x18", _varint(page.length))
    parts += (b"\x22", _delimited(_direct(page.encoding)), _encode_priority(page.priority))
    return b"".join(parts)


def _encode_priority(priority: int) -> bytes:
    return b"\x28" + _varint(priority) if priority else b""


def _encode_buffers(buffers: Sequence[tuple[int, int]], positions: bytes, sizes: bytes) -> list[bytes]:
    """Serialise positions and sizes, each list after the key of its field."""
    if not buffers:
        return []
    return [
        positions,
        _delimited(b"".join([_varint(position) for position, _ in buffers])),
        sizes,
        _delimited(b"".join([_varint(size) for _, size in buffers])),
    ]


def _direct(encoding: Encoding) -> bytes:
    wrap = _wrap_recurring if len(encoding.value) <= _SMALL_ENCODING else _wrap
    return wrap(encoding.type_url, encoding.value)


def _wrap(type_url: str, value: bytes) -> bytes:
    """Serialise an encoding within its page or column: three nested messages."""
    wrapped = any_pb2.Any(type_url=type_url, value=value).SerializeToString(deterministic=True)
    inner = b"\x0a" + _delimited(wrapped) if wrapped else b""
    return b"\x12" + _delimited(inner)


@lru_cache(maxsize=1024)
def _wrap_recurring(type_url: str, value: bytes) -> bytes:
    # All columns of a file have similar encodings, and so do their pages.
    return _wrap(type_url, value)


def _delimited(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Serialise a number as a varint, 7 bits a byte."""
    if number < 1 << 7:
        return _BYTES[number]
    if number < 1 << 14:
        return bytes((number & 127 | 128, number >> 7))
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _decode_buffers(
    message: file2_pb2.ColumnMetadata | file2_pb2.ColumnMetadata.Page, size: int
) -> tuple[tuple[int, int], ...]:
    # As lists: each access to a message costs more than the rest.
    positions, lengths = message.buffer_offsets[:], message.buffer_sizes[:]
    if len(positions) != len(lengths):
        raise CorruptFileError("a page has different numbers of buffer offsets and sizes")
    if not positions:
        return ()
    buffers = tuple(zip(positions, lengths, strict=True))
    for position, length in buffers:
        if position + length > size:
            raise _outside(position, length, size)
    return buffers


def _decode_encoding(encoding: file2_pb2.Encoding) -> Encoding:
    location = encoding.WhichOneof("location")
    if location == "direct":
        data = encoding.direct.encoding
        return _unpack_recurring(data) if len(data) <= _SMALL_ENCODING else _unpack(data)
    if location == "indirect":
        raise UnsupportedError("the encoding of a page is stored separately, which is not supported")
    return Encoding("", b"")


def _unpack(data: bytes) -> Encoding:
    wrapped = any_pb2.Any.FromString(data)
    return Encoding(wrapped.type_url, wrapped.value)


@lru_cache(maxsize=1024)
def _unpack_recurring(data: bytes) -> Encoding:
    # Most pages of a column have the same encoding, in all data files of a table.
    return _unpack(data)


def _check_range(position: int, length: int, size: int, what: str, path: str) -> None:
    if position + length > size:
        raise CorruptFileError(_outside(position, length, size).message, path=path, field=what)


def _outside(position: int, length: int, size: int) -> CorruptFileError:
    return CorruptFileError(
        f"bytes {position} to {position + length} are outside of the file of {size} bytes"
    )


def _parse(message: _M, data: bytes, what: str, path: str) -> _M:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise _unreadable(error, what, path) from error
    return message


def _unreadable(error: DecodeError, what: str, path: str) -> CorruptFileError:
    return CorruptFileError(f"metadata cannot be parsed: {error}", path=path, field=what)
