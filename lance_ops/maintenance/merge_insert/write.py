"""Writing of a merge: the task that writes updated and inserted rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.distinct import distinct
from lance_ops.file.schema.json_values import stored_documents
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.maintenance.update.rewrite import MovedRows, moved_rows, windows
from lance_ops.storage import Durability
from lance_ops.table.assemble import null_column
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, write_data_files
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.snapshot import Snapshot

Places = npt.NDArray[np.int64]

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class PairedPart:
    """Updated rows of one fragment.

    Attributes:
        fragment: The fragment.
        offsets: Ascending offsets of live rows, uint32.
        rows: Their matches in the source of the task.
    """

    fragment: Fragment
    offsets: npt.NDArray[np.uint32]
    rows: Places


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Rows to write; serializable for executors.

    Attributes:
        snapshot: The version, with the fragments of `parts`.
        source: Rows of the source, in the types of the dataset.
        parts: Updated rows, by fragment.
        inserted: New rows of the source.
        storage_version: Version of the data files.
        job_key: See `write_data_files`.
        durable: See `write_data_files`.
    """

    snapshot: Snapshot
    source: pa.Table
    parts: tuple[PairedPart, ...]
    inserted: Places
    storage_version: str
    job_key: str | None = None
    durable: Durability = "now"


def write_merged(task: MergeTask) -> tuple[Fragment, ...]:
    """Write rows as new fragments: updated ones in the order of the dataset, then inserted ones.

    Raises:
        CorruptFileError: A file of the dataset is damaged. Files written by then are removed.
    """
    snapshot = task.snapshot
    schema = _written_schema(snapshot.lance_schema, task.source.schema)
    moved: list[MovedRows] = []
    fragments = write_data_files(
        snapshot.store,
        _rows(task, schema, moved.append),
        schema,
        version=task.storage_version,
        max_rows_per_file=MAX_ROWS_PER_FILE,
        max_bytes_per_file=MAX_BYTES_PER_FILE,
        base_uris=snapshot.bases.blob_uris,
        job_key=task.job_key,
        durable=task.durable,
        described=snapshot.lance_schema,
    )
    return MovedRows.join(moved).bring(fragments) if snapshot.uses_stable_row_ids else fragments


def _written_schema(schema: Schema, given: pa.Schema) -> Schema:
    """The columns; documents that the source does not give stay as files hold them."""
    stored = stored_documents(schema)
    pairs = zip(schema.fields, stored.fields, strict=True)
    fields = tuple(field if field.name in given.names else plain for field, plain in pairs)
    return Schema(fields, schema.metadata)


def _rows(task: MergeTask, schema: Schema, note: Callable[[MovedRows], None]) -> Iterator[pa.RecordBatch]:
    arrow = prepare_schema(schema).arrow
    kept = schema.select([name for name in schema.names if name not in task.source.schema.names])
    for part in task.parts:
        if not kept.fields and not task.snapshot.uses_stable_row_ids:
            yield from _joined(task.source, part.rows, arrow, None)
            continue
        rows = FragmentRows(task.snapshot, part.fragment, 0)
        start = 0
        for offsets in windows(rows, kept, part.offsets) if kept.fields else [part.offsets.astype(np.int64)]:
            if task.snapshot.uses_stable_row_ids:
                note(moved_rows(rows, offsets))
            others = rows.fetch(kept, offsets) if kept.fields else None
            yield from _joined(task.source, part.rows[start : start + len(offsets)], arrow, others)
            start += len(offsets)
    for start in range(0, len(task.inserted), _BATCH_ROWS):
        yield from _joined(task.source, task.inserted[start : start + _BATCH_ROWS], arrow, None)


def _joined(
    source: pa.Table, rows: Places, schema: pa.Schema, others: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """Rows of the source with the columns that it lacks: those given, or nulls."""
    taken = taken_rows(source, rows)
    columns = []
    for field in schema:
        if field.name in taken.column_names:
            columns.append(taken[field.name])
        elif others is not None:
            columns.append(others[field.name])
        else:
            columns.append(null_column(field.type, len(rows)))
    yield from pa.Table.from_arrays(columns, schema=schema).combine_chunks().to_batches()


def taken_rows(source: pa.Table, rows: Places) -> pa.Table:
    """Return some rows of a source, in the requested order."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
        return source.slice(int(rows[0]), len(rows))
    return source.take(pa.array(rows))


def carried_along(task: MergeTask) -> MergeTask:
    """Return the task with only the required part of the source, for another process."""
    wanted = np.concatenate([*(part.rows for part in task.parts), task.inserted])
    places = distinct(wanted)
    return MergeTask(
        task.snapshot,
        source=task.source.take(pa.array(places)).combine_chunks(),
        parts=tuple(
            PairedPart(part.fragment, part.offsets, np.searchsorted(places, part.rows)) for part in task.parts
        ),
        inserted=np.searchsorted(places, task.inserted),
        storage_version=task.storage_version,
        job_key=task.job_key,
    )


def share_rows(
    parts: Sequence[PairedPart], inserted: Places, rows_per_task: int
) -> Iterator[tuple[tuple[PairedPart, ...], Places]]:
    """Yield groups of rows for tasks; inserted ones come last."""
    share: list[PairedPart] = []
    rows = 0
    for part in parts:
        share.append(part)
        rows += len(part.rows)
        if rows >= rows_per_task:
            yield tuple(share), inserted[:0]
            share, rows = [], 0
    room = max(rows_per_task - rows, 0)
    if share or len(inserted):
        yield tuple(share), inserted[:room]
    for start in range(room, len(inserted), rows_per_task):
        yield (), inserted[start : start + rows_per_task]
