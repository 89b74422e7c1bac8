"""History: fast lists of versions, and lists with the operation of each commit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import compress
from operator import eq, ne

from google.protobuf.message import DecodeError

from lance_ops.errors import (
    CorruptManifestError,
    FileMissingError,
    FormatError,
    InconsistentStoreError,
    LanceOpsError,
    VersionNotFoundError,
)
from lance_ops.pb import summary_pb2, table_pb2
from lance_ops.storage import Store
from lance_ops.storage.prefetch import prefetch, requests_at_once
from lance_ops.table.by_name import ByName
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    ManifestLocation,
    list_detached,
    list_versions,
    newest_versions,
)
from lance_ops.table.manifest.row_counts import count_rows
from lance_ops.table.side_sizes import list_side_bytes
from lance_ops.table.transaction.operations import CreateIndex, Operation, Rewrite
from lance_ops.table.transaction.transaction import JOB_KEY, Transaction, read_transaction


@dataclass(frozen=True, slots=True)
class VersionInfo(ByName):
    """One version in a list.

    Attributes:
        version: Version number.
        timestamp: Commit time; UTC.
        fragments: Number of fragments.
        manifest_bytes: Size of its manifest.
        transaction_uuid: UUID of the transaction that made it; empty when not recorded.
        damage: Why the version does not open; empty when it does. A damaged version has the time of its
            manifest in the store and no other values.
    """

    version: int
    timestamp: datetime
    fragments: int
    manifest_bytes: int
    transaction_uuid: str
    damage: str = ""


@dataclass(frozen=True, slots=True)
class VersionSize:
    """Size of a version.

    Attributes:
        fragments: Number of fragments.
        files: Number of data files.
        rows: Live rows; None when neither the manifest nor the files have the number.
        deleted_rows: Deleted rows that are still stored; None likewise.
        data_bytes: Bytes of the data files as recorded, and of side files of blobs below the same root.
    """

    fragments: int = 0
    files: int = 0
    rows: int | None = 0
    deleted_rows: int | None = 0
    data_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One commit in the history.

    Attributes:
        version: Version that it made.
        timestamp: Commit time; UTC.
        operation: Name of the operation; empty when its transaction is lost.
        description: One line for people.
        read_version: Read version; None when its transaction is lost.
        uuid: UUID of the transaction; empty when it is lost.
        properties: Properties of the transaction.
        size: Size of the version.
        writer: Library that made it and its version, such as "lance 14.0.2"; empty when not recorded.
        damage: See `VersionInfo`. Of a version that opens: why its transaction cannot be read.
        upkeep: Kind of maintenance: "compaction", "index", "drop of index"; empty for none.
    """

    version: int
    timestamp: datetime
    operation: str
    description: str
    read_version: int | None
    uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)
    size: VersionSize = field(default_factory=VersionSize)
    writer: str = ""
    damage: str = ""
    upkeep: str = ""

    @property
    def rebased_over(self) -> range:
        """Versions of others that the commit was rebased over; empty when it was planned on the head."""
        return range(self.version if self.read_version is None else self.read_version + 1, self.version)

    @property
    def job_key(self) -> str | None:
        """Key of the job that the commit belongs to, if any."""
        return self.properties.get(JOB_KEY)


def read_versions(store: Store) -> list[VersionInfo]:
    """List all versions, oldest first. Versions removed by a concurrent cleanup are left out.

    A damaged version has a reason in `damage`, and does not hide the others.
    """
    written = _Written(store)
    return [_version(location, read, written) for location, read in _summaries(store, list_versions(store))]


def read_detached(store: Store) -> list[VersionInfo]:
    """List all versions outside of the history, oldest first."""
    written = _Written(store)
    found = [_version(location, read, written) for location, read in _summaries(store, list_detached(store))]
    return sorted(found, key=lambda info: info.timestamp)


def _version(
    location: ManifestLocation,
    read: ManifestSummary | FormatError | InconsistentStoreError,
    written: "_Written",
) -> VersionInfo:
    size = location.size or 0
    if isinstance(read, FormatError | InconsistentStoreError):
        return VersionInfo(location.version, written.at(location), 0, size, "", damage=str(read))
    return VersionInfo(
        version=read.version,
        timestamp=read.timestamp,
        fragments=len(read.fragments),
        manifest_bytes=size,
        transaction_uuid=read.transaction_file.partition("-")[2].removesuffix(".txn"),
    )


