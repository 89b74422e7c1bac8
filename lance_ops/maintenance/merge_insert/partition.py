"""Hash partition of a merge: rows of a source and of a dataset whose keys have one hash, joined and written.

The rows of both sides come sorted by the key, so that they are joined window by window: what a task holds in
memory does not grow with the source, nor with the dataset. Of the dataset there are keys and addresses only.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.filter import Expression
from lance_ops.index.bloom_filter.hashes import hash_values
from lance_ops.maintenance.merge_insert.clauses import SOURCE, Clauses, named_columns
from lance_ops.maintenance.merge_insert.commit import told_keys
from lance_ops.maintenance.merge_insert.plan import SourceKeys, key_table, settle
from lance_ops.maintenance.merge_insert.search import JoinedRows, JoinTask, joined_rows
from lance_ops.maintenance.merge_insert.source import SourceRows
from lance_ops.maintenance.merge_insert.write import MergeTask, PairedPart, write_merged
from lance_ops.maintenance.tasks import remove_files
from lance_ops.maintenance.update.rewrite import data_paths
from lance_ops.table.join_keys import KeyIndex, Places
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.key_filter import KeyFilter

Hashes = npt.NDArray[np.uint64]

MOST_HASHES = 1 << 22
"""Maximum number of added keys of a partition with reported hashes; 8 bytes each."""

_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """Merge of one hash partition; serializable for executors.

    Attributes:
        snapshot: The version.
        source: Columns of the source, in the types of the dataset, with no rows.
        on: Key columns.
        clauses: Clauses of the merge.
        condition: Parsed condition of the clauses.
        job_key: See `write_data_files`.
    """

    snapshot: Snapshot
    source: SourceRows
    on: tuple[str, ...]
    clauses: Clauses
    condition: Expression | None
    job_key: str | None


@dataclass(frozen=True, slots=True)
class Window:
    """Rows of a partition: all those with some keys.

    Attributes:
        source: Rows of the source, in the types of the dataset.
        source_keys: Their keys, column by column (`carried_keys`).
        target_keys: Keys of rows of the dataset.
        addresses: Row addresses of these, uint64.
        selected: Which of these are deleted if unmatched.
    """

    source: pa.Table
    source_keys: Sequence[pa.Array]
    target_keys: Sequence[pa.Array]
    addresses: npt.NDArray[np.uint64]
    selected: npt.NDArray[np.bool_]


@dataclass(slots=True)
class PartitionResult:
    """Result of a partition.

    Attributes:
        new: Written fragments.
        matched: Rows to mark deleted, by fragment.
        rows_inserted: Inserted rows.
        rows_updated: Updated rows.
        rows_deleted: Deleted rows.
        hashes: Hashes of inserted keys; None if there are too many.
        told: Filter of these keys; see `told_keys`.
    """

    new: list[Fragment] = field(default_factory=list)
    matched: dict[int, DeletionVector] = field(default_factory=dict)
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    hashes: Hashes | None = field(default_factory=lambda: np.zeros(0, np.uint64))
    told: KeyFilter | None = None

    def add(self, other: "PartitionResult") -> None:
        """Add the result of other rows."""
        self.new += other.new
        for fragment_id, rows in other.matched.items():
            known = self.matched.get(fragment_id)
            self.matched[fragment_id] = rows if known is None else known.union(rows)
        self.rows_inserted += other.rows_inserted
        self.rows_updated += other.rows_updated
        self.rows_deleted += other.rows_deleted
        known_hashes = self.hashes is not None and other.hashes is not None
        self.hashes = np.concatenate([self.hashes, other.hashes]) if known_hashes else None
        if other.told is not None:
            self.told = other.told if self.told is None else self.told.joined(other.told)


def carried_keys(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns of a key in types that any engine shuffles by: int64, string, binary; equal as before.

    Args:
        columns: From `plain_keys`.
    """
    return [_carried(column) for column in columns]


def _carried(column: pa.Array) -> pa.Array:
    kind = column.type
    if pat.is_uint64(kind):
        return column.view(pa.int64())
    if pat.is_integer(kind):
        return column.cast(pa.int64())
    if pat.is_decimal(kind):
        return column.cast(pa.string())
    if pat.is_string(kind) or pat.is_large_string(kind):
        return column.cast(pa.string())
    return column.cast(pa.binary())


