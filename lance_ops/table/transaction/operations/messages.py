"""Wire parts that several operations share."""

from collections.abc import Iterable, Mapping

from google.protobuf.message import Message

from lance_ops.file.schema.model import Schema
from lance_ops.pb import file_pb2, table_pb2
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.wire import unknown_bytes, unmodelled_fields


def rest(message: Message, *modelled: str) -> bytes:
    """The fields of a message that its value has no place for."""
    return unknown_bytes(message, unmodelled_fields(message, frozenset(modelled)))


def fragments_of(messages: Iterable[table_pb2.DataFragment]) -> tuple[Fragment, ...]:
    """Fragments from their messages."""
    return tuple(Fragment.from_proto(message) for message in messages)


def fragment_messages(fragments: Iterable[Fragment]) -> list[table_pb2.DataFragment]:
    """Messages of fragments."""
    return [fragment.to_proto() for fragment in fragments]


def schema_of(fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None) -> Schema:
    """A schema from the messages of its fields."""
    return Schema.from_protos(fields, metadata or {})


def schema_metadata(schema: Schema) -> dict[str, bytes]:
    """Metadata of a schema in an order that is always the same."""
    return {key: schema.metadata[key] for key in sorted(schema.metadata)}
