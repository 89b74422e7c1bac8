"""Transaction codec: operations to and from the messages of transaction.proto."""

from lance_ops.pb import transaction_pb2
from lance_ops.table.transaction.operations import OPERATIONS, ForeignOperation, Operation
from lance_ops.table.transaction.operations.foreign import UNKNOWN_KIND, WIRE_NAMES

Proto = transaction_pb2.Transaction

_CLASSES: dict[str, type[Operation]] = {
    **{operation.wire_name: operation for operation in OPERATIONS},
    **dict.fromkeys(WIRE_NAMES.values(), ForeignOperation),
}


def encode_operation(operation: Operation, transaction: Proto) -> None:
    """Set the operation of a transaction message; one that is not known is in its unknown fields already."""
    if operation.kind == UNKNOWN_KIND:
        return
    message = getattr(transaction, WIRE_NAMES.get(operation.kind, operation.wire_name))
    message.SetInParent()
    operation.encode(message)
    message.MergeFromString(operation.unknown)


def decode_operation(transaction: Proto, *, path: str) -> Operation:
    """Read the operation of a transaction message.

    Returns:
        A `ForeignOperation` of kind `Unknown` when no known operation is set.

    Raises:
        CorruptManifestError: A part of the operation cannot be read.
    """
    wire_name = transaction.WhichOneof("operation")
    if wire_name is None:
        return ForeignOperation(UNKNOWN_KIND)
    return _CLASSES[wire_name].decode(getattr(transaction, wire_name), path=path)
