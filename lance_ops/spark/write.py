"""Writing Spark DataFrames: executors write data files, the driver makes one commit."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_ops.errors import InvalidArgumentError, TaskFailedError
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.ingest.commit import abandon_write, commit_write
from lance_ops.maintenance.ingest.conform import check_schema
from lance_ops.maintenance.ingest.options import (
    KEEPS_SCHEMA,
    WRITE_REPLANS,
    IngestOptions,
    Mode,
    WriteOptions,
)
from lance_ops.maintenance.ingest.plan import WritePlan, plan_write
from lance_ops.maintenance.ingest.task import WriteTask, WriteTaskResult, write_task
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import Runner, task_failed
from lance_ops.maintenance.target import Target, open_latest_if_any
from lance_ops.spark.convert import from_spark
from lance_ops.spark.options import TableWrite
from lance_ops.spark.small.files import join_small_files
from lance_ops.spark.small.parts import SmallPart, write_or_send, write_small_parts
from lance_ops.spark.transport import (
    SPARK_ERRORS,
    Outcome,
    capture,
    load_outcome,
    refuse_memory_store,
    spark_reason,
)
from lance_ops.spark.types import adapt_schema, arrow_schema, declared_schema

_OUTCOMES = "partition long, outcome binary"


@dataclass(frozen=True, slots=True)
class PartitionWriter:
    """Writes one partition of a DataFrame; travels to executors.

    Attributes:
        task: From the plan.
        schema: Types to which Spark's batches are converted first.
        already_committed: An earlier run under the same job key did it all: the rows are not even asked for.
    """

    task: WriteTask
    schema: pa.Schema
    already_committed: bool

    def write(self, batches: Iterable[pa.RecordBatch]) -> WriteTaskResult:
        """Write the rows of a partition.

        Raises:
            SchemaMismatchError: A value does not fit the dataset. Files written by then are removed.
        """
        if self.already_committed:
            return WriteTaskResult(())
        return write_task(self.task, self._converted(batches))

    def write_or_send(self, batches: Iterable[pa.RecordBatch]) -> WriteTaskResult | SmallPart:
        """Write the rows of a partition, or return them where they are too few for a file of their own.

        Raises:
            SchemaMismatchError: A value does not fit the dataset. Files written by then are removed.
        """
        if self.already_committed:
            return WriteTaskResult(())
        return write_or_send(self.task, self._converted(batches), self.schema)

    def _converted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (from_spark(batch, self.schema) for batch in batches)


def plan_dataframe_write(
    data: StructType, uri: Target, options: WriteOptions, schema: pa.Schema | None = None
) -> tuple[WritePlan, PartitionWriter]:
    """Check that a DataFrame can be written; nothing is written yet.

    Args:
        data: Its schema.
        uri: The dataset.
        options: How to write.
        schema: Of a new dataset; see `append_dataframe`.

    Raises:
        SchemaMismatchError: The data do not fit; lists every mismatch.
        UnsupportedTypeError: A type cannot be stored; lists every field.
    """
    given = arrow_schema(data)
    dataset = open_latest_if_any(uri, options.storage_options)
    if dataset is not None and options.mode in KEEPS_SCHEMA:
        adapted = adapt_schema(given, dataset.schema)
        plan = plan_write(adapted, uri, options)
    else:
        target = arrow_schema(data, stored=True) if schema is None else schema
        adapted = adapt_schema(given, target)
        check_schema(adapted, target, what="the DataFrame", fill_missing=options.fill_missing)
        plan = plan_write(target, uri, options)
    refuse_memory_store(plan.task.store)
    return plan, PartitionWriter(plan.task, adapted, plan.committed_version is not None)


@cleans_up
def append_dataframe(
    df: DataFrame,
    uri: Target,
    *,
    mode: Mode = "append",
    schema: pa.Schema | None = None,
    predicate: str | Callable[[pa.Schema], str] | None = None,
    allow_empty: bool | None = None,
    **options: Unpack[IngestOptions],
) -> AppendResult:
    """Write the rows of a Spark DataFrame to a dataset in one commit, in the order of its partitions.

    Small partitions that follow each other become one fragment together, up to the limits of a file; large
    ones become fragments of their own. Columns are matched by name; a column
    also fits when its type is the one in which Spark reads the dataset's (see `spark.types`).

    Args:
        df: The rows, from a classic session or Spark Connect; computed once.
        uri: Where the dataset is or shall be.
        mode: "append" adds rows, and creates the dataset if there is none; "create" wants none there;
            "overwrite" replaces schema and rows in a new version; "replace_where" replaces the rows that
            `predicate` selects.
        schema: Of a dataset that is created or overwritten, where Spark lacks the types: fixed-size lists
            for vectors, unsigned integers, half floats. An append takes the types of the dataset.
        predicate: See `write_dataset`.
        allow_empty: See `write_dataset`.
        **options: See `IngestOptions` and `RunOptions`. Where the job is done already, no Spark job is
            started. The runner looks for the rows that a replacement deletes, and puts small files together.

    Raises:
        DatasetExistsError: mode is "create" and there is a dataset.
        SchemaMismatchError: The schema does not fit; lists every mismatch.
        UnsupportedTypeError: A type cannot be stored; lists every field.
        TaskFailedError: A partition could not be computed or written; nothing was committed. The cause is the
            error, e.g. a `SchemaMismatchError` for a value that does not fit.
        CommitConflictError: Another commit stands in the way.
    """
    chosen = WriteOptions.of(options, mode=mode, predicate=predicate, allow_empty=allow_empty)
    plan, writer = plan_dataframe_write(df.schema, uri, chosen, schema)
    progress, max_replans = options.get("progress"), options.get("max_replans", WRITE_REPLANS)
    results: list[WriteTaskResult] = []
    if not writer.already_committed:
        report = Reporter("append", progress)
        report("writing partitions")
        results = _write_partitions(df, plan, writer, options.get("runner"))
        report("writing partitions", len(results), len(results))
    runner = options.get("runner")
    return commit_write(plan, results, max_replans=max_replans, progress=progress, runner=runner)


def _write_partitions(
    df: DataFrame, plan: WritePlan, writer: PartitionWriter, runner: Runner | None
) -> list[WriteTaskResult]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = partition_id()
        outcome = capture(lambda: writer.write_or_send(batches))
        yield pa.RecordBatch.from_pydict({"partition": [partition], "outcome": [outcome]})

    try:
        rows = df.mapInArrow(run, _OUTCOMES).collect()
    except SPARK_ERRORS as error:
        raise TaskFailedError(
            f"Spark could not compute or write the rows: {spark_reason(error)}; nothing was committed",
            path=plan.uri,
            hint="see Spark's log; the executors need lance_ops, the dataset and enough memory",
        ) from error
    return _results(plan, {int(row["partition"]): bytes(row["outcome"]) for row in rows}, runner)


def _results(
    plan: WritePlan, sent: Mapping[int, bytes], runner: Runner | None = None
) -> list[WriteTaskResult]:
    """What the partitions wrote, in their order, with what they sent written too, small files put together.

    Raises:
        TaskFailedError: One of them failed. What the others wrote is removed.
    """
    outcomes = {number: load_outcome(data) for number, data in sent.items()}
    failures = [(number, outcome.error) for number, outcome in sorted(outcomes.items()) if outcome.error]
    if failures:
        abandon_write(plan, _files_of(outcomes.values()))
        number, cause = failures[0]
        raise task_failed(number, len(outcomes), cause) from cause
    written: list[WriteTaskResult] = []
    try:
        write_small_parts(plan.task, [outcome.value for _, outcome in sorted(outcomes.items())], written)
        return join_small_files(plan.task, written, runner)
    except BaseException:
        abandon_write(plan, [*written, *_files_of(outcomes.values())])
        raise


def _files_of(outcomes: Iterable[Outcome]) -> list[WriteTaskResult]:
    """What was written to files."""
    found = (outcome.value for outcome in outcomes if outcome.error is None)
    return [value for value in found if isinstance(value, WriteTaskResult)]


def partition_id() -> int:
    """Number of the partition that this executor works on."""
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def plan_save(
    data: StructType, uri: str, *, overwrite: bool, options: Mapping[str, Any], table: TableWrite
) -> "LanceWriter":
    """What the `lance` data source writes with; see `plan_dataframe_write`.

    Args:
        data: Schema of the DataFrame.
        uri: The dataset.
        overwrite: Replace the rows, or those that a predicate among the options selects.
        options: Of `WriteOptions`, without the mode.
        table: What Spark's catalog says of it.
    """
    mode: Mode = "overwrite" if overwrite else "append"
    if "predicate" in options:
        if not overwrite:
            raise InvalidArgumentError("it is for mode 'overwrite'", field="replaceWhere")
        mode = "replace_where"
    elif table.is_new and not overwrite:
        mode = "create"
    chosen = WriteOptions(mode=mode, **options)
    return LanceWriter(*plan_dataframe_write(data, uri, chosen, _schema_of_table(uri, chosen, table)))


def _schema_of_table(uri: str, options: WriteOptions, table: TableWrite) -> pa.Schema | None:
    """What a table has, for a dataset that is made or overwritten: a query over literals knows no nulls."""
    if table.declared is None:
        return None
    dataset = None if table.is_new else open_latest_if_any(uri, options.storage_options)
    if dataset is not None:
        return dataset.schema
    return arrow_schema(declared_schema(table.declared), stored=True)


@dataclass(frozen=True)
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark counts as untyped
    """How one task ended."""

    partition: int
    outcome: bytes


class LanceWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark counts as untyped
    """Writes one DataFrame in one commit; see `datasource.LanceDataSource`."""

    def __init__(self, plan: WritePlan, writer: PartitionWriter) -> None:
        # Spark sends this object to every executor, where the plan stays bytes: no dataset is opened.
        self._plan = pickle.dumps(plan)
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a partition, on an executor."""
        # An error is sent like a result: when a task fails, Spark kills the others, and nobody would know
        # which files these have written.
        return _Written(partition_id(), capture(lambda: self._writer.write_or_send(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the one commit, on the driver, after all tasks have ended.

        Raises:
            TaskFailedError: A partition could not be written. What the others wrote is removed.
        """
        plan = self._load_plan()
        cleans_up(commit_write)(plan, _results(plan, _sent(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of a write that did not come to its commit."""
        # Spark calls this after a failed commit too, with all messages there. That commit removed what may be
        # removed; files of a commit whose outcome is unknown must stay.
        if any(message is None for message in messages):
            outcomes = [load_outcome(data) for data in _sent(messages).values()]
            abandon_write(self._load_plan(), _files_of(outcomes))

    def _load_plan(self) -> WritePlan:
        plan: WritePlan = pickle.loads(self._plan)  # noqa: S301 - pickled above
        return plan


def _sent(messages: Iterable[WriterCommitMessage | None]) -> dict[int, bytes]:
    return {message.partition: message.outcome for message in messages if isinstance(message, _Written)}
