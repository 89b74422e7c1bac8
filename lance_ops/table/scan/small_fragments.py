"""Small fragments, read as one: tables that grow by small appends have thousands of them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.encoding.values.fixed_size_list import filter_rows
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import Integers, join_lengths
from lance_ops.file.joined_files import JoinedFiles, join_alike, read_joined
from lance_ops.file.layout import SPARSE
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.versions import is_legacy
from lance_ops.storage.prefetch import has_latency, read_small
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.open_files import check_rows
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_ID, Offsets, RowColumns, Rows, as_offsets
from lance_ops.table.scan.stored_columns import StoredPart, find_parts, join_parts, refuse_attached
from lance_ops.table.snapshot import Snapshot

# A run takes no more memory than a large fragment. On stores with latency larger files are read side by side.
_SMALL_BYTES = 8 << 20
# As many values may take any memory, and are read in windows.
_SMALL_ROWS = 1 << 18
TINY_BYTES = 64 << 10
"""Size of files that are read whole when they are opened."""

_RUN_BYTES = 8 << 20
_COLUMN_BYTES = 256 << 10
_LITTLE_BYTES = 1 << 20
_MOST_DECODED = 64 << 20
_RUN_ROWS = 1 << 20
_RUN_FILES = 512

GROUPS_AT_ONCE = 2
"""Number of groups read concurrently on a store with latency: each makes many concurrent requests."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Opened:
    """Open files of some fragments.

    Attributes:
        deletions: Deletion vector of each fragment.
        readers: The files at a position of all fragments, by this position.
    """

    deletions: Sequence[DeletionVector | None]
    readers: dict[int, list[FileReader]]


