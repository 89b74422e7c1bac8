"""Index kind: the interface of all index kinds. `registry` lists them."""

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
"""Build parameters (a metric, a tokenizer, rows of a zone): plain values by name, checked by the kind."""


class TaskMap(Protocol):
    """Function that runs tasks in parallel, possibly on other machines; see `maintenance.tasks.run_tasks`."""

    def __call__(self, function: Callable[[T], R], tasks: Sequence[T], message: str, /) -> list[R]:
        """Results in the order of the tasks; `function` is a module's own, and all are picklable."""
        ...


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One share of an index build: fragments of one version, read by one task.

    Attributes:
        dataset: The version the index is built from.
        column: Path of the indexed column.
        fragment_ids: Fragments to read.
        row_ids: True if the segment has stable row ids instead of addresses.
        directory: Directory of the new segment.
        parameters: Build parameters.
        prepared: Result of `IndexKind.prepare`.
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
    """Result of one build task.

    Attributes:
        temporary: Files to remove once the segment is built.
        detail: Data for the kind; picklable.
    """

    temporary: tuple[str, ...]
    detail: Any = None


@dataclass(frozen=True, slots=True)
class SegmentBuild:
    """Build of one segment, from rows, from existing segments, or both.

    Attributes:
        dataset: The version that is read.
        field: The indexed column.
        column: Its path.
        segments: Existing segments to merge.
        fragment_ids: Fragments that are read.
        directory: Directory of the new segment.
        row_ids: True if it has stable row ids instead of addresses.
        parameters: Build parameters.
        run: Runs tasks.
        prepared: Result of `IndexKind.prepare`.
        shares: Results of the build tasks.
        beside: Other segments of the index, which are unchanged.
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
    """A written segment.

    Attributes:
        files: Its files, below its directory.
        details: The message of its entry in the manifest.
        index_version: Version to record, if it differs from `IndexKind.index_version`.
    """

    files: tuple[IndexFile, ...]
    details: bytes = b""
    index_version: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Result of a segment for a condition.

    Attributes:
        rows: Rows that can match, as stored in the files: by address or by stable row id.
        exact: True if all of them do.
    """

    rows: RowSet
    exact: bool


@dataclass(frozen=True, slots=True)
class ModelFit:
    """Fit of the model of an index to the current rows of the dataset.

    Attributes:
        rows: Live rows, including uncovered ones.
        newer_rows: Rows added since the training.
        imbalance: Rows that a search of one partition reads, over those of even partitions; 1 is the best.
        imbalance_trained: The same at the training; None if not recorded.
        drift: Mean distance of newer rows from their centroids, over that of the rows it learned from; None
            without comparable rows.
    """

    rows: int
    newer_rows: int
    imbalance: float
    imbalance_trained: float | None
    drift: float | None


