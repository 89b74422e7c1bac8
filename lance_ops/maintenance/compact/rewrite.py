"""Rewrite: the task of a compaction, which brings the live rows of one group of fragments into new files.

Indices that would have to read the new rows note them while they are written (`PassingRows`).
"""

import base64
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.json_values import stored_documents
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.index.column import leaf_values, value_type
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import WatchingKind
from lance_ops.index.registry import kind_by_name
from lance_ops.index.upkeep.remap import watch_of
from lance_ops.index.upkeep.routes import Route, SegmentRoute
from lance_ops.index.watch import Noted, Observer, Watch
from lance_ops.maintenance.compact.copy import CopyDoubtError, copy_fragments
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.method import Method
from lance_ops.maintenance.live_rows import (
    RowCutter,
    even_cuts,
    fetched,
    iter_live_rows,
    read_deletions,
    rows_per_batch,
)
from lance_ops.maintenance.tasks import remove_files
from lance_ops.maintenance.text import ids_text
from lance_ops.storage import Store
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import UNASSIGNED
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import SEQUENCES, Fragment
from lance_ops.table.narrow_dictionaries import narrow_columns
from lance_ops.table.row_lineage.read import read_sequences
from lance_ops.table.row_lineage.write import store_sequences
from lance_ops.table.snapshot import Snapshot

_CARRIED_BYTES = 64 << 20
"""So many bytes of notes may wait on the driver for the commit; for more, indices look at the new rows."""


def watches_of(
    dataset: Dataset, routes: Iterable[SegmentRoute], groups: Sequence[CompactionGroup]
) -> list[tuple[Watch, ...]]:
    """What is to be noted of the rows of each group.

    Args:
        dataset: The version that they were planned from.
        routes: How its index segments follow.
        groups: What is rewritten.
    """
    found: list[list[Watch]] = [[] for _ in groups]
    left = float(_CARRIED_BYTES)
    rows = {fragment.id: fragment.physical_rows for fragment in dataset.fragments}
    for item in routes:
        if item.route is not Route.LOOK:
            continue
        covered = effective_fragments(dataset.manifest, item.segment)
        named = sum(rows[fragment_id] for fragment_id in covered)
        touched = [place for place, group in enumerate(groups) if covered.issuperset(group.fragment_ids)]
        watch = watch_of(dataset, item) if touched and named else None
        if watch is None:
            continue
        for place in touched:
            left -= item.segment.size_bytes * groups[place].live_rows / named
            if left < 0:
                break
            if watch not in found[place]:
                found[place].append(watch)
    return [tuple(watches) for watches in found]


@dataclass(frozen=True, slots=True)
class _Watcher:
    """A watch whose column is written, and how to get at it."""

    kind: WatchingKind
    watch: Watch
    names: tuple[str, ...]
    values: pa.DataType


