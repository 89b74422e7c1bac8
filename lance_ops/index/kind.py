"""What every kind of index can do. `registry` lists the kinds there are."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.model import Field
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.sampling import sample_of
from lance_ops.index.watch import Observer, Watch
from lance_ops.pb import index_pb2, table_pb2
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest.index_versions import (
    INDEX_VERSIONS,
    RowNames,
    holds_stable_row_ids,
    row_names,
)
from lance_ops.table.manifest.row_address_map import AddressMap
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

T = TypeVar("T")
R = TypeVar("R")

Parameters = Mapping[str, Any]
"""How an index is made (a metric, a tokenizer, rows of a zone): plain values by name, checked by its kind."""


class TaskMap(Protocol):
    """Runs tasks side by side, on whatever machines there are; see `maintenance.tasks.run_tasks`."""

    def __call__(self, function: Callable[[T], R], tasks: Sequence[T], message: str, /) -> list[R]:
        """Results in the order of the tasks; `function` is a module's own, and all are picklable."""
        ...


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One share of an index build: some fragments of one version, read and prepared by whoever runs it.

    Attributes:
        dataset: The version the index is built from.
        column: Path of the indexed column.
        fragment_ids: Fragments to read.
        row_ids: Whether the segment holds stable row ids and not addresses.
        directory: Directory of the new segment, which takes the share.
        parameters: How the index is made.
        prepared: What `IndexKind.prepare` told all tasks.
    """

    dataset: Dataset
    column: str
    fragment_ids: tuple[int, ...]
    row_ids: bool
    directory: str
    parameters: Parameters = field(default_factory=dict)
    prepared: bytes = b""


@dataclass(frozen=True, slots=True)
class Share:
    """What one task of a build did.

    Attributes:
        temporary: Files that are removed once the segment is made.
        detail: What the kind wants to know of them; picklable.
    """

    temporary: tuple[str, ...]
    detail: Any = None


@dataclass(frozen=True, slots=True)
class SegmentBuild:
    """One segment that is made, from fresh rows, from existing segments, or from both.

    Attributes:
        dataset: The version that everything is read from.
        field: The indexed column.
        column: Its path.
        segments: Existing segments that go in.
        fragment_ids: Fragments that are read.
        directory: Directory of the new segment.
        row_ids: Whether it holds stable row ids and not addresses.
        parameters: How the index is made.
        run: Runs tasks.
        prepared: What `IndexKind.prepare` returned.
        shares: What the tasks of the build did.
        beside: Other segments of the index, which stay as they are.
    """

    dataset: Dataset
    field: Field
    column: str
    segments: tuple[IndexMetadata, ...]
    fragment_ids: tuple[int, ...]
    directory: str
    row_ids: bool
    parameters: Parameters
    run: TaskMap
    prepared: bytes = b""
    shares: tuple[Share, ...] = ()
    beside: tuple[IndexMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentMove:
    """A segment that follows a rewrite of fragments.

    Attributes:
        dataset: The version that the rewrite was planned from.
        segment: The segment, one of its `indices`.
        directory: Directory of the copy.
        moves: Where the rows lie now.
        rewritten: The dataset as it will be, for kinds that read the new fragments.
        notes: What `WatchingKind.observer` noted of new fragments, by their ids, for the segment's `watch`.
    """

    dataset: Snapshot
    segment: IndexMetadata
    directory: str
    moves: AddressMap
    rewritten: Dataset
    notes: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BuiltSegment:
    """What was written of a segment.

    Attributes:
        files: Its files, below its directory.
        details: The message of its entry in the manifest.
        index_version: To record, where that is another one than `IndexKind.index_version` says.
    """

    files: tuple[IndexFile, ...]
    details: bytes = b""
    index_version: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """What a segment found for a condition.

    Attributes:
        rows: Rows that can meet it, as they are named in the files: by address or by stable row id.
        exact: Whether all of them do.
    """

    rows: RowSet
    exact: bool


@dataclass(frozen=True, slots=True)
class ModelFit:
    """How well what an index has learned fits the rows that the dataset has now.

    Attributes:
        rows: Live rows, those that it does not cover yet included.
        newer_rows: Those of them that came since it learned.
        imbalance: Rows that a search of one partition reads, over those of even partitions; 1 is the best.
        imbalance_trained: The same when it learned; None when nobody wrote that down.
        drift: Mean distance of newer rows from their centroids, over that of the rows it learned from; None
            where there is nothing to compare.
    """

    rows: int
    newer_rows: int
    imbalance: float
    imbalance_trained: float | None
    drift: float | None


class IndexKind(ABC):
    """What every kind of index can do.

    A segment holds row addresses, or the row ids of a table with stable ones; its index version tells. All
    segments of an index hold the same, or the peer refuses every filter on the column.
    """

    name: ClassVar[str]
    type_url: ClassVar[str]
    names_every_row: ClassVar[bool] = True
    """Whether `addresses` names each live row of the covered fragments, so that a missing one is damage."""
    can_build: ClassVar[bool] = True
    """Whether segments can be built and merged; else those of others are kept, and moved along."""
    looks_at_rows: ClassVar[bool] = False
    """Whether `remap` looks at the new rows, since what the files hold cannot be moved."""

    one_segment_after_updates: ClassVar[bool] = False
    """Whether segments are written anew after updates: release 14.0.2 of the peer finds old values there."""

    keeps_gone_rows: ClassVar[bool] = False
    """Whether a remap, by lance_ops or the peer, may leave names of rows that it removed in their places."""

    file_of_layout: ClassVar[str | None] = None
    """A file that segments of early releases of the peer lack: their layout is read by nothing here."""

    counts_gone_row_ids: ClassVar[bool] = False
    """Whether the peer finds row ids that no fragment has, as after a compaction of deleted rows.

    Release 14.0.2 returns that many rows fewer than asked for then.
    """

    reads_documents: ClassVar[bool] = False
    """Whether it answers conditions on JSON columns, whose bytes neither compare nor sort like their text."""

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """Check what a user asks for, and fill in what he leaves open.

        Raises:
            InvalidArgumentError: names the parameter, and what the kind knows.
        """
        del field
        if given:
            raise InvalidArgumentError(
                f"{self.name} has no parameter {next(iter(given))!r}", field="parameters", hint="leave it out"
            )
        return {}

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """How an existing segment was made, so that what is added to its index is made alike.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        del dataset, segment
        return {}

    def recorded_parameters(self, segment: IndexMetadata) -> Parameters:
        """What the manifest alone says of how a segment was made, for one whose files cannot be read.

        It may leave parameters open: enough for advice, too little for a rebuild that nobody looks at.

        Raises:
            DecodeError: The details are no message.
            UnsupportedError: They ask for what cannot be built here.
        """
        del segment
        return {}

    def check_details(self, segment: IndexMetadata) -> None:
        """Refuse an entry whose details are damaged or say more than is known here.

        A segment built in its place would lack what these fields ask for.

        Raises:
            DecodeError: The details are no message.
            UnsupportedError: They have fields of a later release.
        """
        package, name = self.type_url.removeprefix("/").rsplit(".", 1)
        message = getattr(index_pb2 if package == "lance.index.pb" else table_pb2, name)()
        message.ParseFromString(segment.details)
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            raise UnsupportedError(
                f"the details of index {segment.name!r} have fields that are not known here",
                path=segment.directory,
                field="index_details",
                hint="refresh it with the release of pylance that wrote it, or with a newer lance_ops",
            )

    @abstractmethod
    def check_field(self, field: Field) -> None:
        """Refuse a column that the kind cannot index.

        Raises:
            InvalidArgumentError: names the column, its type and what the kind can index.
        """

    def check_new(self, field: Field) -> None:
        """As `check_field`, for a new index: refuses also what is only kept up where it is there."""
        self.check_field(field)

    def can_read(self, segment: IndexMetadata) -> bool:
        """Whether the segment's index version is one that this kind knows."""
        return row_names(segment) is not None

    def holds_addresses(self, segment: IndexMetadata, *, stable_row_ids: bool) -> bool:
        """Whether the files hold row addresses (which a rewrite changes) and not stable row ids."""
        return not (stable_row_ids and holds_stable_row_ids(segment))

    def index_version(self, *, stable_row_ids: bool, row_ids: bool) -> int:
        """Version to record for a new segment that holds row ids or addresses."""
        known = INDEX_VERSIONS[self.type_url.rsplit(".", 1)[-1].lower()]
        if not stable_row_ids:
            return known.written
        return known.to_write(RowNames.IDS if row_ids else RowNames.ADDRESSES)

    def prepare(self, build: SegmentBuild) -> bytes:
        """Find out on the driver, before the tasks start, what all of them need (a trained model)."""
        del build
        return b""

    @abstractmethod
    def build_share(self, task: BuildTask, path: str) -> Share:
        """Read the fragments of a task and write what they hold.

        Args:
            task: The share.
            path: A fresh path without an ending; what is written has to begin with it, or to have a name in
                the segment's directory that no other run of the task gives.
        """

    @abstractmethod
    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """Write the segment below its directory from existing segments and shares.

        Addresses of existing segments are moved as the fragment reuse index of the dataset says, and rows of
        fragments that they no longer cover are left out.

        Raises:
            UnreadableIndexError: an existing segment cannot be read.
        """

    @abstractmethod
    def remap(self, move: SegmentMove) -> BuiltSegment:
        """Write a segment that has moved along with a rewrite: addresses moved, or rows looked at anew.

        What the fragment reuse index of the dataset says is followed first, and may be all: `moves` is empty
        when a segment catches up with deferred rewrites. What is written answers for the fragments that the
        segment covers in `dataset` (`effective_fragments`), moved by `moves`.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """

    @abstractmethod
    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """The row addresses (or stable row ids) in the files of a segment, unchanged, a part at a time.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """

    @abstractmethod
    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """Rows that meet a condition on the column, as they are in the files.

        None when the kind cannot tell, or when a scan is the better choice. Whatever it raises is taken to be
        the fault of the segment (`index.reading`).
        """

    def may_wait(self, dataset: Snapshot, segment: IndexMetadata) -> bool:
        """Whether every reader can use a segment whose rows were moved and that was not.

        They follow the fragment reuse index then (`compact(defer_index_remap=True)`).
        """
        del dataset, segment
        return True

    def sample(self, dataset: Snapshot, segment: IndexMetadata, limit: int) -> tuple[Addresses, int]:
        """About `limit` of the names in the files of a segment, spread over all, and how many there are.

        A kind that cannot tell where in its files names are reads them all, a part at a time.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        return sample_of(self.addresses(dataset, segment), limit)

    def fit(self, dataset: Dataset, segments: Sequence[IndexMetadata]) -> ModelFit | None:
        """How well the model of an index fits; None for a kind that learns none. Samples rows.

        Raises:
            UnreadableIndexError: a segment cannot be read.
        """
        del dataset, segments
        return None

    def merges_with_new(self, dataset: Snapshot, segment: IndexMetadata, parameters: Parameters) -> bool:
        """Whether the peer can merge a segment with one that is written here now with some parameters.

        Raises:
            UnreadableIndexError: The segment is damaged.
        """
        del dataset, segment, parameters
        return True

    def stale(self, dataset: Snapshot, segment: IndexMetadata) -> str | None:
        """Whether the files of a segment are from different times, and how that shows; None if they are not.

        Reads little, and nothing of segments whose writers cannot have done that.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        del dataset, segment
        return None

    @abstractmethod
    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """Open a segment and read its first rows, or all of them if `deep`.

        Raises:
            UnreadableIndexError: it cannot be read, or contradicts itself, the column or the fragments.
        """

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """Numbers of a segment by the names that the peer gives them, as JSON values.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        del dataset, segment
        return {}


class WatchingKind(IndexKind):
    """A kind whose segments are made of what is noted of rows as they pass."""

    @abstractmethod
    def watch(self, dataset: Snapshot, segment: IndexMetadata) -> Watch:
        """What `remap` could do with of the rows that a rewrite reads anyway.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """

    @abstractmethod
    def observer(self, watch: Watch, values: pa.DataType) -> Observer:
        """What notes that of a new fragment, of values of a type."""
