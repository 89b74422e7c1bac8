"""Join: task that matches rows with the source, and finds unmatched rows.

The keys of the source are in memory; of the dataset the key columns are read, fragment by fragment, and the
columns of conditions for the affected rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.distinct import distinct
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression, select
from lance_ops.maintenance.delete.search import FragmentMatch
from lance_ops.maintenance.live_rows import rows_per_batch
from lance_ops.maintenance.merge_insert.clauses import SOURCE, TARGET, named_columns
from lance_ops.maintenance.merge_insert.keys import KeyIndex, plain_keys
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.snapshot import Snapshot

Offsets = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JoinTask:
    """Some fragments to join; travels to executors.

    Attributes:
        snapshot: The fragments.
        on: Columns of the key.
        keys: The keys of the source.
        condition: Which of the rows with a partner are touched; None for all.
        compared: The columns of the source that the condition names.
        touches_matched: Rows with a partner are updated or deleted.
        deletes_unmatched: Rows without one go.
        unmatched: Which of those go; None for all.
        candidates: Of each fragment, the rows that can have a partner, as an index says; None for all.
        staying: Rows of the source, from the first on, that are not there to say what goes; None for all.
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
    """What was found in one fragment.

    Attributes:
        fragment: As it is.
        partners: Rows of the source that are the partner of some row, each once.
        offsets: Ascending offsets of the rows that are updated or deleted for their partners.
        rows: Their partners.
        unmatched: Ascending offsets of the rows that go for having none, or for one that says so.
        deleted: Offsets that are deleted already.
    """

    fragment: Fragment
    partners: Places
    offsets: Offsets
    rows: Places
    unmatched: Offsets
    deleted: DeletionVector | None

    @property
    def match(self) -> FragmentMatch | None:
        """All rows that go, as a delete has them; None when there is none."""
        gone = np.concatenate([self.offsets, self.unmatched])
        if not len(gone):
            return None
        return FragmentMatch(self.fragment, DeletionVector.from_offsets(gone), self.deleted)


def join_rows(task: JoinTask) -> list[JoinedRows]:
    """Find partners; fragments in which nothing is found are left out."""
    found = []
    for fragment, candidates in zip(task.snapshot.fragments, task.candidates, strict=True):
        rows = FragmentRows(task.snapshot, fragment, 0)
        joined = _join(task, rows, candidates)
        if len(joined.partners) or len(joined.unmatched):
            found.append(joined)
    return found


def _join(task: JoinTask, rows: FragmentRows, candidates: Offsets | None) -> JoinedRows:
    """The rows of one fragment."""
    matched = [np.zeros(0, np.int64)]
    partners = [np.zeros(0, np.int64)]
    unmatched = [np.zeros(0, np.int64)]
    for table, offsets in key_windows(task, rows, candidates):
        found = task.keys.find([plain_keys(table[name]) for name in task.on])
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
    """What becomes of rows whose partners are known.

    Args:
        task: What is done to which rows; its keys and candidates are not looked at.
        rows: The fragment.
        offsets: Ascending offsets of live rows with a partner.
        places: Their partners.
        unmatched: Ascending offsets of the rows that go for having none.
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
    """The columns of the key of one fragment, and those that `unmatched` names, with their offsets."""
    names = {*task.on, *(task.unmatched.root_columns if task.unmatched is not None else ())}
    schema = key_columns(task.snapshot.lance_schema, names)
    if candidates is not None:
        offsets = candidates.astype(np.int64)
        if len(offsets):
            yield rows.reader.take(offsets, schema), offsets
        return
    size = max(rows_per_batch([rows.fragment]), rows.window_rows(schema))
    for start in range(0, rows.fragment.physical_rows, size):
        stop = min(start + size, rows.fragment.physical_rows)
        yield rows.reader.read(schema, start, stop), np.arange(start, stop, dtype=np.int64)


def _meets(
    task: JoinTask, rows: FragmentRows, offsets: npt.NDArray[np.int64], places: Places
) -> npt.NDArray[np.bool_]:
    """Whether the condition is true for pairs of rows."""
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
    """For which rows a condition is true."""
    return np.asarray(select(expression, table).to_numpy(zero_copy_only=False), dtype=np.bool_)


def key_columns(schema: Schema, names: set[str]) -> Schema:
    """The columns of these names, in the order of the schema."""
    return schema.select([name for name in schema.names if name in names])


def share_fragments(fragments: Sequence[Fragment], rows_per_task: int) -> Iterator[tuple[Fragment, ...]]:
    """Neighbouring fragments, so many rows for each task or a few more."""
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
