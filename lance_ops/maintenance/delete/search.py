"""Delete search: task that finds the rows of a predicate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression, select
from lance_ops.maintenance.live_rows import rows_per_batch
from lance_ops.storage.prefetch import has_latency, prefetch, read_small
from lance_ops.table.manifest.deletion_vector import DeletionVector, read_deletion_vector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import (
    RowColumnSource,
    Rows,
)
from lance_ops.table.scan.small_fragments import GROUPS_AT_ONCE, FragmentGroup, find_groups
from lance_ops.table.snapshot import Snapshot

# Concurrently searched fragments of a task on a store with latency; each may hold some batches.
_MANY_AT_ONCE, _FEW_AT_ONCE = 64, 4
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidate rows of a fragment from an index.

    Attributes:
        offsets: Ascending row offsets, uint32; deleted rows may be among them.
        exact: All of them match; nothing must be read.
    """

    offsets: npt.NDArray[np.uint32]
    exact: bool


@dataclass(frozen=True, slots=True)
class FindTask:
    """Some fragments to search; serializable for executors.

    Attributes:
        snapshot: The fragments to search, and the columns of the predicate.
        predicate: The parsed predicate.
        candidates: Candidates of each fragment; None to check every row.
        row_columns: Row columns of the predicate.
    """

    snapshot: Snapshot
    predicate: Expression
    candidates: tuple[Candidates | None, ...]
    row_columns: tuple[str, ...] = ()

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragments to search."""
        return tuple(self.snapshot.fragments)

    @property
    def schema(self) -> Schema:
        """Schema of the columns of the predicate."""
        return self.snapshot.lance_schema


@dataclass(frozen=True, slots=True)
class FragmentMatch:
    """Matches in one fragment.

    Attributes:
        fragment: The fragment.
        matched: Offsets of matching live rows.
        deleted: Offsets of rows already deleted.
    """

    fragment: Fragment
    matched: DeletionVector
    deleted: DeletionVector | None

    @property
    def live_rows(self) -> int:
        """Live rows before the delete."""
        return self.fragment.physical_rows - (len(self.deleted) if self.deleted is not None else 0)

    @property
    def empties(self) -> bool:
        """True if no live row remains."""
        return len(self.matched) == self.live_rows

    @property
    def merged(self) -> DeletionVector:
        """All deleted rows after the delete."""
        return self.matched if self.deleted is None else self.matched.union(self.deleted)


def find_rows(task: FindTask) -> list[FragmentMatch]:
    """Find matching live rows; fragments without any are omitted."""
    items = zip(task.fragments, task.candidates, strict=True)
    groups: list[Sequence[_Item]] = [[item] for item in items]
    # Each value of a blob is a separate read, and may be large.
    if task.schema.fields and not has_blobs(task.schema):
        groups = list(find_groups(chain.from_iterable(groups), _joined))
    threads = 1
    if has_latency(task.snapshot.store):
        # On stores with latency, concurrent requests are faster.
        large = max(fragment.data_bytes for fragment in task.fragments) > _SMALL_BYTES
        threads = _FEW_AT_ONCE if large else _MANY_AT_ONCE
        threads = GROUPS_AT_ONCE if max(map(len, groups)) > 1 else threads
    searches = (partial(_find_in, task, group) for group in groups)
    return list(chain.from_iterable(prefetch(searches, threads)))


_Item = tuple[Fragment, Candidates | None]


def _joined(item: _Item) -> Fragment | None:
    """Search a fragment that is read whole."""
    fragment, candidates = item
    return fragment if candidates is None else None


def _find_in(task: FindTask, items: Sequence[_Item]) -> list[FragmentMatch]:
    searched = zip((item[0] for item in items), _search(task, items), strict=True)
    matching = [(fragment, offsets) for fragment, offsets in searched if len(offsets)]
    bases = task.snapshot.bases
    # Read for these alone: usually few fragments of many have a match.
    reads = (partial(read_deletion_vector, bases, fragment) for fragment, _ in matching)
    found = []
    for (fragment, offsets), deleted in zip(matching, read_small(bases.root, reads), strict=True):
        matched = DeletionVector.from_offsets(offsets)
        if deleted is not None:
            matched = matched.difference(deleted)
        if len(matched):
            found.append(FragmentMatch(fragment, matched, deleted))
    return found


def _search(task: FindTask, items: Sequence[_Item]) -> list[npt.NDArray[np.uint32]]:
    """Yield the offsets of the matching rows of each fragment, deleted ones included."""
    if len(items) > 1:
        fragments = [_undeleted(fragment) for fragment, _ in items]
        group = FragmentGroup(task.snapshot, fragments, [0] * len(fragments))
        every = range(group.num_rows)
        table = _with_row_columns(task, group.columns, group.fetch(task.schema, every), every)
        matches = _matches(task.predicate, table)
        parts = np.split(matches, np.searchsorted(matches, group.starts[1:-1]))
        return [
            (part - start).astype(np.uint32)
            for part, start in zip(parts, group.starts.tolist(), strict=False)
        ]
    return [_search_one(task, fragment, candidates) for fragment, candidates in items]


def _search_one(task: FindTask, fragment: Fragment, candidates: Candidates | None) -> npt.NDArray[np.uint32]:
    if candidates is None:
        return _scan(task, fragment)
    return candidates.offsets if candidates.exact else _check(task, fragment, candidates.offsets)


def _scan(task: FindTask, fragment: Fragment) -> npt.NDArray[np.uint32]:
    if not task.schema.fields:
        every = np.arange(fragment.physical_rows, dtype=np.uint32)
        return _check(task, fragment, every)
    parts = [np.zeros(0, np.uint32)]
    rows = _rows_of(task, fragment)
    reader = rows.reader
    for start, stop in rows.row_ranges(task.predicate, task.schema, 0, fragment.physical_rows):
        first = start
        batches = reader.iter_batches(
            task.schema, batch_rows=rows_per_batch([fragment]), start=start, stop=stop
        )
        for batch in batches:
            offsets = np.arange(first, first + batch.num_rows)
            found = _matches(task.predicate, _with_row_columns(task, rows.columns, batch, offsets))
            parts.append((found + first).astype(np.uint32))
            first += batch.num_rows
    return np.concatenate(parts)


def _rows_of(task: FindTask, fragment: Fragment) -> FragmentRows:
    fragment = _undeleted(fragment)
    # Each file is read once: only this reader has it open.
    return FragmentRows(task.snapshot.narrowed((fragment,)), fragment, 0)


def _undeleted(fragment: Fragment) -> Fragment:
    """Return a fragment without its deletions: these are subtracted from the matches."""
    return fragment if fragment.deletion_file is None else fragment.replace(deletion_file=None)


def _with_row_columns(
    task: FindTask, columns: RowColumnSource, batch: pa.RecordBatch | pa.Table, rows: Rows
) -> pa.RecordBatch | pa.Table:
    for name in task.row_columns:
        batch = batch.append_column(name, columns.column(name, rows))
    return batch


def _check(task: FindTask, fragment: Fragment, offsets: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    if not task.schema.fields and not task.row_columns:
        return offsets if _constant(task.predicate) else offsets[:0]
    rows = _rows_of(task, fragment)
    if task.schema.fields:
        table = rows.reader.take(offsets, task.schema)
    else:
        table = rows_without_columns(len(offsets), pa.schema([]))
    table = _with_row_columns(task, rows.columns, table, offsets.astype(np.int64))
    return offsets[_matches(task.predicate, table)]


def _matches(predicate: Expression, rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.int64]:
    selected = select(predicate, rows)
    if isinstance(selected, pa.ChunkedArray):
        selected = selected.combine_chunks()
    return np.flatnonzero(selected.to_numpy(zero_copy_only=False))


def _constant(predicate: Expression) -> bool:
    """Return whether a predicate without columns is true."""
    one_row = pa.record_batch([pa.nulls(1)], names=["no column"])
    return bool(len(_matches(predicate, one_row)))
