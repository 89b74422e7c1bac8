"""Join: task that matches rows with the source, and finds unmatched rows.

The keys of the source are in memory; of the dataset the key columns are read, of small fragments
together, and the columns of conditions for the affected rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.distinct import distinct
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.filter import Expression, select
from lance_ops.maintenance.delete.plan import FragmentMatch
from lance_ops.maintenance.live_rows import rows_per_batch
from lance_ops.maintenance.merge_insert.clauses import SOURCE, TARGET, named_columns
from lance_ops.storage.prefetch import has_latency
from lance_ops.table.join_keys import KeyIndex, plain_keys
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.small_fragments import FragmentGroup, find_groups
from lance_ops.table.snapshot import Snapshot

Offsets = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

_ROWS_TOGETHER = 1 << 17
"""Rows whose keys are read together: more of them exceed the processor caches."""


@dataclass(frozen=True, slots=True)
class JoinTask:
    """Fragments to join; serializable for executors.

    Attributes:
        snapshot: The fragments.
        on: Key columns.
        keys: The keys of the source.
        condition: Condition on changed matched rows; None for all.
        compared: Columns of the source in the condition.
        touches_matched: Matched rows are updated or deleted.
        deletes_unmatched: Unmatched rows are deleted.
        unmatched: Condition on deleted unmatched rows; None for all.
        candidates: Rows of each fragment that may match, from an index; None for all.
        staying: Number of leading rows of the source that are not deletions; None for all.
    """

    snapshot: Snapshot
    on: tuple[str, ...]
    keys: KeyIndex
    condition: Expression | None
    compared: pa.Table | None
    touches_matched: bool
    deletes_unmatched: bool
    unmatched: Expression | None
    candidates: tuple[Offsets | None, ...]
    staying: int | None = None


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Matches in one fragment.

    Attributes:
        fragment: The fragment.
        partners: Matched rows of the source, each once.
        offsets: Ascending offsets of the changed matched rows.
        rows: Their matches in the source.
        unmatched: Ascending offsets of the deleted rows.
        deleted: Offsets of rows already deleted.
    """

    fragment: Fragment
    partners: Places
    offsets: Offsets
    rows: Places
    unmatched: Offsets
    deleted: DeletionVector | None

    @property
    def match(self) -> FragmentMatch | None:
        """All rows to mark deleted, as for a delete; None without any."""
        gone = np.concatenate([self.offsets, self.unmatched])
        if not len(gone):
            return None
        return FragmentMatch(self.fragment, DeletionVector.from_offsets(gone), self.deleted)


def join_rows(task: JoinTask) -> list[JoinedRows]:
    """Find matches; fragments without any are omitted."""
    items = list(zip(task.snapshot.fragments, task.candidates, strict=True))
    schema = key_columns(task.snapshot.lance_schema, _names(task))
    # Each value of a blob is a separate read, and may be large.
    groups: Iterable[Sequence[_Item]] = [[item] for item in items]
    if not has_blobs(schema):
        width = prepare_schema(schema).row_bytes
        groups = find_groups(
            items, _read_whole, _ROWS_TOGETHER, width=width, is_far=has_latency(task.snapshot.store)
        )
    joined = chain.from_iterable(_join_group(task, group, schema) for group in groups)
    return [rows for rows in joined if len(rows.partners) or len(rows.unmatched)]


_Item = tuple[Fragment, Offsets | None]


def _read_whole(item: _Item) -> Fragment | None:
    fragment, candidates = item
    return fragment if candidates is None else None


def _join_group(task: JoinTask, items: Sequence[_Item], schema: Schema) -> Iterator[JoinedRows]:
    """Yield the matches of fragments whose keys are read together, or of a single one."""
    fragments = [fragment for fragment, _ in items]
    if len(items) > 1:
        # Deleted rows are subtracted from matches, so that few deletion files are read.
        undeleted = [
            fragment if fragment.deletion_file is None else fragment.replace(deletion_file=None)
            for fragment in fragments
        ]
        group = FragmentGroup(task.snapshot, undeleted, [0] * len(undeleted))
        if group.is_bounded(schema):
            table = group.fetch(schema, range(group.num_rows))
            found = _find(task, table)
            for fragment, (first, last) in zip(fragments, pairwise(group.starts.tolist()), strict=True):
                own = found[first:last]
                if task.deletes_unmatched or bool((own >= 0).any()):
                    rows = FragmentRows(task.snapshot, fragment, 0)
                    offsets = np.arange(last - first, dtype=np.int64)
                    yield _join(task, rows, [(table.slice(first, last - first), own, offsets)])
            return
    for fragment, candidates in items:
        rows = FragmentRows(task.snapshot, fragment, 0)
        windows = key_windows(task, rows, candidates)
        yield _join(task, rows, ((table, _find(task, table), offsets) for table, offsets in windows))


def _find(task: JoinTask, table: pa.Table) -> Places:
    return task.keys.find([plain_keys(table[name]) for name in task.on])


