"""What every kind of index can do. `registry` lists the kinds there are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lance_ops.file.schema.model import Field
from lance_ops.index.sargable import Sargable
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap
from lance_ops.table.snapshot import Snapshot

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One share of an index build: some fragments of one version, read and prepared by whoever runs it.

    Attributes:
        dataset: The version the index is built from.
        column: Path of the indexed column.
        fragment_ids: Fragments to read.
        row_ids: Whether the segment holds stable row ids and not addresses.
        directory: Directory of the new segment, which takes the share.
    """

    dataset: Dataset
    column: str
    fragment_ids: tuple[int, ...]
    row_ids: bool
    directory: str


class IndexKind(Protocol):
    """What every kind of index can do.

    A segment holds row addresses, or the row ids of a table with stable ones; its index version tells. All
    segments of an index hold the same, or the peer refuses every filter on the column.
    """

    name: str
    type_url: str

    def check_field(self, field: Field) -> None:
        """Refuse a column that the kind cannot index.

        Raises:
            InvalidArgumentError: names the column, its type and what the kind can index.
        """
        ...

    def can_read(self, segment: IndexMetadata) -> bool:
        """Whether the segment's index version is one that this kind knows."""
        ...

    def holds_addresses(self, segment: IndexMetadata, *, stable_row_ids: bool) -> bool:
        """Whether the files hold row addresses (which a rewrite changes) and not stable row ids."""
        ...

    def index_version(self, *, stable_row_ids: bool, row_ids: bool) -> int:
        """Version to record for a new segment that holds row ids or addresses."""
        ...

    def build_share(self, task: BuildTask, path: str) -> tuple[int, ...]:
        """Read the fragments of a task and write the share to `path`; returns the rows of each run."""
        ...

    def merge(
        self,
        dataset: Snapshot,
        field: Field,
        segments: Sequence[IndexMetadata],
        shares: Sequence[tuple[str, tuple[int, ...]]],
        directory: str,
    ) -> tuple[IndexFile, ...]:
        """Write one segment below `directory` from existing segments and shares (path, rows of each run).

        Addresses of existing segments are moved as the fragment reuse index of the dataset says.

        Raises:
            UnreadableIndexError: an existing segment cannot be read.
        """
        ...

    def remap(
        self, dataset: Snapshot, segment: IndexMetadata, directory: str, moves: AddressMap
    ) -> tuple[IndexFile, ...]:
        """Write a copy of a segment with addresses moved and deleted rows dropped.

        What the fragment reuse index of the dataset says is followed first.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        ...

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """The row addresses (or stable row ids) in the files of a segment, unchanged, a part at a time.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        ...

    def search(self, dataset: Snapshot, segment: IndexMetadata, wanted: Sargable) -> Addresses | None:
        """Addresses (or stable row ids) of the rows that match, in any order, as they are in the files.

        None when a scan is the better choice. Whatever it raises is taken to be the fault of the segment
        (`index.reading`).
        """
        ...

    def stale(self, dataset: Snapshot, segment: IndexMetadata) -> str | None:
        """Whether the files of a segment are from different times, and how that shows; None if they are not.

        Reads little, and nothing of segments whose writers cannot have done that.

        Raises:
            UnreadableIndexError: the segment cannot be read.
        """
        ...

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """Open a segment and read its first rows, or all of them if `deep`.

        Raises:
            UnreadableIndexError: it cannot be read, or contradicts itself, the column or the fragments.
        """
        ...
