"""Delete search: task that finds the rows of a predicate.

Delete plan: fragments to search for a predicate, and the matches.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import to_numpy
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression, parse_filter, select
from lance_ops.maintenance.live_rows import rows_per_batch
from lance_ops.maintenance.text import count_text, table_text
from lance_ops.storage.prefetch import has_latency, prefetch, read_small
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import DeletionVector, read_deletion_vector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.fragment_list import FragmentTuple
from lance_ops.table.manifest.fragments.totals import fragments_at, numbers_of, total_rows
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.place_pruning import may_hold_rows
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.pruner import Pruner, Pruning
from lance_ops.table.scan.row_columns import (
    ROW_ADDRESS,
    ROW_COLUMNS,
    ROW_CREATED_AT,
    ROW_ID,
    ROW_UPDATED_AT,
    RowColumnSource,
    Rows,
    row_column_field,
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
    items = list(zip(task.fragments, task.candidates, strict=True))
    groups: list[Sequence[_Item]] = [[item] for item in items]
    # Each value of a blob is a separate read, and may be large.
    if task.schema.fields and not has_blobs(task.schema):
        groups = list(find_groups(items, _joined, is_far=has_latency(task.snapshot.store)))
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
        if not group.is_bounded(task.schema):
            return [_search_one(task, fragment, candidates) for fragment, candidates in items]
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
    return np.flatnonzero(to_numpy(selected))


def _constant(predicate: Expression) -> bool:
    """Return whether a predicate without columns is true."""
    one_row = pa.record_batch([pa.nulls(1)], names=["no column"])
    return bool(len(_matches(predicate, one_row)))


_ROWS_PER_TASK = 1 << 20
_FRAGMENTS_PER_TASK = 256

_CHECK_AT_MOST = 0.25
"""Share of a fragment's rows up to which reading candidates one by one is faster than reading the columns."""


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Plan of a delete; prints as a table after the search.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        predicate: The predicate as written.
        columns: Columns to read.
        tasks: Searches.
        total_rows: Live rows of the dataset.
        matches: Matches by fragment; None before the search.
        names_places: True if the predicate uses row addresses, which a compaction changes.
    """

    uri: str
    version: int
    predicate: str
    columns: tuple[str, ...]
    tasks: tuple[FindTask, ...]
    total_rows: int
    matches: tuple[FragmentMatch, ...] | None = None
    names_places: bool = False

    @property
    def rows_matched(self) -> int:
        """Number of rows that would be deleted."""
        return sum(len(match.matched) for match in self.matches or ())

    @property
    def fragments_searched(self) -> int:
        """Number of fragments to read."""
        return sum(len(task.fragments) for task in self.tasks)

    def to_dict(self) -> dict[str, object]:
        """Return numbers and ids as JSON values."""
        return {
            "operation": "delete",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "predicate": self.predicate,
            "columns": list(self.columns),
            "fragments_searched": self.fragments_searched,
            "total_rows": self.total_rows,
            "rows_matched": None if self.matches is None else self.rows_matched,
            "fragments": [
                {
                    "fragment": match.fragment.id,
                    "live_rows": match.live_rows,
                    "rows_matched": len(match.matched),
                    "removed": match.empties,
                }
                for match in self.matches or ()
            ],
        }

    def __str__(self) -> str:
        head = f"delete {self.predicate!r} at version {self.version} of {self.uri}"
        if self.matches is None:
            read = ", ".join(self.columns) or "nothing"
            return f"{head}: search {count_text(self.fragments_searched, 'fragment')}, reading {read}"
        if not self.matches:
            return f"{head}: no rows match"
        rows = [
            (
                str(match.fragment.id),
                f"{match.live_rows:,}",
                f"{len(match.matched):,}",
                "is emptied" if match.empties else f"keeps {match.live_rows - len(match.matched):,}",
            )
            for match in self.matches
        ]
        share = self.rows_matched / self.total_rows if self.total_rows else 0.0
        return "\n".join(
            [
                f"{head}: {count_text(self.rows_matched, 'row')} of {self.total_rows:,} ({share:.1%})",
                table_text(("fragment", "live rows", "matches", "then"), rows),
            ]
        )


def plan_delete(
    dataset: Dataset,
    predicate: str,
    *,
    pruners: Sequence[Pruner] = (),
    fragments: Iterable[Fragment] | None = None,
) -> DeletePlan:
    """Plan the search. Reads metadata, and the indices of pruners.

    Args:
        dataset: The version to plan from.
        predicate: SQL; rows for which it is true are deleted, rows for which it is null are kept.
        pruners: Indices that may narrow the search.
        fragments: Fragments to search; all if None.

    Raises:
        PredicateError: the predicate does not parse, or names an unknown column.
    """
    if not predicate.strip():
        raise InvalidArgumentError(
            "the predicate is empty; write 'true' to delete every row", field="predicate"
        )
    expression = parse_filter(predicate, predicate_schema(dataset))
    prunings = [found for pruner in pruners if (found := pruner.prune(dataset, expression)) is not None]
    columns = sorted(expression.columns)
    own = dataset.lance_schema.names
    row_columns = tuple(name for name in columns if name in ROW_COLUMNS and name not in own)
    schema = dataset.lance_schema.project([name for name in columns if name not in row_columns])
    tasks: list[FindTask] = []
    share: list[int] = []
    candidates: list[Candidates | None] = []
    rows = 0
    searched = dataset.fragments if fragments is None else FragmentTuple(fragments)
    numbers = numbers_of(searched)

    def close() -> None:
        nonlocal rows
        if share:
            snapshot = dataset.narrowed(fragments_at(searched, share), schema)
            tasks.append(FindTask(snapshot, expression, tuple(candidates), row_columns))
        share.clear()
        candidates.clear()
        rows = 0

    places = np.flatnonzero(may_hold_rows(expression, numbers, dataset.manifest))
    every = zip(places.tolist(), numbers.ids[places].tolist(), numbers.rows[places].tolist(), strict=True)
    for place, fragment_id, physical_rows in every:
        narrowed = _candidates(fragment_id, physical_rows, prunings)
        if narrowed is not None and not len(narrowed.offsets):
            continue
        share.append(place)
        candidates.append(narrowed)
        rows += physical_rows if narrowed is None else len(narrowed.offsets)
        if rows >= _ROWS_PER_TASK or len(share) == _FRAGMENTS_PER_TASK:
            close()
    close()
    return DeletePlan(
        uri=dataset.uri,
        version=dataset.version,
        predicate=predicate,
        columns=tuple(columns),
        tasks=tuple(tasks),
        total_rows=total_rows(dataset.fragments),
        names_places=ROW_ADDRESS in row_columns
        or (ROW_ID in row_columns and not dataset.uses_stable_row_ids),
    )


def predicate_schema(dataset: Dataset) -> pa.Schema:
    """Return what a predicate may name: columns, row ids and addresses, and recorded row versions.

    Not the offset of a row, which changes with every delete before it; nor the row versions of a table
    without records, where all rows have the first one.
    """
    names = [ROW_ID, ROW_ADDRESS]
    if dataset.uses_stable_row_ids:
        names += [ROW_CREATED_AT, ROW_UPDATED_AT]
    own = dataset.schema
    extra = [row_column_field(name) for name in names if name not in own.names]
    return pa.schema([*own, *extra], metadata=own.metadata)


def _candidates(fragment_id: int, physical_rows: int, prunings: Sequence[Pruning]) -> Candidates | None:
    """Return the smallest candidate set of a fragment from any index."""
    best: Candidates | None = None
    for pruning in prunings:
        if fragment_id not in pruning.covered_fragment_ids:
            continue
        offsets = pruning.offsets_in(fragment_id)
        exact = fragment_id in pruning.exact
        if not exact and len(offsets) > physical_rows * _CHECK_AT_MOST:
            continue
        if best is None or (exact, -len(offsets)) > (best.exact, -len(best.offsets)):
            best = Candidates(offsets, exact)
    return best
