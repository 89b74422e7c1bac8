"""Transaction codec: convert operations to and from the messages of transaction.proto."""

from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-not-found]  # no stub

from lance_ops.pb import transaction_pb2
from lance_ops.table.transaction.operations import OPERATIONS, ForeignOperation, Operation
from lance_ops.table.transaction.operations.foreign import DRAFT_KINDS, UNKNOWN_KIND, WIRE_NAMES

Proto = transaction_pb2.Transaction

_CLASSES: dict[str, type[Operation]] = {
    **{operation.wire_name: operation for operation in OPERATIONS},
    **dict.fromkeys(WIRE_NAMES.values(), ForeignOperation),
}


def encode_operation(operation: Operation, transaction: Proto) -> None:
    """Set the operation of a transaction message; an unknown one is already in its unknown fields."""
    if isinstance(operation, ForeignOperation) and not operation.is_understood:
        return
    message = getattr(transaction, WIRE_NAMES.get(operation.kind, operation.wire_name))
    message.SetInParent()
    operation.encode(message)
    message.MergeFromString(operation.unknown)


def decode_operation(transaction: Proto, *, path: str) -> Operation:
    """Read the operation of a transaction message.

    Returns:
        A `ForeignOperation` of a kind of `DRAFT_KINDS`, or `Unknown`, when no known operation is set.

    Raises:
        CorruptManifestError: A part of the operation cannot be read.
    """
    wire_name = transaction.WhichOneof("operation")
    if wire_name is None:
        numbers = {item.field_number for item in UnknownFieldSet(transaction)}
        drafts = (kind for number, kind in DRAFT_KINDS.items() if number in numbers)
        return ForeignOperation(next(drafts, UNKNOWN_KIND))
    return _CLASSES[wire_name].decode(getattr(transaction, wire_name), path=path)
