"""Protobuf messages read out of files with nothing but struct: tests of a floor need no floor above it."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_ops.pb import encodings20_pb2, encodings21_pb2, file2_pb2, index_pb2, mem_wal_pb2, table_pb2

# Imported for the types that an Any may hold.
REGISTERED = (encodings20_pb2, encodings21_pb2, index_pb2, mem_wal_pb2, table_pb2)


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def length_prefixed(data: bytes, position: int) -> bytes:
    """The bytes behind a u32 length."""
    (length,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + length]


def manifest_position(data: bytes) -> int:
    """Where the length of the manifest stands; `data` is a manifest file or a data file of version 0.1."""
    position, _, _, magic = struct.unpack("<qHH4s", data[-16:])
    assert magic == b"LANC"
    return position


def manifests(root: Path) -> dict[Path, table_pb2.Manifest]:
    """Every manifest of a dataset by its path."""
    found = {}
    for path in sorted((root / "_versions").glob("*.manifest")):
        data = path.read_bytes()
        found[path] = table_pb2.Manifest.FromString(length_prefixed(data, manifest_position(data)))
    return found


def edit_manifest(root: Path | str, change: Callable[[table_pb2.Manifest], None]) -> None:
    """Change the newest manifest of a dataset in place, and nothing else of it."""
    found = manifests(Path(root))
    path = max(found, key=lambda path: found[path].version)
    data, message = path.read_bytes(), found[path]
    change(message)
    start, body = manifest_position(data), message.SerializeToString()
    path.write_bytes(data[:start] + struct.pack("<I", len(body)) + body + data[-16:])


def global_buffers(data: bytes) -> list[bytes]:
    """The global buffers of a 2.x data file."""
    _, _, table, count, _, _, _, magic = struct.unpack("<QQQIIHH4s", data[-40:])
    assert magic == b"LANC"
    places = [struct.unpack_from("<QQ", data, table + 16 * i) for i in range(count)]
    return [data[position : position + size] for position, size in places]


def column_metadata(data: bytes) -> list[file2_pb2.ColumnMetadata]:
    """The column metadata of a 2.x data file."""
    _, table, _, _, count, _, _, _ = struct.unpack("<QQQIIHH4s", data[-40:])
    places = [struct.unpack_from("<QQ", data, table + 16 * i) for i in range(count)]
    return [
        file2_pb2.ColumnMetadata.FromString(data[position : position + size]) for position, size in places
    ]


def unpack(packed: AnyMessage) -> Message:
    """The message inside an Any, by the type its URL names."""
    name = packed.type_url.rpartition("/")[2]
    descriptor = descriptor_pool.Default().FindMessageTypeByName(name)
    return message_factory.GetMessageClass(descriptor).FromString(packed.value)


def unknown_fields(message: Message, path: str = "") -> Iterator[str]:
    """Where in `message`, at any depth and inside every Any, bytes lie that our schema has no name for."""
    here = path or type(message).__name__
    for unknown in UnknownFieldSet(message):
        yield f"{here}.{unknown.field_number}"
    if isinstance(message, AnyMessage):
        inner = unpack(message)
        yield from unknown_fields(inner, f"{here}({type(inner).__name__})")
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            values = list(value.values()) if field.message_type.fields_by_name["value"].message_type else []
        elif isinstance(value, Message):
            values = [value]
        else:
            values = list(value)
        for item in values:
            yield from unknown_fields(item, f"{here}.{field.name}")
