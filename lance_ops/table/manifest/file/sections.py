"""Sections of manifest files: their framing and footer, shared by manifest and summary.

Each section is a little-endian u32 length and a message. Source: format, "Manifest".
"""

import struct
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from lance_ops.errors import (
    CorruptManifestError,
    VersionNotFoundError,
)
from lance_ops.pb import summary_pb2, table_pb2
from lance_ops.storage import Store
from lance_ops.storage.retry import unless_gone
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.wire import unknown_bytes

LENGTH = struct.Struct("<I")
FOOTER = struct.Struct("<qhh4s")
MAGIC = b"LANC"
VERSION = (0, 2)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_M = TypeVar("_M", bound=Message)


def read_bytes(store: Store, location: ManifestLocation) -> pa.Buffer:
    """Read all bytes of the manifest of a version, usually with one request.

    Raises:
        VersionNotFoundError: The file was removed, as a new listing confirms.
        InconsistentStoreError: A listing names the file, and it cannot be read.
    """
    data = unless_gone(store, location.path, lambda: store.read(location.path))
    if data is None:
        raise VersionNotFoundError(
            f"the manifest of version {location.version} does not exist; cleanup may have removed it",
            path=f"{store.uri}/{location.path}",
        )
    return data


def check_version(version: int, location: ManifestLocation, path: str) -> None:
    """Check that the version in a manifest matches its file name.

    Raises:
        CorruptManifestError: It does not.
    """
    if version != location.version:
        raise CorruptManifestError(
            f"the file is named for version {location.version} but contains version {version}",
            path=path,
            field="version",
        )


def decode_view(content: memoryview, path: str) -> summary_pb2.ManifestView:
    """Decode the manifest message found by the footer; fragments, schema and config stay serialised.

    Raises:
        CorruptManifestError: The bytes are truncated or damaged.
    """
    return parse_message(summary_pb2.ManifestView, manifest_section(content, path), path, "manifest")


def manifest_section(content: memoryview, path: str) -> bytes:
    """Return the serialised manifest message, found by the footer.

    Raises:
        CorruptManifestError: The bytes are truncated or damaged.
    """
    if len(content) < FOOTER.size:
        raise CorruptManifestError(
            f"the file is truncated: it has {len(content)} bytes, fewer than the {FOOTER.size} of its footer",
            path=path,
        )
    end = len(content) - FOOTER.size
    position, _, _, magic = FOOTER.unpack(content[end:])
    if magic != MAGIC:
        raise CorruptManifestError(
            "the file does not end with the magic bytes LANC", path=path, hint="it may be truncated"
        )
    return read_section(content, position, end, path, "manifest")


def read_section(content: memoryview, position: int, end: int, path: str, field: str) -> bytes:
    """Return the message at a position; `field` names it in errors.

    Raises:
        CorruptManifestError: It is not within the file.
    """
    if not 0 <= position <= end - LENGTH.size:
        raise CorruptManifestError(f"section starts at {position} of {end} bytes", path=path, field=field)
    start = position + LENGTH.size
    (length,) = LENGTH.unpack(content[position:start])
    if length > end - start:
        raise CorruptManifestError(
            f"section of {length} bytes at {start} exceeds the file of {end} bytes", path=path, field=field
        )
    return bytes(content[start : start + length])


def parse_message(kind: type[_M], data: bytes, path: str, field: str) -> _M:
    """Parse a message; `field` names it in errors.

    Raises:
        CorruptManifestError: It cannot be read.
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise CorruptManifestError(f"message cannot be parsed: {error}", path=path, field=field) from error


def index_section(
    content: memoryview, message: table_pb2.Manifest | summary_pb2.ManifestView, path: str
) -> bytes | None:
    """Return the serialised IndexSection; None when there is no index.

    Raises:
        CorruptManifestError: It is not within the file.
    """
    if not message.HasField("index_section"):
        return None
    return read_section(content, message.index_section, len(content) - FOOTER.size, path, "index_section")


def parse_indices(data: bytes, path: str) -> tuple[tuple[IndexMetadata, ...], bytes]:
    """Parse the index entries, and the other fields of the section."""
    section = parse_message(table_pb2.IndexSection, data, path, "index_section")
    indices = tuple(IndexMetadata.from_proto(index, path=path) for index in section.indices)
    return indices, unknown_bytes(section)


def decode_transaction(
    content: memoryview, view: table_pb2.Manifest | summary_pb2.ManifestView, path: str
) -> bytes | None:
    """Return the serialised Transaction inside the file; None when there is none.

    Raises:
        CorruptManifestError: It is not within the file.
    """
    if view.HasField("transaction_section"):
        position = view.transaction_section
    elif view.HasField("inline_transaction_section"):
        position = view.inline_transaction_section
    else:
        return None
    return read_section(content, position, len(content) - FOOTER.size, path, "transaction_section")


def decode_timestamp(message: table_pb2.Manifest | summary_pb2.ManifestView, path: str) -> datetime:
    """Return the commit time of the version; UTC.

    Raises:
        CorruptManifestError: The timestamp is missing or out of range.
    """
    # Cleanup depends on age: a manifest without a timestamp must not look like the oldest one.
    if not message.HasField("timestamp"):
        raise CorruptManifestError("the version has no timestamp", path=path, field="timestamp")
    stamp = message.timestamp
    try:
        return EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as error:
        raise CorruptManifestError(
            f"the timestamp of {stamp.seconds} seconds is out of range", path=path, field="timestamp"
        ) from error
