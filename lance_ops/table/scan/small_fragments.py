"""Small fragments, read as one: tables that grow by small appends have thousands of them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.encoding.values.fixed_size_list import filter_rows
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import join_lengths
from lance_ops.file.joined_files import read_joined
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import is_legacy
from lance_ops.storage.prefetch import has_latency, read_small
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.open_files import check_rows
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_ID, Offsets, RowColumns, Rows, as_offsets
from lance_ops.table.scan.stored_columns import StoredPart, find_parts, join_parts, refuse_attached
from lance_ops.table.snapshot import Snapshot

# Larger runs gain nothing, and a run takes no more memory than a large fragment.
_SMALL_BYTES = 64 << 10
_RUN_BYTES = 8 << 20
_RUN_ROWS = 1 << 16
_RUN_FILES = 256

GROUPS_AT_ONCE = 2
"""Number of groups read concurrently on a store with latency: each makes many concurrent requests."""

_T = TypeVar("_T")


class FragmentGroup:
    """Reader of fragments with consecutive rows; see `FragmentRows`.

    Rows are numbered through all of them, deleted ones included.

    Args:
        snapshot: The version.
        fragments: One or more, as grouped by `find_groups`.
        rows_before: Live rows of the dataset before each.
        ahead: Columns that will certainly be read: on slow stores, their files are opened while the deletion
            files are read.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        fragments: Sequence[Fragment],
        rows_before: Sequence[int],
        ahead: Schema | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._fragments = fragments
        self._starts = join_lengths(
            np.array([fragment.physical_rows for fragment in fragments], dtype=np.int64)
        )
        self._readers: dict[int, list[FileReader]] = {}
        # Every page is read once.
        self._heads = PageHeads(most=0)
        self._base_uris = snapshot.bases.uris
        self._deletions = self._read_deletions(ahead)
        self.columns = GroupColumns(snapshot, fragments, self._deletions, rows_before, self._starts)

    @property
    def num_rows(self) -> int:
        """Rows of all of them, deleted ones included."""
        return int(self._starts[-1])

    @property
    def starts(self) -> Offsets:
        """Return the cumulative number of the first row of each, with the total."""
        return self._starts

    def live_rows(self) -> Rows:
        """Return rows that are not deleted, as a range if none is deleted."""
        deleted = [
            vector.offsets().astype(np.int64) + start
            for vector, start in zip(self._deletions, self._starts.tolist(), strict=False)
            if vector is not None and len(vector)
        ]
        if not deleted:
            return range(self.num_rows)
        live = np.ones(self.num_rows, dtype=np.bool_)
        live[np.concatenate(deleted)] = False
        return np.flatnonzero(live)

    def fetch(self, schema: Schema, rows: Rows) -> pa.Table:
        """Read columns of some rows.

        Args:
            schema: The columns.
            rows: At least one.
        """
        if not schema.fields:
            return rows_without_columns(len(rows), pa.schema([]))
        parts = self._parts(schema)
        tables = [
            read_joined(self._files_like(part.file), part.stored, part.file.live_columns) for part in parts
        ]
        table = join_parts(parts, tables, schema, self.num_rows)
        if len(rows) == self.num_rows:
            return table
        keep = np.zeros(self.num_rows, dtype=np.bool_)
        keep[as_offsets(rows)] = True
        return filter_rows(table, pa.array(keep))

    def _read_deletions(self, ahead: Schema | None) -> list[DeletionVector | None]:
        deleted = [fragment for fragment in self._fragments if fragment.deletion_file is not None]
        places: list[int] = []
        if deleted and ahead is not None and ahead.fields and has_latency(self._snapshot.bases.root):
            files = self._fragments[0].files
            places = list(dict.fromkeys(files.index(part.file) for part in self._parts(ahead)))
        reads: list[Callable[[], Any]] = [
            partial(self._snapshot.deletion_vector, fragment) for fragment in self._fragments
        ]
        reads += [partial(self._open, place, fragment) for place in places for fragment in self._fragments]
        found = list(read_small(self._snapshot.bases.root, iter(reads)))
        count = len(self._fragments)
        for number, place in enumerate(places, 1):
            self._readers[place] = found[number * count : (number + 1) * count]
        return found[:count]

    def _parts(self, schema: Schema) -> Sequence[StoredPart]:
        """Return files of the first fragment with these columns, if the others have the same layout."""
        refuse_attached(self._snapshot.manifest, schema, self._snapshot.uri)
        return find_parts(self._fragments[0], schema)

    def _files_like(self, file: DataFile) -> Sequence[FileReader]:
        """Return the files at the same position as one of the first fragment."""
        place = self._fragments[0].files.index(file)
        if place not in self._readers:
            self._readers[place] = list(self._run(partial(self._open, place), self._fragments))
        return self._readers[place]

    def _open(self, place: int, fragment: Fragment) -> FileReader:
        bases, file = self._snapshot.bases, fragment.files[place]
        store, path = bases.data_path(file)
        reader = FileReader.open(
            store,
            path,
            size=file.size_bytes,
            heads=self._heads,
            base_uris=self._base_uris,
            open_base=bases.store_for,
        )
        check_rows(reader, bases, file, fragment.physical_rows)
        return reader

    def _run(self, work: Callable[[Fragment], _T], fragments: Sequence[Fragment]) -> Iterator[_T]:
        return read_small(self._snapshot.bases.root, (partial(work, fragment) for fragment in fragments))


