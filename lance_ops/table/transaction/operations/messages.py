"""Wire parts shared by several operations."""

from collections.abc import Iterable, Mapping

from google.protobuf.message import Message

from lance_ops.file.schema.model import Schema
from lance_ops.pb import file_pb2, table_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.wire import unknown_bytes, unmodelled_fields


def rest(message: Message, *modelled: str) -> bytes:
    """Return the fields of a message without an attribute of its value."""
    return unknown_bytes(message, unmodelled_fields(message, frozenset(modelled)))


def fragments_of(messages: Iterable[table_pb2.DataFragment]) -> tuple[Fragment, ...]:
    """Return fragments from their messages."""
    return tuple(Fragment.from_proto(message) for message in messages)


def fragment_messages(fragments: Iterable[Fragment]) -> list[table_pb2.DataFragment]:
    """Messages of fragments."""
    return [fragment.to_proto() for fragment in fragments]


def schema_of(fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None) -> Schema:
    """Convert field messages to a schema."""
    return Schema.from_protos(fields, metadata or {})


def schema_metadata(schema: Schema) -> dict[str, bytes]:
    """Return metadata of a schema in a deterministic order."""
    return {key: schema.metadata[key] for key in sorted(schema.metadata)}