def read_history(store: Store, limit: int | None = None, *, has_blobs: bool = False) -> list[HistoryEntry]:
    """Read the newest commits, newest first.

    Args:
        store: Root of the dataset.
        limit: Maximum number; all when None.
        has_blobs: There may be side files of blobs, whose sizes no manifest has: they are listed.

    Returns:
        An entry for each version. A damaged one has a reason in `damage`, and does not hide the others.
    """
    locations = newest_versions(store, limit)
    measure, written = _Measure(Bases(store), has_blobs=has_blobs), _Written(store)
    return [
        _entry_of(store, location, read, measure, written) for location, read in _summaries(store, locations)
    ]


def _entry_of(
    store: Store,
    location: ManifestLocation,
    read: ManifestSummary | FormatError | InconsistentStoreError,
    measure: "_Measure",
    written: "_Written",
) -> HistoryEntry:
    try:
        if isinstance(read, FormatError | InconsistentStoreError):
            raise read
        size = measure(read)
    except (FormatError, InconsistentStoreError) as error:
        return HistoryEntry(
            location.version,
            written.at(location),
            "",
            f"damaged, cannot be opened: {error}",
            None,
            "",
            size=VersionSize(rows=None, deleted_rows=None),
            damage=str(error),
        )
    try:
        return _entry(read, _transaction_or_none(store, read), size)
    except FormatError as error:
        what = f"its transaction cannot be read: {error}"
        return HistoryEntry(read.version, read.timestamp, "", what, None, "", size=size, damage=str(error))


def _entry(summary: ManifestSummary, transaction: Transaction | None, size: VersionSize) -> HistoryEntry:
    if transaction is None:
        return HistoryEntry(
            summary.version,
            summary.timestamp,
            "",
            "its transaction was removed",
            None,
            "",
            size=size,
            writer=_writer_text(summary.writer),
        )
    operation = transaction.operation
    return HistoryEntry(
        version=summary.version,
        timestamp=summary.timestamp,
        operation=operation.kind,
        description=operation.describe(),
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        properties=transaction.properties,
        size=size,
        writer=_writer_text(summary.writer),
        upkeep=_upkeep(operation),
    )


def _upkeep(operation: Operation) -> str:
    if isinstance(operation, Rewrite):
        return "compaction"
    if isinstance(operation, CreateIndex):
        return "index" if operation.new_indices else "drop of index"
    return ""


@lru_cache(maxsize=64)
def _writer_text(data: bytes) -> str:
    """Return library and version from a serialised WriterVersion; thousands of versions share it."""
    try:
        found = table_pb2.Manifest.WriterVersion.FromString(data)
    except DecodeError:
        return ""
    told = {descriptor.name: str(value) for descriptor, value in found.ListFields()}
    number = "-".join(filter(None, (told.get("version"), told.get("prerelease"))))
    build = f"({told['build_metadata']})" if "build_metadata" in told else None
    return " ".join(filter(None, (told.get("library"), number, build)))


def _transaction_or_none(store: Store, summary: ManifestSummary) -> Transaction | None:
    try:
        return read_transaction(store, summary)
    except FileMissingError:
        return None


def _summaries(
    store: Store, locations: Sequence[ManifestLocation]
) -> Iterator[tuple[ManifestLocation, ManifestSummary | FormatError | InconsistentStoreError]]:
    """Return summaries of the existing versions, or why they cannot be read."""

    def read(location: ManifestLocation) -> ManifestSummary | FormatError | InconsistentStoreError | None:
        try:
            return read_summary(store, location)
        except VersionNotFoundError:
            return None
        except (FormatError, InconsistentStoreError) as error:
            return error

    # On local files the cost is decoding, where threads only contend for the GIL (measured).
    tasks = (partial(read, location) for location in locations)
    summaries = prefetch(tasks, requests_at_once(store))
    for location, summary in zip(locations, summaries, strict=True):
        if summary is not None:
            yield location, summary