class PassingRows:
    """Shows the rows of new fragments to what watches them, while they pass.

    Args:
        watches: What to note.
        schema: The columns that are written.
    """

    def __init__(self, watches: Iterable[Watch], schema: Schema) -> None:
        self._watchers: list[_Watcher] = []
        for watch in watches:
            kind = kind_by_name(watch.kind)
            assert isinstance(kind, WatchingKind)
            # A column that no file of the group has is not written: whoever wants to know looks later.
            with suppress(InvalidArgumentError):
                path = schema.path(watch.field_id)
                names = tuple(field.name for field in schema.ancestry(path))
                self._watchers.append(_Watcher(kind, watch, names, value_type(schema.field(path))))
        self._notes: list[list[bytes | None]] = [[] for _ in self._watchers]
        self._observers: list[Observer] = []

    def one_fragment(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one fragment, looked at on their way."""
        self._observers = [item.kind.observer(item.watch, item.values) for item in self._watchers]
        for batch in batches:
            for item, observer in zip(self._watchers, self._observers, strict=True):
                observer.add(_column(batch, item))
            yield batch

    def written(self, fragments: int) -> None:
        """Note what passed; of more fragments than one nobody knows which rows each of them got."""
        for notes, observer in zip(self._notes, self._observers, strict=True):
            notes += [observer.finish()] if fragments == 1 else [None] * fragments
        self._observers = []

    @property
    def noted(self) -> tuple[Noted, ...]:
        """All that was noted."""
        return tuple(
            Noted(item.watch, tuple(notes)) for item, notes in zip(self._watchers, self._notes, strict=True)
        )


def _column(batch: pa.RecordBatch, item: _Watcher) -> pa.Array:
    values = leaf_values(batch.column(item.names[0]), item.names)
    return values if values.type == item.values else values.cast(item.values)


def notes_by_watch(results: Iterable[tuple[Sequence[int], Sequence[Noted]]]) -> dict[Watch, dict[int, bytes]]:
    """Notes of rewritten groups by watch and fragment.

    Args:
        results: The ids of the new fragments of each group, and what was noted of them.
    """
    found: dict[Watch, dict[int, bytes]] = {}
    for fragment_ids, noted in results:
        for item in noted:
            known = found.setdefault(item.watch, {})
            for fragment_id, note in zip(fragment_ids, item.notes, strict=True):
                if note is not None:
                    known[fragment_id] = note
    return found


def encode_notes(noted: Iterable[Noted]) -> list[dict[str, Any]]:
    """Notes as JSON values."""
    return [
        {
            "kind": item.watch.kind,
            "field": item.watch.field_id,
            "parameters": dict(item.watch.parameters),
            "notes": [None if note is None else base64.b64encode(note).decode() for note in item.notes],
        }
        for item in noted
    ]


def decode_notes(values: Iterable[Mapping[str, Any]]) -> tuple[Noted, ...]:
    """Notes from their JSON values."""
    return tuple(
        Noted(
            Watch(item["kind"], item["field"], tuple(sorted(item["parameters"].items()))),
            tuple(None if note is None else base64.b64decode(note) for note in item["notes"]),
        )
        for item in values
    )


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One group to rewrite; travels to executors.

    Attributes:
        snapshot: The version that it was planned from, with the fragments of the group.
        storage_version: Of the data files to write.
        group: What to rewrite.
        batch_rows: Rows read at once; None chooses by the size of a row.
        max_bytes_per_file: Cap of the data files.
        spill_limit: Bytes above which a row id or version sequence goes into a data file; None keeps all of
            them in the manifest.
        job_key: See `write_data_files`.
        watches: What indices want to know of the rows while they pass.
    """

    snapshot: Snapshot
    storage_version: str
    group: CompactionGroup
    batch_rows: int | None = None
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    spill_limit: int | None = None
    job_key: str | None = None
    watches: tuple[Watch, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A rewritten group, not committed yet.

    Attributes:
        group: As planned.
        new_fragments: In the order of rows; ids not assigned yet.
        purged_rows: Deleted rows that were left out.
        deletions: Deletion vectors of the old fragments, for those who need them once more.
        copied: Whether the pages were copied, not the rows rewritten.
        doubt: Why the rows were rewritten although the pages were to be copied; None for no reason.
        seconds: What the task took, beside others of its machine.
        noted: What the watches of the task noted of the new fragments; nothing where pages were copied.
    """

    group: CompactionGroup
    new_fragments: tuple[Fragment, ...]
    purged_rows: int
    deletions: tuple[DeletionVector | None, ...] = ()
    copied: bool = False
    doubt: str | None = None
    seconds: float = 0.0
    noted: tuple[Noted, ...] = ()

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(fragment.physical_rows for fragment in self.new_fragments)

    @property
    def bytes_written(self) -> int:
        """Size of the new data files."""
        return sum(fragment.data_bytes for fragment in self.new_fragments)

    @property
    def paths(self) -> tuple[str, ...]:
        """The new data files, relative to the root."""
        return tuple(f"data/{file.path}" for fragment in self.new_fragments for file in fragment.files)


def rewrite_group(task: RewriteTask) -> RewriteResult:
    """Bring the live rows of a group, in order, into the planned number of files, by the planned method.

    Where pages were to be copied, but the files do not allow it or what came out is not the same, the rows
    are rewritten.

    Raises:
        CorruptFileError: a file is damaged, or other rows were read than the manifest and the deletion files
            say. Files written by then are removed.
        UnsupportedError: Narrow dictionaries keep all fragments of the group apart. Likewise.
    """
    started = time.perf_counter()
    task = replace(task, snapshot=fetched(task.snapshot))
    snapshot, fragments = task.snapshot, task.group.fragments
    deletions = read_deletions(snapshot)
    purged = sum(len(deleted) for deleted in deletions if deleted is not None)
    rows = sum(fragment.physical_rows for fragment in fragments) - purged
    new: list[Fragment] = []
    doubt: str | None = None
    noted: tuple[Noted, ...] = ()
    copied = task.group.method.method is Method.COPY and rows > 0
    try:
        if copied:
            try:
                new += copy_fragments(snapshot, deletions, task.group.files, task.job_key)
            except CopyDoubtError as error:
                copied, doubt = False, str(error)
        if not copied:
            noted = _write_rows(task, rows, new)
            if not purged:
                _check_fewer(task, new)
        if snapshot.uses_stable_row_ids:
            _add_row_sequences(task, deletions, new)
    except BaseException:
        discard_rewrites(snapshot.store, [RewriteResult(task.group, tuple(new), 0)])
        raise
    seconds = time.perf_counter() - started
    return RewriteResult(task.group, tuple(new), purged, tuple(deletions), copied, doubt, seconds, noted)


def _write_rows(task: RewriteTask, survivors: int, new: list[Fragment]) -> tuple[Noted, ...]:
    """Read the live rows, write them evenly spread over the files, and put each fragment into `new`.

    Returns:
        What the watches of the task noted of them.
    """
    snapshot, fragments = task.snapshot, task.group.fragments
    schema = present_columns(snapshot.lance_schema, fragments)
    batch_rows = task.batch_rows or rows_per_batch(fragments)
    stored = stored_documents(schema)
    rows = RowCutter(iter_live_rows(snapshot, stored, batch_rows=batch_rows))
    passing = PassingRows(task.watches, schema)
    for count in even_cuts(survivors, max(1, task.group.files)) if survivors else ():
        written = write_data_files(
            snapshot.store,
            passing.one_fragment(rows.take(count)),
            stored,
            version=task.storage_version,
            max_rows_per_file=count,
            max_bytes_per_file=task.max_bytes_per_file,
            base_uris=snapshot.bases.blob_uris,
            job_key=task.job_key,
            described=schema,
        )
        new += written
        passing.written(len(written))
    _check_count(task, survivors, new, rows)
    return passing.noted


def _check_count(task: RewriteTask, survivors: int, new: Sequence[Fragment], rows: RowCutter) -> None:
    """A rewrite that would lose or invent a row must never reach a commit."""
    written = sum(fragment.physical_rows for fragment in new)
    if written != survivors or not rows.is_exhausted():
        raise CorruptFileError(
            f"fragments {ids_text(task.group.fragment_ids)} have {survivors} live rows, "
            f"but their files gave {'more' if written == survivors else written}",
            path=task.snapshot.uri,
        )


def _check_fewer(task: RewriteTask, new: Sequence[Fragment]) -> None:
    """Refuse a rewrite that would be due again at once, because dictionaries kept its fragments apart."""
    if len(new) < len(task.group.fragments) or len(new) <= task.group.files:
        return
    names = narrow_columns(prepare_schema(task.snapshot.lance_schema).arrow)
    if names:
        raise UnsupportedError(
            f"fragments {ids_text(task.group.fragment_ids)} cannot become fewer: their dictionaries "
            "together have more values than the indices can number",
            path=task.snapshot.uri,
            field=", ".join(names),
            hint="give the column a wider index type, or plain values, with alter_columns",
        )


def discard_rewrites(store: Store, results: Sequence[RewriteResult]) -> None:
    """Delete the files of groups that will not be committed."""
    remove_files(store, (path for result in results for path in result.paths))


def present_columns(schema: Schema, fragments: Sequence[Fragment]) -> Schema:
    """The columns that at least one fragment has data of.

    A column added without data has no file in old fragments and reads as null; it stays so when no fragment
    of the group has it. A group without any column keeps them all, since rows need a file to be counted by.
    """
    stored = {field_id for fragment in fragments for file in fragment.files for field_id in file.fields}
    if UNASSIGNED in stored:
        # Whose data that is nobody can tell; reading a column that seems to have none says so.
        return schema
    names = [field.name for field in schema.fields if any(item.id in stored for item in field.walk())]
    return (
        Schema(tuple(field for field in schema.fields if field.name in names), schema.metadata)
        if names
        else schema
    )


def _add_row_sequences(
    task: RewriteTask, deletions: Sequence[DeletionVector | None], new: list[Fragment]
) -> None:
    """Give new fragments the row ids and row versions of the surviving rows, cut to their sizes.

    Each is put back as soon as it has them: what fails half-way then knows every file that was written.
    """
    columns: dict[str, list[npt.NDArray[np.uint64]]] = {name: [] for name in SEQUENCES}
    for fragment, deleted in zip(task.group.fragments, deletions, strict=True):
        live = slice(None) if deleted is None else deleted.live_offsets(fragment.physical_rows)
        for name, values in read_sequences(task.snapshot.bases, fragment).items():
            columns[name].append(values[live])
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    start = 0
    for position, fragment in enumerate(new):
        stop = start + fragment.physical_rows
        new[position] = store_sequences(
            task.snapshot.bases,
            fragment,
            {name: values[start:stop] for name, values in joined.items()},
            storage_version=task.storage_version,
            limit=task.spill_limit,
            job_key=task.job_key,
        )
        start = stop
