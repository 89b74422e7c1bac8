"""Outbox of a partition: few rows are sent to the driver, many are written by the executor.

Epochs are small and have many partitions. Rows sent with the result of their task share one file, instead of
one for each partition, and a failed task leaves no files behind.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.ingest.plan import WriteTask, WriteTaskResult, write_task
from lance_ops.maintenance.tasks import remove_files
from lance_ops.spark.small.parts import SMALL_BYTES
from lance_ops.storage import Store
from lance_ops.table.commit.jobs.stream_epochs import Epoch
from lance_ops.table.commit.jobs.stream_notes import query_digest

TRAVELS = SMALL_BYTES
"""Maximum bytes of a partition whose rows are sent, as in a batch."""

STAGED_DIRECTORY = "_lance_ops/stream_rows"

_STAGED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Outbox:
    """Result of the rows of a partition.

    Attributes:
        rows: An Arrow stream of all of them, if they are few.
        written: Data files of rows to append.
        written_for: Schema and storage version of these.
        staged: Arrow files of rows to merge; relative to the root of the dataset.
    """

    rows: bytes | None = None
    written: WriteTaskResult | None = None
    written_for: tuple[Schema, str] | None = None
    staged: tuple[str, ...] = ()


def write_partition(
    task: WriteTask,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    epoch: Epoch,
    *,
    merges: bool,
    limit: int | None = None,
) -> Outbox:
    """Send or write the rows of a partition, on an executor.

    Args:
        task: The write.
        schema: Types of the batches.
        batches: The rows.
        epoch: The epoch, part of file names.
        merges: The driver reads the rows, so they are staged instead of written to data files.
        limit: Maximum bytes of a partition whose rows are sent, if less than `TRAVELS`.

    Raises:
        SchemaMismatchError: A value does not fit the dataset. Files written by then are removed.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > (TRAVELS if limit is None else min(limit, TRAVELS)):
            break
    else:
        return Outbox(rows=_stream_of(held, schema))
    every = chain(held, batches)
    if merges:
        return Outbox(staged=tuple(_stage(task.store, every, schema, epoch)))
    named = replace(task, job_key=epoch.job_key)
    return Outbox(written=write_task(named, every), written_for=(task.schema, task.storage_version))


def rows_of(store: Store, outboxes: Sequence[Outbox]) -> Iterator[pa.RecordBatch]:
    """Return the rows that were sent or staged, in the order of the partitions."""
    for outbox in outboxes:
        if outbox.rows is not None:
            yield from pa.ipc.open_stream(pa.py_buffer(outbox.rows))
        for path in outbox.staged:
            yield from pa.ipc.open_stream(pa.py_buffer(bytes(memoryview(store.read(path)))))


def discard_outboxes(store: Store, outboxes: Iterable[Outbox]) -> None:
    """Remove the files of partitions that will not be committed, or were merged."""
    for outbox in outboxes:
        written = () if outbox.written is None else outbox.written.paths
        remove_files(store, (*written, *outbox.staged))


def discard_staged(store: Store, epoch: Epoch) -> None:
    """Remove files staged by failed tasks, in this epoch and earlier ones."""
    query = query_digest(epoch.query_id)
    names = [info.path for info in store.list(STAGED_DIRECTORY)]
    parts = ((path, path.rpartition("/")[2].split(".")) for path in names)
    remove_files(
        store,
        [path for path, (owner, number, *_) in parts if owner == query and int(number) <= epoch.number],
    )


def _stage(store: Store, batches: Iterable[pa.RecordBatch], schema: pa.Schema, epoch: Epoch) -> Iterator[str]:
    waiting: list[pa.RecordBatch] = []
    size = 0

    def put() -> str:
        path = f"{STAGED_DIRECTORY}/{query_digest(epoch.query_id)}.{epoch.number}.{uuid.uuid4().hex}.arrow"
        store.put(path, _stream_of(waiting, schema))
        return path

    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _STAGED_BYTES:
            yield put()
            waiting, size = [], 0
    if waiting:
        yield put()


def _stream_of(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