class _Written:
    """Write times of manifests, by the clock of the store; read only for those without a timestamp.

    Args:
        store: Root of the dataset.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moments: dict[str, datetime] | None = None

    def at(self, location: ManifestLocation) -> datetime:
        """Return the time; the minimum timestamp if the manifest was removed."""
        if self._moments is None:
            self._moments = {info.path: info.modified for info in self._store.list(VERSIONS_DIRECTORY)}
        return self._moments.get(location.path, datetime.min.replace(tzinfo=UTC))


_Numbers = tuple[int, int, int, int, int]
"""Files, physical rows, deleted rows and bytes of fragments, and the number of fragments without row counts.
"""
_NOTHING: _Numbers = (0, 0, 0, 0, 0)


class _Measure:
    """Sums over fragments. Neighbouring versions share most of them, so only differences are added.

    Args:
        bases: Location of the files that are read when a legacy manifest lacks a number.
        has_blobs: Count the side files of blobs, too.
    """

    def __init__(self, bases: Bases, *, has_blobs: bool) -> None:
        self._bases = bases
        self._side_bytes = list_side_bytes(bases.root) if has_blobs else {}
        self._known: dict[tuple[bytes, bool], _Numbers] = {}
        self._last: tuple[tuple[bytes, ...], bool, _Numbers] = ((), False, _NOTHING)

    def __call__(self, summary: ManifestSummary) -> VersionSize:
        fragments, doubtful = summary.fragments, summary.may_miscount
        before, was_doubtful, sums = self._last
        if was_doubtful != doubtful:
            before, sums = (), _NOTHING
        gone, come = _differing(before, fragments)
        less, more = self._add_up(gone, doubtful), self._add_up(come, doubtful)
        sums = tuple(  # type: ignore[assignment]
            total - lost + added for total, lost, added in zip(sums, less, more, strict=True)
        )
        self._last = (fragments, doubtful, sums)
        files, rows, deleted, size, uncounted = sums
        if uncounted:
            return VersionSize(len(fragments), files, None, None, size)
        return VersionSize(len(fragments), files, rows - deleted, deleted, size)

    def _add_up(self, fragments: Iterable[bytes], doubtful: bool) -> _Numbers:
        known = self._known
        found = []
        for data in fragments:
            numbers = known.get((data, doubtful))
            if numbers is None:
                numbers = known[data, doubtful] = self._numbers(data, doubtful)
            found.append(numbers)
        return tuple(map(sum, zip(*found, strict=True))) if found else _NOTHING  # type: ignore[return-value]

    def _numbers(self, data: bytes, doubtful: bool) -> _Numbers:
        try:
            view = summary_pb2.FragmentView.FromString(data)
        except DecodeError as error:
            raise CorruptManifestError(f"a fragment cannot be read: {error}", field="fragments") from error
        size = sum(file.file_size_bytes for file in view.files)
        if self._side_bytes:
            files = Fragment.from_bytes(data).all_files
            size += sum(self._side_bytes.get(file.path, 0) for file in files if file.base_id is None)
        deleted = view.deletion_file.num_deleted_rows
        lacking = not view.physical_rows or (view.HasField("deletion_file") and not deleted)
        if view.files and (doubtful or lacking):
            try:
                counted = count_rows(self._bases, Fragment.from_bytes(data))
            except LanceOpsError:
                return len(view.files), 0, 0, size, 1
            return len(view.files), counted.physical_rows, counted.num_deleted_rows, size, 0
        return len(view.files), view.physical_rows, deleted, size, 0


def _differing(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[Iterable[bytes], Iterable[bytes]]:
    """Return the elements of the first list that the second lacks, without their common start and end."""
    first = _alike(old, new)
    last = _alike(old[: first - 1 if first else None : -1], new[: first - 1 if first else None : -1])
    gone, come = old[first : len(old) - last], new[first : len(new) - last]
    if len(gone) != len(come):
        return gone, come
    # Deletions change fragments in their places.
    return compress(gone, map(ne, gone, come)), compress(come, map(ne, gone, come))


def _alike(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """Return the length of the common prefix."""
    same = list(map(eq, old, new))
    return same.index(False) if False in same else len(same)
