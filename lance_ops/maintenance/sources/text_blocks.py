"""Text blocks: a text file as UTF-8, in blocks that end between records.

Arrow parses each block in memory and never has the file: its own readers of text read ahead in a thread, and
once a file is closed its descriptor may be that of another one, whose rows are then mixed in. A block
knows its first line, so that errors name lines.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources.byte_streams import open_bytes

BLOCK_BYTES = 4 << 20
"""Bytes that are read at once; a block has this many, or one record more."""

FIRST_BYTES = 1 << 20
"""Bytes of the first block, from which types are inferred."""

_BINARY = (
    (re.compile(rb"PAR1[\x00-\x1f]"), "a Parquet file"),
    (re.compile(rb"ARROW1\x00"), "an Arrow file"),
    (re.compile(rb"Obj\x01"), "an Avro file"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive, such as a workbook of Excel"),
    (re.compile(rb"\x1f\x8b"), "compressed by gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "compressed by zstd"),
    (re.compile(rb"SQLite format 3\x00"), "an SQLite database"),
)
"""First bytes of files that are often named like text."""

_LONGEST_RECORD = 512 << 20


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Whole records of a file.

    Attributes:
        data: Text in UTF-8, without a byte order mark.
        line: Number of its first line, from 1.
        is_rest: It is what is left at the end of the file, whose last record may not be whole.
    """

    data: bytes
    line: int
    is_rest: bool = False

    def line_at(self, offset: int) -> int:
        """Return the number of the line with the byte at an offset of the block."""
        return self.line + self.data.count(b"\n", 0, offset)


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_blocks(
    path: str, encoding: str, find_end: Callable[[bytes], int], *, size: int = BLOCK_BYTES
) -> Iterator[TextBlock]:
    """Yield the blocks of a file.

    Args:
        path: A path or URI; compressed by the ending of its name.
        encoding: Encoding of the text.
        find_end: Returns the bytes up to the end of the last whole record, 0 without one.
        size: Bytes that are read at once.

    Raises:
        InvalidArgumentError: A record is too long, or bytes are no text of the encoding.
        OSError: The file cannot be read or decompressed, or ends early.
    """
    line, rest, wanted = 1, b"", min(size, FIRST_BYTES)
    with open_bytes(path) as stream:
        # A codec is needed for other encodings alone: Arrow finds what is not UTF-8.
        decode = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
        is_first = True
        while raw := _read(stream, wanted):
            if is_first and encoding == "utf-8" and raw.startswith(codecs.BOM_UTF8):
                raw = raw[len(codecs.BOM_UTF8) :]
            if is_first:
                _refuse_binary(raw, path)
            text = raw if decode is None else _decoded(decode, raw, path, encoding, line)
            data = rest + (text.removeprefix(codecs.BOM_UTF8) if is_first else text)
            is_first = False
            end = find_end(data)
            if not end:
                if len(data) > _LONGEST_RECORD:
                    raise _too_long(path, line)
                # Searched again with twice as much, so that long records cost no square of their length.
                rest, wanted = data, 2 * wanted
                continue
            yield TextBlock(data[:end], line)
            line += data.count(b"\n", 0, end)
            rest, wanted = data[end:], size
        if decode is not None:
            rest += _decoded(decode, b"", path, encoding, line)
    if rest:
        yield TextBlock(rest, line, is_rest=True)


def end_of_lines(data: bytes) -> int:
    """Return the bytes up to the last end of a line."""
    return data.rfind(b"\n") + 1


def _read(stream: _Stream, size: int) -> bytes:
    """Read as many bytes, or all that are left."""
    parts: list[bytes] = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _refuse_binary(raw: bytes, path: str) -> None:
    """Refuse the first bytes of formats that are no text."""
    found = next((what for pattern, what in _BINARY if pattern.match(raw)), None)
    if found is not None:
        raise InvalidArgumentError(
            f"the file is {found}, and no text",
            path=path,
            hint="state its format, such as format='parquet' (--format parquet), or save it as CSV",
        )


def _decoded(decode: codecs.IncrementalDecoder, raw: bytes, path: str, encoding: str, line: int) -> bytes:
    try:
        text = decode.decode(raw, not raw)
    except UnicodeDecodeError as error:
        at = line + error.object[: error.start].count(b"\n")
        raise InvalidArgumentError(
            f"byte 0x{error.object[error.start]:02x} near line {at} is not {encoding}",
            path=path,
            field="encoding",
            hint="state the encoding of the file",
        ) from error
    return text.encode()


def _too_long(path: str, line: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the record that begins at line {line} does not end within {_LONGEST_RECORD >> 20} MiB",
        path=path,
        hint="look for an opening quotation mark without a closing one in that line",
    )
