"""Lists of versions: cheap ones, and ones that say what each commit did."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from google.protobuf.message import DecodeError

from lance_ops.errors import (
    CorruptManifestError,
    FileMissingError,
    LanceOpsError,
    VersionNotFoundError,
)
from lance_ops.pb import summary_pb2
from lance_ops.storage import Store
from lance_ops.table.base_paths import Bases
from lance_ops.table.describe import describe_operation
from lance_ops.table.fragment import Fragment
from lance_ops.table.manifest_file import ManifestSummary, read_summary
from lance_ops.table.operations import ForeignOperation
from lance_ops.table.row_counts import count_rows
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
        rows: Live rows; None when the version does not say, and the files that could are gone.
        deleted_rows: Rows that are deleted and still stored; None likewise.
        data_bytes: Bytes of the data files as recorded.
    """

    fragments: int = 0
    files: int = 0
    rows: int | None = 0
    deleted_rows: int | None = 0
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
    measure = _Measure(Bases(store))
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


_Numbers = tuple[int, int | None, int | None, int]
"""Files, physical rows, deleted rows and bytes of a fragment; None for rows that nobody can count."""


class _Measure:
    """Adds up fragments. Most of them recur in the next version byte for byte, so each is decoded once.

    Args:
        bases: Where the files lie that are asked when a manifest of the first age does not know.
    """

    def __init__(self, bases: Bases) -> None:
        self._bases = bases
        self._known: dict[tuple[bytes, bool], _Numbers] = {}

    def __call__(self, summary: ManifestSummary) -> VersionSize:
        known, doubtful = self._known, summary.may_miscount
        files = rows = deleted = size = 0
        is_counted = True
        for data in summary.fragments:
            numbers = known.get((data, doubtful))
            if numbers is None:
                numbers = known[data, doubtful] = self._numbers(data, doubtful)
            files += numbers[0]
            size += numbers[3]
            if numbers[1] is None or numbers[2] is None:
                is_counted = False
                continue
            rows += numbers[1]
            deleted += numbers[2]
        if not is_counted:
            return VersionSize(len(summary.fragments), files, None, None, size)
        return VersionSize(len(summary.fragments), files, rows - deleted, deleted, size)

    def _numbers(self, data: bytes, doubtful: bool) -> _Numbers:
        try:
            view = summary_pb2.FragmentView.FromString(data)
        except DecodeError as error:
            raise CorruptManifestError(f"a fragment cannot be read: {error}", field="fragments") from error
        size = sum(file.file_size_bytes for file in view.files)
        deleted = view.deletion_file.num_deleted_rows
        lacking = not view.physical_rows or (view.HasField("deletion_file") and not deleted)
        if view.files and (doubtful or lacking):
            try:
                counted = count_rows(self._bases, Fragment.from_bytes(data))
            except LanceOpsError:
                return len(view.files), None, None, size
            return len(view.files), counted.physical_rows, counted.num_deleted_rows, size
        return len(view.files), view.physical_rows, deleted, size
