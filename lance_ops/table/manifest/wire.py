"""Wire format helpers that protobuf lacks: unmodelled fields, and UUID messages."""

import uuid

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-not-found]  # no stub

from lance_ops.errors import CorruptManifestError
from lance_ops.pb import table_pb2


def unmodelled_fields(message: Message, modelled: frozenset[str]) -> tuple[str, ...]:
    """Return names of the fields that are set in `message`, known to its schema, and not in `modelled`."""
    return tuple(descriptor.name for descriptor, _ in message.ListFields() if descriptor.name not in modelled)


def unknown_bytes(message: Message, unmodelled: tuple[str, ...] = (), nested: tuple[str, ...] = ()) -> bytes:
    """Serialise the fields of `message` that its value does not hold.

    Newer writers add fields; a read-modify-write of ours must not lose them (architecture, invariant 7).
    Merged with the known fields of the value, the result restores the message.

    Args:
        message: Any message.
        unmodelled: Fields of the schema without an attribute of the value, see `unmodelled_fields`.
        nested: Nested messages that the value holds field by field: their unknown fields are included.
    """
    inside = {name: unknown_bytes(getattr(message, name)) for name in nested if message.HasField(name)}
    if not unmodelled and len(UnknownFieldSet(message)) == 0 and not any(inside.values()):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for descriptor in message.DESCRIPTOR.fields:
        if descriptor.name not in unmodelled:
            rest.ClearField(descriptor.name)
    for name, data in inside.items():
        if data:
            getattr(rest, name).ParseFromString(data)
    return rest.SerializeToString()


def uuid_from_proto(message: table_pb2.UUID, *, path: str, field: str) -> uuid.UUID:
    """Convert a UUID message (16 raw bytes) to `uuid.UUID`.

    Raises:
        CorruptManifestError: It does not hold 16 bytes.
    """
    if len(message.uuid) != 16:
        raise CorruptManifestError(
            f"a UUID must have 16 bytes, got {len(message.uuid)}", path=path, field=field
        )
    return uuid.UUID(bytes=message.uuid)
