"""Sink: `df.writeStream.format("lance")`, with exactly one commit for each epoch.

Executors get the query id in the checkpoint, and the number of the epoch, from the properties of their task,
and send both with their rows; the driver commits under a job key made of them.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_ops.errors import InvalidArgumentError, LanceOpsError, SchemaMismatchError
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.ingest.operation import abandon_write, commit_write
from lance_ops.maintenance.ingest.options import Mode, WriteOptions
from lance_ops.maintenance.ingest.plan import WritePlan, WriteTask, write_task
from lance_ops.maintenance.runner import task_failed
from lance_ops.maintenance.target import open_target
from lance_ops.maintenance.tasks import is_not_committed
from lance_ops.spark.convert import from_spark
from lance_ops.spark.small.files import join_small_files
from lance_ops.spark.small.parts import send_limit
from lance_ops.spark.streaming.columns import split_changes
from lance_ops.spark.streaming.merge_epoch import merge_epoch
from lance_ops.spark.streaming.options import SinkOptions
from lance_ops.spark.streaming.outbox import Outbox, discard_outboxes, rows_of, write_partition
from lance_ops.spark.transport import capture, load_outcome
from lance_ops.spark.types import arrow_schema
from lance_ops.spark.writing.dataframe import plan_dataframe_write
from lance_ops.spark.writing.partition_writer import partition_id
from lance_ops.storage import Store
from lance_ops.table.commit.jobs.stream_epochs import Epoch, forget_past_epochs, is_due, note_epoch

_log = logging.getLogger("lance_ops.streaming")

# Spark's own names, in the properties of every task of a streaming query.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class _Sent(WriterCommitMessage):  # type: ignore[misc]  # pyspark counts as untyped
    """Result of one task.

    Attributes:
        partition: Its number.
        query_id: Spark's id of the query, stored in its checkpoint.
        outcome: Pickled outcome with its `Outbox`.
    """

    partition: int
    query_id: str
    outcome: bytes


class LanceStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark counts as untyped
    """Writes the epochs of one query; see `datasource.LanceDataSource`.

    Args:
        schema: Schema of the rows.
        options: Options of the sink.
        complete: Each epoch replaces all rows (output mode "complete").

    Raises:
        SchemaMismatchError: The rows do not fit the dataset; lists every mismatch.
        UnsupportedTypeError: A type cannot be stored; lists every field.
        InvalidArgumentError: Output mode "complete" excludes a merge.
    """

    def __init__(self, schema: StructType, options: SinkOptions, *, complete: bool) -> None:
        if complete and options.merge_keys is not None:
            raise InvalidArgumentError(
                "output mode 'complete' replaces all rows, and excludes mergeKeys",
                field="mergeKeys",
                hint="use output mode 'append'",
            )
        self._schema, changes = schema, StructType([])
        if options.apply_changes:
            self._schema, changes = split_changes(schema)
        self._options = options
        self._mode: Mode = "overwrite" if complete else "append"
        _, writer = plan_dataframe_write(self._schema, options.uri, self._write_options())
        self._task: WriteTask = writer.task
        kinds = {field.name: field for field in (*writer.schema, *arrow_schema(changes))}
        self._rows = pa.schema([kinds[name] for name in schema.fieldNames()])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send or write the rows of a partition, on an executor."""
        context = TaskContext.get()
        assert context is not None
        query_id = context.getLocalProperty(_QUERY_ID) or ""
        epoch = self._epoch(query_id, int(context.getLocalProperty(_BATCH_ID) or 0))
        merges = self._options.merge_keys is not None

        def run() -> Outbox:
            batches = (from_spark(batch, self._rows) for batch in iterator if batch.num_rows)
            limit = send_limit(partition_id())
            return write_partition(self._task, self._rows, batches, epoch, merges=merges, limit=limit)

        # An error is sent like a result, as in a batch write: otherwise the files of other tasks would be
        # unknown.
        return _Sent(partition_id(), query_id, capture(run))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Commit an epoch, on the driver, unless already committed.

        Raises:
            TaskFailedError: A partition could not be written. Files of the others are removed.
            StreamUnprovenError: It is unknown whether it was committed.
            CommitConflictError: Another commit conflicts.
        """
        sent = sorted(_sent(messages), key=lambda message: message.partition)
        epoch = self._epoch(next(message.query_id for message in sent), batchId)
        outboxes = self._outboxes(sent)
        try:
            committed = self._commit(epoch, outboxes)
        except Exception as error:
            if is_not_committed(error):
                discard_outboxes(self._task.store, outboxes)
            raise
        forget_past_epochs(self._task.store, epoch)
        if committed:
            compact_after(self._task.store, epoch, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove the files of an uncommitted epoch."""
        # Spark calls this after a failed commit too, with all messages there: see `LanceWriter.abort`.
        if any(message is None for message in messages):
            outcomes = [load_outcome(message.outcome) for message in _sent(messages)]
            discard_outboxes(self._task.store, [item.value for item in outcomes if item.error is None])

    def _commit(self, epoch: Epoch, outboxes: Sequence[Outbox]) -> bool:
        """Commit; returns False if it was done already, or there is nothing to do."""
        options, first = self._write_options(epoch), self._options.first_epoch
        if self._options.merge_keys is not None:
            return merge_epoch(
                self._options.uri,
                self._schema,
                epoch,
                outboxes,
                on=self._options.merge_keys,
                on_duplicates=self._options.on_duplicates,
                applies_changes=self._options.apply_changes,
                first=first,
                options=options,
            )
        store, dataset = open_target(self._options.uri, options.storage_options)
        if not is_due(dataset, epoch, first=first):
            discard_outboxes(store, outboxes)
            return False
        plan, _ = plan_dataframe_write(self._schema, dataset or store, options)
        _check_written_for(plan, outboxes)
        note_epoch(store, epoch, 0 if dataset is None else dataset.version)
        written = [item.written for item in outboxes if item.written is not None]
        together = write_task(plan.task, rows_of(store, outboxes))
        parts = [*written, together]
        try:
            parts = join_small_files(plan.task, parts)
        except BaseException:
            abandon_write(plan, parts)
            raise
        result = cleans_up(commit_write)(plan, parts)
        return result.changed and not result.already_committed

    def _outboxes(self, sent: Sequence[_Sent]) -> list[Outbox]:
        outcomes = [load_outcome(message.outcome) for message in sent]
        failures = [(number, item.error) for number, item in enumerate(outcomes) if item.error is not None]
        if failures:
            discard_outboxes(self._task.store, [item.value for item in outcomes if item.error is None])
            number, cause = failures[0]
            raise task_failed(number, len(outcomes), cause) from cause
        return [item.value for item in outcomes]

    def _epoch(self, spark_id: str, number: int) -> Epoch:
        query_id = self._options.query_id or spark_id
        if not query_id:
            raise InvalidArgumentError(
                "this Spark does not pass the query id to its tasks",
                field="queryId",
                hint="set queryId to a value that is the same after restarts",
            )
        return Epoch(query_id, number, spark_id)

    def _write_options(self, epoch: Epoch | None = None) -> WriteOptions:
        given: dict[str, Any] = dict(self._options.write)
        if epoch is not None:
            given["job_key"] = epoch.job_key
            given["properties"] = {**(given.get("properties") or {}), **epoch.properties}
        return WriteOptions(mode=self._mode, **given)


def _check_written_for(plan: WritePlan, outboxes: Sequence[Outbox]) -> None:
    """Check that data files were written for the present schema of the dataset."""
    found = [item.written_for for item in outboxes if item.written_for is not None]
    wanted = (plan.task.schema.fields, plan.task.storage_version)
    if any((schema.fields, version) != wanted for schema, version in found):
        raise SchemaMismatchError(
            "the schema or storage version of the dataset changed while the epoch was written; restart the "
            "query",
            [],
            path=plan.uri,
        )


def _sent(messages: Iterable[WriterCommitMessage | None]) -> list[_Sent]:
    return [message for message in messages if isinstance(message, _Sent)]


def compact_after(store: Store, epoch: Epoch, options: SinkOptions) -> None:
    """Merge small fragments after a number of epochs.

    The epoch is committed, so a failure is only logged; the dataset's health shows the remaining work.
    """
    if not options.compact_every or (epoch.number + 1) % options.compact_every:
        return
    try:
        result = compact(store, properties=dict(options.write.get("properties") or {}))
    except LanceOpsError as error:
        _log.warning("the compaction after %s of %s failed: %s", epoch, store.uri, error)
        return
    _log.info("after %s of %s: %s", epoch, store.uri, result.summary())
