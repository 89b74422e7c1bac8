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
from lance_ops.maintenance.compact.groups import CompactionGroup, Method
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
from lance_ops.table.manifest.fragments.totals import physical_rows_by_id
from lance_ops.table.narrow_dictionaries import narrow_columns
from lance_ops.table.row_lineage.read import read_sequences
from lance_ops.table.row_lineage.write import store_sequences
from lance_ops.table.snapshot import Snapshot

_CARRIED_BYTES = 64 << 20
"""Maximum bytes of collected notes on the driver; beyond that, indices read the new rows."""


def watches_of(
    dataset: Dataset, routes: Iterable[SegmentRoute], groups: Sequence[CompactionGroup]
) -> list[tuple[Watch, ...]]:
    """Return what to collect for each group.

    Args:
        dataset: The version of the plan.
        routes: Remap strategy of its index segments.
        groups: The rewritten groups.
    """
    found: list[list[Watch]] = [[] for _ in groups]
    left = float(_CARRIED_BYTES)
    rows = physical_rows_by_id(dataset.fragments)
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
    """A watch whose column is written, and access to it."""

    kind: WatchingKind
    watch: Watch
    names: tuple[str, ...]
    values: pa.DataType


class PassingRows:
    """Passes the rows of new fragments to watches while they are written.

    Args:
        watches: Data to collect.
        schema: The written columns.
    """

    def __init__(self, watches: Iterable[Watch], schema: Schema) -> None:
        self._watchers: list[_Watcher] = []
        for watch in watches:
            kind = kind_by_name(watch.kind)
            assert isinstance(kind, WatchingKind)
            # A column in no file of the group is not written: watches read it later.
            with suppress(InvalidArgumentError):
                path = schema.path(watch.field_id)
                names = tuple(field.name for field in schema.ancestry(path))
                self._watchers.append(_Watcher(kind, watch, names, value_type(schema.field(path))))
        self._notes: list[list[bytes | None]] = [[] for _ in self._watchers]
        self._observers: list[Observer] = []

    def one_fragment(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one fragment, passing them to the watches."""
        self._observers = [item.kind.observer(item.watch, item.values) for item in self._watchers]
        for batch in batches:
            for item, observer in zip(self._watchers, self._observers, strict=True):
                observer.add(_column(batch, item))
            yield batch

    def written(self, fragments: int) -> None:
        """Record the collected data; with several fragments the assignment of rows is unknown."""
        for notes, observer in zip(self._notes, self._observers, strict=True):
            notes += [observer.finish()] if fragments == 1 else [None] * fragments
        self._observers = []

    @property
    def noted(self) -> tuple[Noted, ...]:
        """Return all collected data."""
        return tuple(
            Noted(item.watch, tuple(notes)) for item, notes in zip(self._watchers, self._notes, strict=True)
        )


def _column(batch: pa.RecordBatch, item: _Watcher) -> pa.Array:
    values = leaf_values(batch.column(item.names[0]), item.names)
    return values if values.type == item.values else values.cast(item.values)


def notes_by_watch(results: Iterable[tuple[Sequence[int], Sequence[Noted]]]) -> dict[Watch, dict[int, bytes]]:
    """Return the collected data of rewritten groups by watch and fragment.

    Args:
        results: Ids and collected data of the new fragments of each group.
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
    """Return notes as JSON values."""
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
    """Read notes from JSON values."""
    return tuple(
        Noted(
            Watch(item["kind"], item["field"], tuple(sorted(item["parameters"].items()))),
            tuple(None if note is None else base64.b64decode(note) for note in item["notes"]),
        )
        for item in values
    )


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One group to rewrite; serializable for executors.

    Attributes:
        snapshot: The version of the plan, with the fragments of the group.
        storage_version: Storage version of the new data files.
        group: The group.
        batch_rows: Rows read at once; None chooses by the size of a row.
        max_bytes_per_file: Maximum size of the data files.
        spill_limit: Bytes above which a row id or version sequence is stored in a data file; None stores all
            in the manifest.
        job_key: See `write_data_files`.
        watches: Data to collect for indices while rows are written.
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
    """A rewritten, uncommitted group.

    Attributes:
        group: The planned group.
        new_fragments: In the order of rows; ids not assigned yet.
        purged_rows: Number of purged deleted rows.
        deletions: Deletion vectors of the old fragments, for further use.
        copied: True if pages were copied.
        doubt: Why rows were rewritten instead of a planned copy; None if not.
        seconds: Duration of the task, beside concurrent ones.
        noted: Data collected by the watches of the task; empty for a copy.
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
    """Write the live rows of a group, in order, to the planned number of files, by the planned method.

    If a planned copy is not possible, or its verification fails, the rows are rewritten.

    Raises:
        CorruptFileError: a file is damaged, or the rows read contradict the manifest and the deletion files.
            Files written by then are removed.
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
    """Write the live rows, evenly spread over the files, and append each fragment to `new`.

    Returns:
        The data collected by the watches of the task.
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
    """Check the number of rows: a rewrite that loses or adds rows must never be committed."""
    written = sum(fragment.physical_rows for fragment in new)
    if written != survivors or not rows.is_exhausted():
        raise CorruptFileError(
            f"fragments {ids_text(task.group.fragment_ids)} have {survivors} live rows, but their files "
            f"have {'more' if written == survivors else written}",
            path=task.snapshot.uri,
        )


def _check_fewer(task: RewriteTask, new: Sequence[Fragment]) -> None:
    """Reject a rewrite that would be due again at once, because dictionaries keep its fragments apart."""
    if len(new) < len(task.group.fragments) or len(new) <= task.group.files:
        return
    names = narrow_columns(prepare_schema(task.snapshot.lance_schema).arrow)
    if names:
        raise UnsupportedError(
            f"fragments {ids_text(task.group.fragment_ids)} cannot be merged: their dictionaries together "
            "have more values than the index type allows",
            path=task.snapshot.uri,
            field=", ".join(names),
            hint="give the column a wider index type, or plain values, with alter_columns",
        )


def discard_rewrites(store: Store, results: Sequence[RewriteResult]) -> None:
    """Delete the files of uncommitted groups."""
    remove_files(store, (path for result in results for path in result.paths))


def present_columns(schema: Schema, fragments: Sequence[Fragment]) -> Schema:
    """Return the columns with data in at least one fragment.

    A column added without data has no file in old fragments and reads as null; this is kept if no fragment of
    the group has it. A group without any column keeps them all, since row counts require a file.
    """
    stored = {field_id for fragment in fragments for file in fragment.files for field_id in file.fields}
    if UNASSIGNED in stored:
        # Its column is unknown; reading the column reports it.
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
    """Assign row ids and row versions of the surviving rows to new fragments, split by their sizes.

    Each is stored as soon as it has them: an error then still knows every file written.
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