def carried_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column of the key is shuffled."""
    plain = kind.value_type if pat.is_dictionary(kind) else kind
    if pat.is_decimal(plain) or pat.is_string(plain) or pat.is_large_string(plain):
        return pa.string()
    is_bytes = pat.is_binary(plain) or pat.is_large_binary(plain) or pat.is_fixed_size_binary(plain)
    return pa.binary() if is_bytes else pa.int64()


def hash_keys(columns: Sequence[pa.Array]) -> Hashes:
    """One hash for each row without a null in its key.

    Args:
        columns: From `carried_keys`.
    """
    valid = pa.array(~_has_null(columns))
    hashes = np.zeros(pc.sum(valid).as_py() or 0, np.uint64)
    for column in columns:
        hashes = hashes * _MIX + hash_values(column.filter(valid))
    return hashes


def _has_null(columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    masks = [np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_) for column in columns]
    return np.asarray(np.logical_or.reduce(masks), np.bool_)


def merge_partition(task: PartitionTask, windows: Iterable[Window]) -> PartitionResult:
    """Join a partition, window by window, and write updated and inserted rows.

    Raises:
        InvalidArgumentError: Several rows of the source have the same effective key, or rows match although
            no match is allowed. Files written by then are removed.
    """
    total = PartitionResult()
    try:
        for window in windows:
            total.add(_merge(task, window))
    except BaseException:
        remove_files(task.snapshot.store, data_paths(total.new))
        raise
    return total


def _merge(task: PartitionTask, window: Window) -> PartitionResult:
    clauses, source = task.clauses, SourceRows(task.source.schema, window.source)
    index, firsts = KeyIndex.of(window.source_keys)
    keys = SourceKeys(index, firsts)
    joined = list(_joined(task, window, index))
    inserted = settle(source, keys, task.on, clauses, joined, numbered=False)
    parts = tuple(
        PairedPart(item.fragment, item.offsets, item.rows)
        for item in joined
        if clauses.updates and len(item.offsets)
    )
    matches = [match for item in joined if (match := item.match) is not None]
    updated = sum(len(part.offsets) for part in parts)
    mine = [column.take(pa.array(inserted)) for column in window.source_keys]
    return PartitionResult(
        list(_write(task, source, parts, inserted)),
        {match.fragment.id: match.matched for match in matches},
        rows_inserted=len(inserted),
        rows_updated=updated,
        rows_deleted=sum(len(match.matched) for match in matches) - updated,
        hashes=hash_keys(mine) if len(inserted) <= MOST_HASHES else None,
        told=told_keys(task.snapshot, task.on, lambda: key_table(source, task.on, inserted)),
    )


def _joined(task: PartitionTask, window: Window, index: KeyIndex) -> Iterator[JoinedRows]:
    """Rows that are touched, fragment by fragment."""
    partners = index.find(window.target_keys)
    order = np.argsort(window.addresses, kind="stable")
    addresses, partners, gone = window.addresses[order], partners[order], window.selected[order]
    compared = None
    if task.condition is not None:
        wanted = named_columns(task.condition, SOURCE)
        compared = window.source.select([name for name in window.source.column_names if name in wanted])
    join = JoinTask(
        task.snapshot,
        task.on,
        index,
        task.condition,
        compared,
        touches_matched=task.clauses.touches_matched,
        deletes_unmatched=task.clauses.deletes_unmatched,
        unmatched=None,
        candidates=(),
    )
    fragments = addresses >> np.uint64(32)
    offsets = (addresses & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    for fragment_id in np.unique(fragments):
        start, stop = np.searchsorted(fragments, [fragment_id, fragment_id + np.uint64(1)])
        found, here = partners[start:stop], offsets[start:stop]
        paired, alone = found >= 0, (found < 0) & gone[start:stop]
        if paired.any() or alone.any():
            fragment = task.snapshot.fragments_by_id[int(fragment_id)]
            rows = FragmentRows(task.snapshot, fragment, 0)
            yield joined_rows(join, rows, here[paired], found[paired], here[alone])


def _write(
    task: PartitionTask, source: SourceRows, parts: tuple[PairedPart, ...], inserted: Places
) -> tuple[Fragment, ...]:
    if not parts and not len(inserted):
        return ()
    return write_merged(
        MergeTask(
            task.snapshot.narrowed([part.fragment for part in parts]),
            source.table,
            parts,
            inserted,
            task.snapshot.data_storage_version,
            job_key=task.job_key,
        )
    )
