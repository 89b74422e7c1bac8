"""Lists of versions: cheap ones, and ones that say what each commit did."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptManifestError, FileMissingError, VersionNotFoundError
from lance_ops.pb import summary_pb2
from lance_ops.storage import Store
from lance_ops.table.describe import describe_operation
from lance_ops.table.manifest_file import ManifestSummary, read_summary
from lance_ops.table.operations import ForeignOperation
from lance_ops.table.run_ahead import has_latency, run_ahead
from lance_ops.table.transaction import JOB_KEY, Transaction, read_transaction
from lance_ops.table.versions import ManifestLocation, list_versions

_THREADS = 16


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version in a list.

    Attributes:
        version: Version number.
        timestamp: When it was made; UTC.
        fragments: Number of fragments.
        manifest_bytes: Size of its manifest.
        transaction_uuid: UUID of the transaction that made it; empty when not recorded.
    """

    version: int
    timestamp: datetime
    fragments: int
    manifest_bytes: int
    transaction_uuid: str


@dataclass(frozen=True, slots=True)
class VersionSize:
    """What a version consists of.

    Attributes:
        fragments: Number of fragments.
        files: Number of data files.
        rows: Live rows.
        deleted_rows: Rows that are deleted and still stored.
        data_bytes: Bytes of the data files as recorded.
    """

    fragments: int = 0
    files: int = 0
    rows: int = 0
    deleted_rows: int = 0
    data_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """What one commit did.

    Attributes:
        version: Version that it made.
        timestamp: When; UTC.
        operation: Name of the operation; empty when its transaction is lost.
        description: What it did, in one line.
        read_version: Version that it was worked out on; None when its transaction is lost.
        uuid: UUID of the transaction; empty when it is lost.
        properties: Notes of the writer.
        size: What the version consists of.
    """

    version: int
    timestamp: datetime
    operation: str
    description: str
    read_version: int | None
    uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)
    size: VersionSize = field(default_factory=VersionSize)

    @property
    def job_key(self) -> str | None:
        """Key of the job that the commit belongs to, if any."""
        return self.properties.get(JOB_KEY)


def read_versions(store: Store) -> list[VersionInfo]:
    """All versions, oldest first. Versions that a concurrent cleanup removes meanwhile are left out.

    Raises:
        CorruptManifestError: A manifest is damaged.
    """
    locations = list_versions(store)
    return [
        VersionInfo(
            version=summary.version,
            timestamp=summary.timestamp,
            fragments=len(summary.fragments),
            manifest_bytes=location.size or 0,
            transaction_uuid=summary.transaction_file.partition("-")[2].removesuffix(".txn"),
        )
        for location, summary in _summaries(store, locations)
    ]


def read_history(store: Store, limit: int | None = None) -> list[HistoryEntry]:
    """What the newest commits did, newest first.

    Args:
        store: Root of the dataset.
        limit: How many; all when None.

    Raises:
        CorruptManifestError: A manifest or transaction is damaged.
    """
    locations = list_versions(store)[::-1][:limit]
    measure = _Measure()
    return [
        _entry(summary, _transaction_or_none(store, summary), measure(summary))
        for _, summary in _summaries(store, locations)
    ]


def _entry(summary: ManifestSummary, transaction: Transaction | None, size: VersionSize) -> HistoryEntry:
    if transaction is None:
        return HistoryEntry(
            summary.version, summary.timestamp, "", "its transaction is lost", None, "", size=size
        )
    operation = transaction.operation
    return HistoryEntry(
        version=summary.version,
        timestamp=summary.timestamp,
        operation=operation.kind if isinstance(operation, ForeignOperation) else operation.name,
        description=describe_operation(operation),
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        properties=transaction.properties,
        size=size,
    )


def _transaction_or_none(store: Store, summary: ManifestSummary) -> Transaction | None:
    try:
        return read_transaction(store, summary)
    except FileMissingError:
        return None


def _summaries(
    store: Store, locations: Sequence[ManifestLocation]
) -> Iterator[tuple[ManifestLocation, ManifestSummary]]:
    """Summaries of the versions that are still there."""

    def read(location: ManifestLocation) -> ManifestSummary | None:
        try:
            return read_summary(store, location)
        except VersionNotFoundError:
            return None

    # On local files the work is in decoding, where threads only get into each other's way (measured).
    tasks = (partial(read, location) for location in locations)
    summaries = run_ahead(tasks, _THREADS if has_latency(store) else 1)
    for location, summary in zip(locations, summaries, strict=True):
        if summary is not None:
            yield location, summary


class _Measure:
    """Adds up fragments. Most of them recur in the next version byte for byte, so each is decoded once."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, int, int, int]] = {}

    def __call__(self, summary: ManifestSummary) -> VersionSize:
        known = self._known
        files = rows = deleted = size = 0
        for data in summary.fragments:
            numbers = known.get(data)
            if numbers is None:
                numbers = known[data] = _numbers(data)
            files += numbers[0]
            rows += numbers[1]
            deleted += numbers[2]
            size += numbers[3]
        return VersionSize(len(summary.fragments), files, rows - deleted, deleted, size)


def _numbers(data: bytes) -> tuple[int, int, int, int]:
    try:
        view = summary_pb2.FragmentView.FromString(data)
    except DecodeError as error:
        raise CorruptManifestError(f"a fragment cannot be read: {error}", field="fragments") from error
    size = sum(file.file_size_bytes for file in view.files)
    return len(view.files), view.physical_rows, view.deletion_file.num_deleted_rows, size