class FragmentGroup:
    """Reader of fragments with consecutive rows; see `FragmentRows`.

    Rows are numbered through all of them, deleted ones included.

    Args:
        snapshot: The version.
        fragments: One or more, as grouped by `find_groups`.
        rows_before: Live rows of the dataset before each.
        ahead: Columns that will certainly be read: on slow stores, their files are opened while the deletion
            files are read.
        opened: What is open already; see `narrowed`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        fragments: Sequence[Fragment],
        rows_before: Sequence[int],
        ahead: Schema | None = None,
        *,
        opened: _Opened | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._fragments = fragments
        self._rows_before = rows_before
        self._starts = join_lengths(
            np.array([fragment.physical_rows for fragment in fragments], dtype=np.int64)
        )
        self._readers = {} if opened is None else opened.readers
        self._joined: dict[int, tuple[JoinedFiles, ...]] = {}
        # Every page is read once.
        self._heads = PageHeads(most=0)
        self._base_uris = snapshot.bases.uris
        self._deletions = self._read_deletions(ahead) if opened is None else opened.deletions
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

    def decoded_bytes(self, schema: Schema) -> Integers:
        """Estimate the memory of all rows of some columns of each fragment, in bytes."""
        sizes = np.zeros(len(self._fragments), dtype=np.int64)
        for part in self._parts(schema):
            files = self._files_like(part)
            sizes += np.concatenate(
                [alike.decoded_bytes(part.stored, part.file.live_columns) for alike in files]
            )
        return sizes

    def is_bounded(self, schema: Schema) -> bool:
        """Return whether all rows of some columns can be in memory at once: small values may become large."""
        width = prepare_schema(schema).row_bytes
        if width is not None:
            return width * self.num_rows <= _MOST_DECODED
        return int(self.decoded_bytes(schema).sum()) <= _MOST_DECODED

    def narrowed(self, first: int, last: int) -> "FragmentGroup":
        """Return a reader of some of the fragments, whose files are open already."""
        readers = {place: opened[first:last] for place, opened in self._readers.items()}
        return FragmentGroup(
            self._snapshot,
            self._fragments[first:last],
            self._rows_before[first:last],
            opened=_Opened(self._deletions[first:last], readers),
        )

    def fetch(self, schema: Schema, rows: Rows) -> pa.Table:
        """Read columns of some rows.

        Args:
            schema: The columns.
            rows: At least one.
        """
        if not schema.fields:
            return rows_without_columns(len(rows), pa.schema([]))
        parts = self._parts(schema)
        few = as_offsets(rows) if self._are_few(len(rows)) else None
        tables = [
            read_joined(self._files_like(part), part.stored, part.file.live_columns, few) for part in parts
        ]
        table = join_parts(parts, tables, schema, self.num_rows if few is None else len(few))
        if few is not None or len(rows) == self.num_rows:
            return table
        keep = np.zeros(self.num_rows, dtype=np.bool_)
        keep[as_offsets(rows)] = True
        return filter_rows(table, pa.array(keep))

    def _are_few(self, count: int) -> bool:
        """Return whether to pick so many rows instead of decoding all."""
        if count * SPARSE >= self.num_rows:
            return False
        return sum(fragment.data_bytes for fragment in self._fragments) > _LITTLE_BYTES

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

    def _files_like(self, part: StoredPart) -> tuple[JoinedFiles, ...]:
        """Return the files at the same position as one of the first fragment."""
        place = self._fragments[0].files.index(part.file)
        if place not in self._joined:
            if place not in self._readers:
                opened = partial(self._open, place)
                self._readers[place] = list(self._run(opened, self._fragments))
            self._joined[place] = join_alike(self._readers[place])
        return self._joined[place]

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


def group_bytes(num_columns: int, most: int) -> int:
    """Return the bytes of a group that is read at once: enough of each column to be worth its fixed cost.

    Args:
        num_columns: Physical columns that are read.
        most: Upper bound for the sake of memory.
    """
    return max(_RUN_BYTES, min(num_columns * _COLUMN_BYTES, most))


def size_of(fragment: Fragment, width: int | None) -> int:
    """Return the bytes of some columns of a fragment: of all its files, or fewer where the width is known."""
    size = fragment.data_bytes
    return size if width is None else min(size, width * fragment.physical_rows)


def find_groups(
    items: Iterable[_T],
    fragment_of: Callable[[_T], Fragment | None],
    max_rows: int = _RUN_ROWS,
    *,
    most_bytes: int = _RUN_BYTES,
    first_bytes: int | None = None,
    width: int | None = None,
    is_far: bool = False,
) -> Iterator[Sequence[_T]]:
    """Group items whose fragments can be read as one; all others stay single.

    Args:
        items: In row order.
        fragment_of: Returns the fragment of an item, None if it must stay single.
        max_rows: Maximum rows of a group.
        most_bytes: Maximum bytes of a group in the files, or in memory where the width is known.
        first_bytes: Maximum bytes of the first group, where its rows are waited for; doubled for each group.
        width: Bytes of a row of the columns in memory; None if they have no fixed width.
        is_far: The store has latency: larger files are read concurrently rather than together.
    """
    max_rows = min(max_rows, _RUN_ROWS)
    bound = most_bytes if first_bytes is None else first_bytes
    largest = TINY_BYTES if is_far else _SMALL_BYTES
    run: list[_T] = []
    kind: Hashable = None
    rows = size = 0
    for item in items:
        fragment = fragment_of(item)
        own, more_rows, more_bytes = None, 0, 0
        if fragment is not None:
            own, more_rows = _kind(fragment, largest), fragment.physical_rows
            more_bytes = size_of(fragment, width)
        fits = (
            own is not None
            and own == kind
            and rows + more_rows <= max_rows
            and size + more_bytes <= bound
            and len(run) < _RUN_FILES
        )
        if run and not fits:
            yield run
            run, rows, size = [], 0, 0
            bound = min(2 * bound, most_bytes)
        run.append(item)
        kind, rows, size = own, rows + more_rows, size + more_bytes
    if run:
        yield run


def _kind(fragment: Fragment, largest: int) -> Hashable:
    """Return the layout that the fragments of a group share; None if the fragment must stay single."""
    files = fragment.files
    if (
        not files
        or not 0 < fragment.physical_rows < _SMALL_ROWS
        or fragment.has_overlays
        or not all(0 < file.size_bytes <= largest for file in files)
        or any(is_legacy(file.major, file.minor) for file in files)
    ):
        return None
    return tuple([(file.fields, file.column_indices, file.major, file.minor) for file in files])