def _join(
    task: JoinTask, rows: FragmentRows, windows: Iterable[tuple[pa.Table, Places, Places]]
) -> JoinedRows:
    """Return the matches of one fragment.

    Args:
        task: The clauses.
        rows: The fragment.
        windows: Columns of rows, the row of the source with the key of each, and their offsets.
    """
    matched = [np.zeros(0, np.int64)]
    partners = [np.zeros(0, np.int64)]
    unmatched = [np.zeros(0, np.int64)]
    for table, found, offsets in windows:
        live = None if rows.deletions is None else rows.is_live(offsets)
        paired = found >= 0
        hits = np.flatnonzero(paired if live is None else paired & live)
        matched.append(offsets[hits])
        partners.append(found[hits])
        if task.deletes_unmatched:
            gone = ~paired if live is None else live & ~paired
            if task.unmatched is not None:
                gone &= selected(task.unmatched, table)
            unmatched.append(offsets[np.flatnonzero(gone)])
    return joined_rows(
        task, rows, np.concatenate(matched), np.concatenate(partners), np.concatenate(unmatched)
    )


def joined_rows(
    task: JoinTask, rows: FragmentRows, offsets: Places, places: Places, unmatched: Places
) -> JoinedRows:
    """Return the changes of rows with known matches.

    Args:
        task: The clauses; its keys and candidates are not used.
        rows: The fragment.
        offsets: Ascending offsets of matched live rows.
        places: Their matches in the source.
        unmatched: Ascending offsets of unmatched rows to delete.
    """
    met = distinct(places)
    if task.staying is not None:
        leaves = places >= task.staying
        unmatched = np.sort(np.concatenate([unmatched, offsets[leaves]]))
        offsets, places = offsets[~leaves], places[~leaves]
    if not task.touches_matched:
        offsets, places = offsets[:0], places[:0]
    elif task.condition is not None and len(offsets):
        keep = np.flatnonzero(_meets(task, rows, offsets, places))
        offsets, places = offsets[keep], places[keep]
    return JoinedRows(
        rows.fragment,
        met,
        offsets.astype(np.uint32),
        places,
        unmatched.astype(np.uint32),
        rows.deletions,
    )


def key_windows(
    task: JoinTask, rows: FragmentRows, candidates: Offsets | None
) -> Iterator[tuple[pa.Table, Places]]:
    """Yield the key columns of one fragment, and those of `unmatched`, with offsets."""
    schema = key_columns(task.snapshot.lance_schema, _names(task))
    if candidates is not None:
        offsets = candidates.astype(np.int64)
        if len(offsets):
            yield rows.reader.take(offsets, schema), offsets
        return
    size = max(rows_per_batch([rows.fragment]), rows.window_rows(schema))
    for start in range(0, rows.fragment.physical_rows, size):
        stop = min(start + size, rows.fragment.physical_rows)
        yield rows.reader.read(schema, start, stop), np.arange(start, stop, dtype=np.int64)


def _names(task: JoinTask) -> set[str]:
    return {*task.on, *(task.unmatched.root_columns if task.unmatched is not None else ())}


def _meets(
    task: JoinTask, rows: FragmentRows, offsets: npt.NDArray[np.int64], places: Places
) -> npt.NDArray[np.bool_]:
    """Return whether the condition is true for pairs of rows."""
    assert task.condition is not None
    assert task.compared is not None
    schema = key_columns(task.snapshot.lance_schema, named_columns(task.condition, TARGET))
    count = len(offsets)
    sides = {
        SOURCE: _as_struct(task.compared.take(pa.array(places)), count),
        TARGET: _as_struct(rows.fetch(schema, offsets), count),
    }
    return selected(task.condition, pa.table(sides))


def _as_struct(table: pa.Table, count: int) -> pa.Array:
    if not table.num_columns:
        return pa.StructArray.from_buffers(pa.struct([]), count, [None], null_count=0)
    columns = [column.combine_chunks() for column in table.columns]
    arrays = [
        pa.concat_arrays(item.chunks) if isinstance(item, pa.ChunkedArray) else item for item in columns
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(table.schema))


def selected(expression: Expression, table: pa.Table) -> npt.NDArray[np.bool_]:
    """Return for which rows a condition is true."""
    return np.asarray(select(expression, table).to_numpy(zero_copy_only=False), dtype=np.bool_)


def key_columns(schema: Schema, names: set[str]) -> Schema:
    """Return columns by name, in the order of the schema."""
    return schema.select([name for name in schema.names if name in names])


def share_fragments(fragments: Sequence[Fragment], rows_per_task: int) -> Iterator[tuple[Fragment, ...]]:
    """Return groups of neighbouring fragments with a number of rows for each task."""
    share: list[Fragment] = []
    rows = 0
    for fragment in fragments:
        share.append(fragment)
        rows += fragment.physical_rows
        if rows >= rows_per_task:
            yield tuple(share)
            share, rows = [], 0
    if share:
        yield tuple(share)