class IndexKind(ABC):
    """Interface of an index kind.

    A segment has row addresses, or the row ids of a table with stable ones, according to its index version.
    All segments of an index must agree, or pylance refuses every filter on the column.
    """

    name: ClassVar[str]
    type_url: ClassVar[str]
    names_every_row: ClassVar[bool] = True
    """Whether `addresses` returns each live row of the covered fragments, so that a missing one is damage."""
    can_build: ClassVar[bool] = True
    """Whether segments can be built and merged; otherwise those of others are kept, and remapped."""
    looks_at_rows: ClassVar[bool] = False
    """Whether `remap` reads the new rows, because the files cannot be remapped."""

    one_segment_after_updates: ClassVar[bool] = False
    """Whether segments are rewritten after updates: release 14.0.2 of pylance finds old values there."""

    keeps_gone_rows: ClassVar[bool] = False
    """Whether a remap, by lance_ops or pylance, may leave references to rows that it removed."""

    file_of_layout: ClassVar[str | None] = None
    """A file that segments of early releases of pylance lack: their layout is read by nothing here."""

    counts_gone_row_ids: ClassVar[bool] = False
    """Whether pylance returns row ids that no fragment has, as after a compaction of deleted rows.

    Release 14.0.2 then returns fewer rows than requested.
    """

    reads_documents: ClassVar[bool] = False
    """Whether it answers conditions on JSON columns, whose bytes do not compare like their text."""

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """Check the parameters of a user, and add defaults.

        Raises:
            InvalidArgumentError: a parameter is unknown or invalid.
        """
        del field
        if given:
            raise InvalidArgumentError(
                f"{self.name} has no parameter {next(iter(given))!r}", field="parameters", hint="leave it out"
            )
        return {}

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """Return the parameters of an existing segment, for new segments of its index.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        del dataset, segment
        return {}

    def recorded_parameters(self, segment: IndexMetadata) -> Parameters:
        """Return the parameters of a segment recorded in the manifest, for one whose files cannot be read.

        It may be incomplete: enough for advice, too little for an automatic rebuild.

        Raises:
            DecodeError: The details cannot be parsed. UnsupportedError: They have unsupported parameters.
        """
        del segment
        return {}

    def check_details(self, segment: IndexMetadata) -> None:
        """Refuse an entry whose details are damaged or have unknown fields.

        A segment built in its place would ignore these fields.

        Raises:
            DecodeError: The details cannot be parsed.
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
        """Check a field for a new index; types only supported in existing indices are refused."""
        self.check_field(field)

    def can_read(self, segment: IndexMetadata) -> bool:
        """Return whether the kind supports the index version of a segment."""
        return row_names(segment) is not None

    def holds_addresses(self, segment: IndexMetadata, *, stable_row_ids: bool) -> bool:
        """Return whether the files hold row addresses (which a rewrite changes) and not stable row ids."""
        return not (stable_row_ids and holds_stable_row_ids(segment))

    def index_version(self, *, stable_row_ids: bool, row_ids: bool) -> int:
        """Version to record for a new segment that holds row ids or addresses."""
        known = INDEX_VERSIONS[self.type_url.rsplit(".", 1)[-1].lower()]
        if not stable_row_ids:
            return known.written
        return known.to_write(RowNames.IDS if row_ids else RowNames.ADDRESSES)

    def prepare(self, build: SegmentBuild) -> bytes:
        """Prepare on the driver, before the tasks start, the data that all of them need (a trained model)."""
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
        """Write a segment remapped after a rewrite: addresses are mapped, or rows are read again.

        The fragment reuse index of the dataset is applied first; `moves` is empty when a segment only catches
        up with deferred rewrites. The new segment covers the fragments of the old one in `dataset`
        (`effective_fragments`), mapped by `moves`.

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
        """Return rows that match a condition on the column, as stored in the files.

        None if the kind does not support it, or if a scan is cheaper. Any exception counts as damage of the
        segment (`index.reading`).
        """

    def may_wait(self, dataset: Snapshot, segment: IndexMetadata) -> bool:
        """Return whether every reader can use a segment whose rows were moved and that was not.

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
        """Measure the fit of the model of an index from a sample of rows; None for a kind without model.

        Raises:
            UnreadableIndexError: a segment cannot be read.
        """
        del dataset, segments
        return None

    def merges_with_new(self, dataset: Snapshot, segment: IndexMetadata, parameters: Parameters) -> bool:
        """Return whether pylance can merge a segment with one that is written here now with some parameters.

        Raises:
            UnreadableIndexError: The segment is damaged.
        """
        del dataset, segment, parameters
        return True

    def stale(self, dataset: Snapshot, segment: IndexMetadata) -> str | None:
        """Return how the files of a segment are inconsistent in time; None if they are consistent.

        Reads little, and nothing of segments of writers without this error.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        del dataset, segment
        return None

    @abstractmethod
    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """Open a segment and read its first rows, or all of them if `deep`.

        Raises:
            UnreadableIndexError: it cannot be read, or is inconsistent, the column or the fragments.
        """

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """Return numbers of a segment by the names that pylance gives them, as JSON values.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        del dataset, segment
        return {}


class WatchingKind(IndexKind):
    """A kind whose segments are made of what is noted of rows as they pass."""

    @abstractmethod
    def watch(self, dataset: Snapshot, segment: IndexMetadata) -> Watch:
        """Return what `remap` can use of the rows that a rewrite reads anyway.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """

    @abstractmethod
    def observer(self, watch: Watch, values: pa.DataType) -> Observer:
        """Return an observer of the values of a new fragment."""
