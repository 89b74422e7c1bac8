"""Transaction: an operation with its read version and UUID.

It is stored twice: as a section of its manifest, and in `_transactions/`, where it appears before the
manifest does. Source: transaction.proto; format, "Committing Datasets".

Transaction codec: convert operations to and from the messages of transaction.proto.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-not-found]  # no stub

from lance_ops.errors import CorruptManifestError, FormatError, InvalidArgumentError, check_type
from lance_ops.pb import transaction_pb2
from lance_ops.storage import BytesLike, Store, validate_relative_path
from lance_ops.table.manifest.file.summary import ManifestSummary
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.wire import unknown_bytes
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


TRANSACTIONS_DIRECTORY = "_transactions"

JOB_KEY = "lance_ops.job_key"
"""Transaction property: key of the job; a job commits at most once."""

JOB_WORK = "lance_ops.job_work"
"""Transaction property of commits that several runs of a job may make of the same files: job and incarnation.
"""

ROW_ORDER_KEY = "lance_ops.row_order"
"""Property of a Rewrite whose writer guarantees the row order: `ROW_ORDER_KEPT`."""

ROW_ORDER_KEPT = "kept"

# Part of a UUID derived from its job key, so that a listing finds the transactions of a job.
_JOB_PREFIX_LENGTH = len("01234567-89ab-8def-")

MARK_BITS = 48
"""Length of a `job_mark`."""

# A file named for a job belongs to the job; it does not prove that the job is done.
_WORK = "\0work:"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One commit, done or attempted.

    Attributes:
        read_version: Version from which the operation was planned; 0 when there was none.
        uuid: Hyphenated, unique.
        operation: The change.
        properties: Strings of the writer; `JOB_KEY` is ours.
        tag: Name for the new version inside the manifest, apart from `_refs/tags`; empty usually.
        blob_operation: Change of the blob dataset of old tables by the same commit, as a serialised
            Transaction that has this field alone; empty for none.
        unknown: Serialised fields that this version of lance_ops does not know.
    """

    read_version: int
    uuid: str
    operation: Operation
    properties: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""
    blob_operation: bytes = b""
    unknown: bytes = b""

    @property
    def file_name(self) -> str:
        """Name relative to `_transactions/`."""
        return f"{self.read_version}-{self.uuid}.txn"

    @property
    def path(self) -> str:
        """Path relative to the root of the dataset."""
        return f"{TRANSACTIONS_DIRECTORY}/{self.file_name}"

    @property
    def job_key(self) -> str | None:
        """Key of the job that the commit belongs to, if any."""
        return self.properties.get(JOB_KEY)

    def replace(self, **changes: object) -> "Transaction":
        """Return a copy with changed attributes."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def describe(self) -> str:
        """Describe it in one line: `Rewrite of fragments 3, 4 into 5 (transaction 0c5f11aa…)`."""
        return f"{self.operation.describe()} (transaction {self.uuid[:8]}…, read version {self.read_version})"


def new_transaction(
    operation: Operation, read_version: int, *, properties: Mapping[str, str] | None = None
) -> Transaction:
    """Wrap an operation in a transaction.

    Args:
        operation: The operation to commit.
        read_version: Version from which it was planned.
        properties: Strings to store with it. A job key among them also determines a part of the UUID, so that
            it is found without reading every version.
    """
    noted = dict(properties or {})
    return Transaction(read_version, job_uuid(noted.get(JOB_KEY)), operation, noted)


def check_job_key(job_key: object) -> None:
    """Check a job key; under an empty one all work would count as the same.

    Raises:
        InvalidArgumentError: It is not a string, or empty.
    """
    check_type(job_key, str, "a job key", field="job_key")
    assert isinstance(job_key, str)
    if not job_key:
        raise InvalidArgumentError(
            "job_key must not be empty", field="job_key", hint="name the unit of work, or omit job_key"
        )
    if "\0" in job_key:
        raise InvalidArgumentError("job_key must not contain a null character", field="job_key")


def work_key(prefix: str, incarnation: str = "") -> str:
    """Return the key for names of files that a job commits in several commits, or without key.

    Nothing is committed under it. It replaces the job key in file names.

    Args:
        prefix: `job_uuid_prefix` of the job.
        incarnation: Distinguishes successive runs under the same key.
    """
    return f"{_WORK}{incarnation}:{prefix.rstrip('-')}"


def job_uuid_prefix(job_key: str) -> str:
    """Return the first characters of the UUIDs of all transactions of a job, or of its files."""
    digest = blake2b(job_key.encode(), digest_size=16).digest()
    name = str(uuid.UUID(bytes=digest, version=4))
    if not job_key.startswith(_WORK):
        # Version 8 of RFC 9562: custom bits.
        name = name.replace("-4", "-8", 1)
    return name[:_JOB_PREFIX_LENGTH]


def job_uuid(job_key: str | None) -> str:
    """Return a new UUID derived from a job; random without a job."""
    chance = str(uuid.uuid4())
    return chance if job_key is None else job_uuid_prefix(job_key) + chance[_JOB_PREFIX_LENGTH:]


def job_mark(job_key: str) -> int:
    """Return the part of a job in file names without a whole UUID: the first 48 bits of its prefix."""
    return int(job_uuid_prefix(job_key).replace("-", "")[: MARK_BITS // 4], 16)


def encode_transaction(transaction: Transaction) -> bytes:
    """Serialise a transaction, deterministically."""
    message = transaction_pb2.Transaction(
        read_version=transaction.read_version, uuid=transaction.uuid, tag=transaction.tag
    )
    message.transaction_properties.update(transaction.properties)
    encode_operation(transaction.operation, message)
    message.MergeFromString(transaction.blob_operation)
    message.MergeFromString(transaction.unknown)
    return message.SerializeToString(deterministic=True)


def decode_transaction(data: BytesLike, *, path: str) -> Transaction:
    """Read a serialised transaction.

    Args:
        data: The message.
        path: File that it comes from, for errors.

    Raises:
        CorruptManifestError: The bytes are not a transaction, or a part of it cannot be read.
    """
    try:
        message = transaction_pb2.Transaction.FromString(bytes(memoryview(data)))
        operation = decode_operation(message, path=path)
    except DecodeError as error:
        raise CorruptManifestError(f"transaction cannot be parsed: {error}", path=path) from error
    except FormatError as error:
        raise CorruptManifestError(error.message, path=path, field=error.field) from error
    return Transaction(
        read_version=message.read_version,
        uuid=message.uuid,
        operation=operation,
        properties=dict(message.transaction_properties),
        tag=message.tag,
        blob_operation=_blob_operation(message),
        unknown=unknown_bytes(message),
    )


def _blob_operation(message: transaction_pb2.Transaction) -> bytes:
    kept = message.WhichOneof("blob_operation")
    if kept is None:
        return b""
    alone = transaction_pb2.Transaction()
    getattr(alone, kept).CopyFrom(getattr(message, kept))
    return alone.SerializeToString(deterministic=True)


def read_transaction(store: Store, manifest: Manifest | ManifestSummary) -> Transaction | None:
    """Read the transaction of a version: from the manifest itself, else from its file.

    Args:
        store: Root of the dataset.
        manifest: The manifest of the version, or its summary.

    Returns:
        None when the manifest names none, as of very old writers.

    Raises:
        FileMissingError: The manifest names a file that does not exist.
        CorruptManifestError: The transaction cannot be read.
        PathEscapeError: The manifest names a file outside of `_transactions/`.
    """
    if manifest.transaction is not None:
        return decode_transaction(
            manifest.transaction, path=f"{store.uri} (version {manifest.version}, inline transaction)"
        )
    if not manifest.transaction_file:
        return None
    path = transaction_path(manifest.transaction_file)
    return decode_transaction(store.read(path), path=f"{store.uri}/{path}")


def transaction_path(name: str) -> str:
    """Return the path of a transaction file that a manifest names.

    Raises:
        PathEscapeError: The name leaves `_transactions/`.
    """
    return f"{TRANSACTIONS_DIRECTORY}/{validate_relative_path(name)}"