class GroupColumns:
    """Row columns of fragments with consecutive rows; see `RowColumns`."""

    def __init__(
        self,
        snapshot: Snapshot,
        fragments: Sequence[Fragment],
        deletions: Sequence[DeletionVector | None],
        rows_before: Sequence[int],
        starts: Offsets,
    ) -> None:
        self._snapshot = snapshot
        self._fragments = fragments
        self._deletions = deletions
        self._rows_before = rows_before
        self._starts = starts
        self._decoded: dict[str, npt.NDArray[np.uint64]] = {}

    def column(self, name: str, rows: Rows) -> pa.Array:
        """See `RowColumns.column`."""
        if name not in self._decoded:
            self._decoded[name] = self._values(name)
        values = self._decoded[name]
        return from_numpy(values if len(rows) == len(values) else values[as_offsets(rows)], pa.uint64())

    def _values(self, name: str) -> npt.NDArray[np.uint64]:
        """Return values of all rows; those of deleted ones are undefined."""
        lengths = np.diff(self._starts)
        if name == ROW_ADDRESS or (name == ROW_ID and not self._snapshot.uses_stable_row_ids):
            ids = np.array([fragment.id for fragment in self._fragments], dtype=np.uint64)
            offsets = np.arange(int(self._starts[-1]), dtype=np.int64) - np.repeat(self._starts[:-1], lengths)
            addresses: npt.NDArray[np.uint64] = np.repeat(ids << np.uint64(32), lengths)
            return addresses | offsets.astype(np.uint64)
        tasks = (partial(self._of_one, name, number) for number in range(len(self._fragments)))
        return np.concatenate(list(read_small(self._snapshot.bases.root, tasks)))

    def _of_one(self, name: str, number: int) -> npt.NDArray[np.uint64]:
        fragment = self._fragments[number]
        columns = RowColumns(
            self._snapshot,
            fragment,
            deletions=self._deletions[number],
            rows_before=self._rows_before[number],
        )
        return columns.values(name, np.arange(fragment.physical_rows, dtype=np.int64))


def find_groups(
    items: Iterable[_T], fragment_of: Callable[[_T], Fragment | None], max_rows: int = _RUN_ROWS
) -> Iterator[Sequence[_T]]:
    """Group items whose fragments can be read as one; all others stay single.

    Args:
        items: In row order.
        fragment_of: Returns the fragment of an item, None if it must stay single.
        max_rows: Maximum rows of a group.
    """
    max_rows = min(max_rows, _RUN_ROWS)
    run: list[_T] = []
    kind: Hashable = None
    rows = size = 0
    for item in items:
        fragment = fragment_of(item)
        own, more_rows, more_bytes = None, 0, 0
        if fragment is not None:
            own, more_rows, more_bytes = _kind(fragment), fragment.physical_rows, fragment.data_bytes
        fits = (
            own is not None
            and own == kind
            and rows + more_rows <= max_rows
            and size + more_bytes <= _RUN_BYTES
            and len(run) < _RUN_FILES
        )
        if run and not fits:
            yield run
            run, rows, size = [], 0, 0
        run.append(item)
        kind, rows, size = own, rows + more_rows, size + more_bytes
    if run:
        yield run


def _kind(fragment: Fragment) -> Hashable:
    """Return the layout that the fragments of a group share; None if the fragment must stay single."""
    files = fragment.files
    if (
        not files
        or not fragment.physical_rows
        or fragment.has_overlays
        or not all(0 < file.size_bytes <= _SMALL_BYTES for file in files)
        or any(is_legacy(file.major, file.minor) for file in files)
    ):
        return None
    return tuple([(file.fields, file.column_indices, file.major, file.minor) for file in files])
