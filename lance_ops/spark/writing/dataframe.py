"""Writing of Spark DataFrames: executors write data files, the driver makes one commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Unpack

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from lance_ops.errors import TaskFailedError, public
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.ingest.conform import check_schema
from lance_ops.maintenance.ingest.operation import abandon_write, commit_write
from lance_ops.maintenance.ingest.options import (
    KEEPS_SCHEMA,
    WRITE_REPLANS,
    IngestOptions,
    Mode,
    WriteOptions,
)
from lance_ops.maintenance.ingest.plan import WritePlan, WriteTaskResult, plan_write
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import Runner, task_failed
from lance_ops.maintenance.target import Target, open_latest_if_any
from lance_ops.spark.small.files import join_small_files
from lance_ops.spark.small.parts import result_bytes, write_small_parts
from lance_ops.spark.transport import (
    SPARK_ERRORS,
    Outcome,
    capture,
    load_outcome,
    refuse_memory_store,
    session_attempts,
    spark_reason,
)
from lance_ops.spark.types import adapt_schema, arrow_schema
from lance_ops.spark.writing.partition_writer import PartitionWriter, partition_id

_OUTCOMES = "partition long, outcome binary"


def plan_dataframe_write(
    data: StructType, uri: Target, options: WriteOptions, schema: pa.Schema | None = None
) -> tuple[WritePlan, PartitionWriter]:
    """Check that a DataFrame can be written; nothing is written yet.

    Args:
        data: Schema of the DataFrame.
        uri: The dataset.
        options: Options of the write.
        schema: Schema of a new dataset; see `append_dataframe`.

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


@public()
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

    Consecutive small partitions share a fragment, up to the limits of a file; large ones become separate
    fragments. Columns are matched by name; a column also fits when its type is the one in which Spark reads
    the dataset's (see `spark.types`).

    Args:
        df: The rows, from a classic session or Spark Connect; computed once.
        uri: URI of the dataset, which may not exist yet.
        mode: "append" adds rows, and creates the dataset if there is none; "create" requires that it does not
            exist;
            "overwrite" replaces schema and rows in a new version; "replace_where" replaces the rows that
            match `predicate`.
        schema: Schema of a created or overwritten dataset, if Spark lacks the types: fixed-size lists
            for vectors, unsigned integers, half floats. An append uses the types of the dataset.
        predicate: See `write_dataset`.
        allow_empty: See `write_dataset`.
        **options: See `IngestOptions` and `RunOptions`. If the job is already committed, no Spark job is
            started. The runner finds the rows that a replacement deletes, and joins small files.

    Raises:
        DatasetExistsError: mode is "create" and the dataset exists.
        SchemaMismatchError: The schema does not fit; lists every mismatch.
        UnsupportedTypeError: A type cannot be stored; lists every field.
        TaskFailedError: A partition could not be computed or written; nothing was committed. The cause is the
            error, e.g. a `SchemaMismatchError` for a value that does not fit.
        CommitConflictError: Another commit conflicts.
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
    attempts = session_attempts(df.sparkSession)
    most = result_bytes(df.sparkSession.conf.get("spark.driver.maxResultSize", "1g") or "1g")
    writer = replace(writer, result_bytes=most)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = partition_id()
        outcome = capture(lambda: writer.write_or_send(batches, partition), attempts)
        yield pa.RecordBatch.from_pydict({"partition": [partition], "outcome": [outcome]})

    try:
        rows = df.mapInArrow(run, _OUTCOMES).collect()
    except SPARK_ERRORS as error:
        raise TaskFailedError(
            f"Spark could not compute or write the rows: {spark_reason(error)}; nothing was committed",
            path=plan.uri,
            hint="see Spark's log; the executors must have lance_ops installed, access to the dataset "
            "and enough memory",
        ) from error
    return written_by(plan, {int(row["partition"]): bytes(row["outcome"]) for row in rows}, runner)


def written_by(
    plan: WritePlan, sent: Mapping[int, bytes], runner: Runner | None = None
) -> list[WriteTaskResult]:
    """Return the files of the partitions, in order, after writing sent rows and joining small files.

    Raises:
        TaskFailedError: One of them failed. Files of the others are removed.
    """
    outcomes = {number: load_outcome(data) for number, data in sent.items()}
    failures = [(number, outcome.error) for number, outcome in sorted(outcomes.items()) if outcome.error]
    if failures:
        abandon_write(plan, files_of(outcomes.values()))
        number, cause = failures[0]
        raise task_failed(number, len(outcomes), cause) from cause
    written: list[WriteTaskResult] = []
    try:
        write_small_parts(plan.task, [outcome.value for _, outcome in sorted(outcomes.items())], written)
        return join_small_files(plan.task, written, runner)
    except BaseException:
        abandon_write(plan, [*written, *files_of(outcomes.values())])
        raise


def files_of(outcomes: Iterable[Outcome]) -> list[WriteTaskResult]:
    """Return the files written."""
    found = (outcome.value for outcome in outcomes if outcome.error is None)
    return [value for value in found if isinstance(value, WriteTaskResult)]
