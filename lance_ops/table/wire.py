"""What protobuf does not offer by itself: the fields of a message that a value does not model, and UUID messages."""

import uuid

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_ops.errors import CorruptManifestError
from lance_ops.pb import table_pb2


def unknown_bytes(message: Message, *unmodelled: str) -> bytes:
    """The fields of `message` that its value does not hold, serialised.

    Newer writers add fields; a read-modify-write of ours must not lose them (design, invariant 7).
    Appending the result to the serialised known fields restores the message.

    Args:
        message: Any message.
        unmodelled: Names of fields, none of them a message, that the schema has but the value has not.
    """
    present = [name for name in unmodelled if getattr(message, name)]
    if not present and len(UnknownFieldSet(message)) == 0:
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for descriptor in message.DESCRIPTOR.fields:
        if descriptor.name not in present:
            rest.ClearField(descriptor.name)
    return rest.SerializeToString()


def uuid_from_proto(message: table_pb2.UUID, *, path: str, field: str) -> uuid.UUID:
    """A UUID message (16 raw bytes) as `uuid.UUID`.

    Raises:
        CorruptManifestError: It does not hold 16 bytes.
    """
    if len(message.uuid) != 16:
        raise CorruptManifestError(f"a UUID of {len(message.uuid)} bytes", path=path, field=field)
    return uuid.UUID(bytes=message.uuid)
