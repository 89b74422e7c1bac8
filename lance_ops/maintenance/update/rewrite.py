"""Rewrite of rows: the task that reads old rows, and writes new ones.

Moved rows keep their stable ids, and the versions that created them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.schema.json_values import stored_documents
from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.delete.plan import FragmentMatch
from lance_ops.maintenance.tasks import remove_files
from lance_ops.maintenance.update.assignments import Assignment, changed_rows
from lance_ops.storage import Durability, Store
from lance_ops.storage.prefetch import prefetch
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, write_data_files
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.row_address_map import row_addresses
from lance_ops.table.manifest.row_ids import encode_row_ids, encode_row_versions
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.row_columns import ROW_COLUMNS, ROW_CREATED_AT, ROW_ID, Offsets
from lance_ops.table.snapshot import Snapshot

_READ_AHEAD, _READ_AHEAD_FROM = 2, 1 << 15

UInt64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Stable ids of rows that move, and the versions that created them; uint64, one for each row."""

    ids: UInt64Array
    created: UInt64Array

    @classmethod
    def join(cls, parts: Sequence["MovedRows"]) -> "MovedRows":
        """Concatenate several ranges of rows."""
        none = np.zeros(0, np.uint64)
        return cls(
            np.concatenate([none, *(part.ids for part in parts)]),
            np.concatenate([none, *(part.created for part in parts)]),
        )

    def bring(self, fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
        """Assign these to the first rows of new fragments; the others have no ids yet."""
        start, numbered = 0, []
        for fragment in fragments:
            stop = min(start + fragment.physical_rows, len(self.ids))
            if stop > start:
                fragment = fragment.replace(
                    row_ids=encode_row_ids(self.ids[start:stop]),
                    created_at_versions=encode_row_versions(self.created[start:stop]),
                )
            numbered.append(fragment)
            start = stop
        return tuple(numbered)


@dataclass(frozen=True, slots=True)
class FragmentPart:
    """Moved rows of one fragment.

    Attributes:
        fragment: The fragment.
        offsets: Ascending offsets of live rows, uint32.
    """

    fragment: Fragment
    offsets: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Rows to change; serializable for executors.

    Attributes:
        snapshot: The version, with the fragments concerned.
        parts: The rows, by fragment.
        assignments: Assignments of the update.
        storage_version: Version of the data files.
        max_rows_per_file: Maximum rows per fragment.
        max_bytes_per_file: Maximum bytes per fragment.
        job_key: See `write_data_files`.
        durable: See `write_data_files`.
    """

    snapshot: Snapshot
    parts: tuple[FragmentPart, ...]
    assignments: tuple[Assignment, ...]
    storage_version: str
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    job_key: str | None = None
    durable: Durability = "now"


def rewrite_rows(task: RewriteTask) -> tuple[Fragment, ...]:
    """Write the rows with new values as new fragments, in the order of the table.

    Raises:
        SchemaMismatchError: A value does not fit its column. Files written by then are removed.
        PredicateError: An expression cannot be computed. Likewise.
    """
    snapshot = task.snapshot
    schema = _read_schema(snapshot.lance_schema, task.assignments)
    moved: list[MovedRows] = []
    fragments = write_data_files(
        snapshot.store,
        _changed(task, schema, moved.append),
        schema,
        version=task.storage_version,
        max_rows_per_file=task.max_rows_per_file,
        max_bytes_per_file=task.max_bytes_per_file,
        base_uris=snapshot.bases.blob_uris,
        job_key=task.job_key,
        durable=task.durable,
        described=snapshot.lance_schema,
    )
    return MovedRows.join(moved).bring(fragments) if snapshot.uses_stable_row_ids else fragments


def _read_schema(schema: Schema, assignments: Sequence[Assignment]) -> Schema:
    """Return the columns to read; JSON documents in stored form unless an expression uses them."""
    touched = {item.column for item in assignments}
    touched.update(name for item in assignments for name in item.expression.root_columns)
    stored = stored_documents(schema)
    pairs = zip(schema.fields, stored.fields, strict=True)
    return replace(schema, fields=tuple(field if field.name in touched else plain for field, plain in pairs))


def _changed(
    task: RewriteTask, schema: Schema, note: Callable[[MovedRows], None]
) -> Iterator[pa.RecordBatch]:
    # Reading continues while rows are encoded, if that takes long enough.
    ahead = _READ_AHEAD if sum(len(part.offsets) for part in task.parts) >= _READ_AHEAD_FROM else 1
    for moved, batches in prefetch(_reads(task, schema), ahead):
        if moved is not None:
            note(moved)
        yield from batches


_Read = tuple[MovedRows | None, list[pa.RecordBatch]]


def _reads(task: RewriteTask, schema: Schema) -> Iterator[Callable[[], _Read]]:
    """Yield bounded reads: the rows with new values, and their ids."""
    names = {name for item in task.assignments for name in item.expression.root_columns}
    own = task.snapshot.lance_schema.names
    row_columns = tuple(name for name in ROW_COLUMNS if name in names and name not in own)
    for part in task.parts:
        rows = FragmentRows(task.snapshot, part.fragment, 0)
        for offsets in windows(rows, schema, part.offsets):
            yield partial(_read, task, rows, schema, offsets, row_columns)


def _read(
    task: RewriteTask, rows: FragmentRows, schema: Schema, offsets: Offsets, row_columns: tuple[str, ...]
) -> _Read:
    moved = moved_rows(rows, offsets) if task.snapshot.uses_stable_row_ids else None
    table = rows.fetch(schema, offsets)
    for name in row_columns:
        table = table.append_column(name, rows.columns.column(name, offsets))
    addresses = pa.array(row_addresses(rows.fragment.id, offsets))
    batches: list[pa.RecordBatch] = []
    start = 0
    for batch in table.combine_chunks().to_batches():
        batches.append(changed_rows(batch, task.assignments, addresses.slice(start, batch.num_rows)))
        start += batch.num_rows
    return moved, batches


def windows(rows: FragmentRows, schema: Schema, offsets: npt.NDArray[np.uint32]) -> Iterator[Offsets]:
    """Yield ranges of offsets whose rows, with those in between, have a bounded size."""
    wanted = offsets.astype(np.int64)
    if not len(wanted):
        return
    size = max(1, rows.window_rows(schema))
    first, last = int(wanted[0]), int(wanted[-1])
    cuts = np.searchsorted(wanted, np.arange(first + size, last + 1, size))
    yield from (part for part in np.split(wanted, cuts) if len(part))


def moved_rows(rows: FragmentRows, offsets: Offsets) -> MovedRows:
    """Return ids and creating versions of rows of a table with stable ids."""
    return MovedRows(rows.columns.values(ROW_ID, offsets), rows.columns.values(ROW_CREATED_AT, offsets))


def share_parts(matches: Sequence[FragmentMatch], rows_per_task: int) -> Iterator[tuple[FragmentPart, ...]]:
    """Yield groups of rows of neighbouring fragments for tasks."""
    share: list[FragmentPart] = []
    rows = 0
    for match in matches:
        share.append(FragmentPart(match.fragment, match.matched.offsets()))
        rows += len(match.matched)
        if rows >= rows_per_task:
            yield tuple(share)
            share, rows = [], 0
    if share:
        yield tuple(share)


def data_paths(fragments: Sequence[Fragment]) -> list[str]:
    """Data files of new fragments, relative to the root of the dataset."""
    return [f"data/{file.path}" for fragment in fragments for file in fragment.files]


def discard(store: Store, results: Sequence[Sequence[Fragment]]) -> None:
    """Remove the files of tasks that finished before another one failed."""
    for fragments in results:
        remove_files(store, data_paths(fragments))
