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

from lance_ops.errors import TaskFailedError
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
from lance_ops.maintenance.runner import task_failed
from lance_ops.maintenance.target import Target, open_latest_if_any
from lance_ops.spark.convert import from_spark
from lance_ops.spark.transport import SPARK_ERRORS, capture, load_outcome, refuse_memory_store, spark_reason
from lance_ops.spark.types import adapt_schema, arrow_schema

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
        return write_task(self.task, (from_spark(batch, self.schema) for batch in batches))


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
    allow_empty: bool = False,
    **options: Unpack[IngestOptions],
) -> AppendResult:
    """Write the rows of a Spark DataFrame to a dataset in one commit, in the order of its partitions.

    Each partition becomes at least one fragment, unless it is empty. Columns are matched by name; a column
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
            started. The runner looks for the rows that a replacement deletes.

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
        results = _write_partitions(df, plan, writer)
        report("writing partitions", len(results), len(results))
    runner = options.get("runner")
    return commit_write(plan, results, max_replans=max_replans, progress=progress, runner=runner)


def _write_partitions(df: DataFrame, plan: WritePlan, writer: PartitionWriter) -> list[WriteTaskResult]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = partition_id()
        outcome = capture(lambda: writer.write(batches))
        yield pa.RecordBatch.from_pydict({"partition": [partition], "outcome": [outcome]})

    try:
        rows = df.mapInArrow(run, _OUTCOMES).collect()
    except SPARK_ERRORS as error:
        raise TaskFailedError(
            f"Spark could not compute or write the rows: {spark_reason(error)}; nothing was committed",
            path=plan.uri,
            hint="see Spark's log; the executors need lance_ops, the dataset and enough memory",
        ) from error
    return _results(plan, {int(row["partition"]): bytes(row["outcome"]) for row in rows})


def _results(plan: WritePlan, sent: Mapping[int, bytes]) -> list[WriteTaskResult]:
    """What the partitions sent, in their order.

    Raises:
        TaskFailedError: One of them failed. What the others wrote is removed.
    """
    outcomes = {number: load_outcome(data) for number, data in sent.items()}
    failures = [(number, outcome.error) for number, outcome in sorted(outcomes.items()) if outcome.error]
    if failures:
        abandon_write(plan, [outcome.value for outcome in outcomes.values() if outcome.error is None])
        number, cause = failures[0]
        raise task_failed(number, len(outcomes), cause) from cause
    return [outcome.value for _, outcome in sorted(outcomes.items())]


def partition_id() -> int:
    """Number of the partition that this executor works on."""
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def plan_save(data: StructType, uri: str, *, mode: Mode, options: Mapping[str, Any]) -> "LanceWriter":
    """What the `lance` data source writes with; see `plan_dataframe_write`.

    Args:
        data: Schema of the DataFrame.
        uri: The dataset.
        mode: "append" or "overwrite".
        options: Of `WriteOptions`, without the mode.
    """
    return LanceWriter(*plan_dataframe_write(data, uri, WriteOptions(mode=mode, **options)))


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
        return _Written(partition_id(), capture(lambda: self._writer.write(iterator)))

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
            abandon_write(self._load_plan(), [found.value for found in outcomes if found.error is None])

    def _load_plan(self) -> WritePlan:
        plan: WritePlan = pickle.loads(self._plan)  # noqa: S301 - pickled above
        return plan


def _sent(messages: Iterable[WriterCommitMessage | None]) -> dict[int, bytes]:
    return {message.partition: message.outcome for message in messages if isinstance(message, _Written)}
