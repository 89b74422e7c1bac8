"""Data version: unchanged when only the layout of the data changes (architecture, invariant 6).

It is a digest of the UUID of the last transaction that changed rows or columns. Such UUIDs are unique, so
they identify the dataset as well. Walking back to that transaction is usually short. To work after cleanup
too, our commits without data changes have its UUID in their properties.
"""

import contextlib
import hashlib

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptManifestError, FileMissingError, LanceOpsError, VersionNotFoundError
from lance_ops.pb import transaction_pb2
from lance_ops.storage import Store
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.listing import is_detached, locate
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import OPERATIONS
from lance_ops.table.transaction.operations.foreign import KEEP_DATA, WIRE_NAMES
from lance_ops.table.transaction.transaction import Transaction, transaction_path

DATA_TRANSACTION_KEY = "lance_ops.data_transaction"
"""Property of a transaction that changes no data: UUID of the last one that did, as of the version below.

For a restore: as of the version that it restores. The commit loop updates the property with each rebase, so
it is valid for the created version, also after all earlier versions were cleaned up.
"""

_LAYOUT_ONLY = frozenset(operation.wire_name for operation in OPERATIONS if operation.keeps_data).union(
    WIRE_NAMES[kind] for kind in KEEP_DATA
)
_DIGEST_LENGTH = 32


def data_version(store: Store, manifest: Manifest | ManifestSummary) -> str:
    """Return a digest that is equal for two versions of a dataset only if their rows are.

    Args:
        store: Root of the dataset.
        manifest: The version, or its summary.

    Returns:
        32 hexadecimal digits.

    Raises:
        CorruptManifestError: A manifest or transaction on the way back is damaged.
    """
    content = f"lance_ops data version 1\0{data_transaction(store, manifest)}"
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_LENGTH]


def data_transaction(store: Store, manifest: Manifest | ManifestSummary) -> str:
    """Return the UUID of the last transaction that changed the rows of a version.

    A restore makes it that of the restored version. If the versions on the way back were removed and no
    commit recorded it, the oldest transaction found is used: the data version then changes once although the
    data did not, which costs a recomputation and never misses a change.

    Raises:
        CorruptManifestError: A manifest or transaction on the way back is damaged.
    """
    current = manifest
    while True:
        transaction = _read(store, current)
        if transaction is None:
            return _stand_in(current)
        kind = transaction.WhichOneof("operation")
        if kind != "restore" and kind not in _LAYOUT_ONLY:
            return transaction.uuid
        note = transaction.transaction_properties.get(DATA_TRANSACTION_KEY)
        if note:
            return note
        if kind == "restore":
            earlier = transaction.restore.version
        else:
            earlier = transaction.read_version if is_detached(current.version) else current.version - 1
        # Only backwards: a crafted restore must not cause an endless loop.
        if not 0 < earlier < current.version:
            return transaction.uuid
        try:
            current = read_summary(store, locate(store, earlier))
        except VersionNotFoundError:
            return transaction.uuid


def with_data_transaction(store: Store, ours: Transaction, source: Manifest) -> Transaction:
    """Record in a transaction which one made the rows, so that it is known after that version is cleaned up.

    Args:
        store: Root of the dataset.
        ours: Changes no data itself.
        source: The version whose rows it keeps.
    """
    # Only a shortcut: without it, readers walk back through the whole history.
    others = {name: value for name, value in ours.properties.items() if name != DATA_TRANSACTION_KEY}
    with contextlib.suppress(LanceOpsError):
        others[DATA_TRANSACTION_KEY] = data_transaction(store, source)
    return ours.replace(properties=others)


def _read(store: Store, manifest: Manifest | ManifestSummary) -> transaction_pb2.Transaction | None:
    data = manifest.transaction
    if data is None:
        if not manifest.transaction_file:
            return None
        try:
            data = bytes(store.read(transaction_path(manifest.transaction_file)))
        except FileMissingError:
            return None
    try:
        return transaction_pb2.Transaction.FromString(data)
    except DecodeError as error:
        raise CorruptManifestError(
            f"the transaction of version {manifest.version} cannot be read: {error}", path=store.uri
        ) from error


def _stand_in(manifest: Manifest | ManifestSummary) -> str:
    """Return an identifier of the version if its transaction is lost."""
    if manifest.transaction_file:
        # "{read_version}-{uuid}.txn"
        return manifest.transaction_file.partition("-")[2].removesuffix(".txn")
    return f"version {manifest.version} of {manifest.timestamp.isoformat()}"
