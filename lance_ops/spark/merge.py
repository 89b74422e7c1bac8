"""Merge of Spark DataFrames: few rows in the driver, many by hash partitions, in one commit.

Few rows come to the driver one partition at a time, and are kept in a file while they are merged; an index on
the key may find the matching rows. Many are joined on executors, see `merge_join`. Either way they are
computed once: a join with the head after a conflict must see the same rows again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias, Unpack, get_args

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from lance_ops.errors import InvalidArgumentError, TaskFailedError, public
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.merge_insert.clauses import OnDuplicates, WhenMatched, WhenNotMatched, clauses_of
from lance_ops.maintenance.merge_insert.operation import REPLANS, key_of, merge_insert
from lance_ops.maintenance.merge_insert.result import MergeResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.spark.convert import from_spark
from lance_ops.spark.merge_join import merge_partitions
from lance_ops.spark.transport import SPARK_ERRORS, spark_reason
from lance_ops.spark.types import adapt_schema, arrow_schema

Join: TypeAlias = Literal["auto", "driver", "partitions"]

ON_DRIVER = 1_000_000
"""Maximum rows of a source that the driver merges by default."""


@public()
def merge_dataframe(
    df: DataFrame,
    uri: Target,
    on: str | Sequence[str] | None = None,
    *,
    when_matched: WhenMatched | None = None,
    condition: str | None = None,
    when_not_matched: WhenNotMatched | None = None,
    when_not_matched_by_source: str | None = None,
    on_duplicates: OnDuplicates = "fail",
    use_index: bool = True,
    join: Join = "auto",
    partitions: int | None = None,
    **run: Unpack[RunOptions],
) -> MergeResult:
    """Merge the rows of a Spark DataFrame into a dataset by a key; see `lance_ops.merge_insert`.

    Args:
        df: The rows, from a classic session or Spark Connect; computed once. It may lack columns.
        uri: The dataset.
        on: Key columns; the primary key of the schema if None.
        when_matched: See `lance_ops.merge_insert`, as the others.
        condition: See there.
        when_not_matched: See there.
        when_not_matched_by_source: See there.
        on_duplicates: See there.
        use_index: See there.
        join: "driver" brings the rows to the driver; with a `SparkRunner`, executors join and write
            nevertheless. "partitions" leaves them on the executors: both sides are shuffled by the hash of
            their key, and no task holds more than some windows of rows. "auto" uses the driver for up to a
            million rows; Spark keeps them on disk (`persist`) meanwhile.
        partitions: Number of partitions of that join; if None, `spark.sql.shuffle.partitions`, or one for
            four million rows of the dataset.
        **run: See `RunOptions`.

    Raises:
        TaskFailedError: The rows could not be computed; nothing was committed.
        LanceOpsError: See `lance_ops.merge_insert`.
    """
    if join not in get_args(Join):
        raise InvalidArgumentError(
            f"join must be 'auto', 'driver' or 'partitions', got {join!r}",
            field="join",
            hint=f"one of {', '.join(get_args(Join))}",
        )
    clauses = clauses_of(
        when_matched=when_matched,
        condition=condition,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        on_duplicates=on_duplicates,
    )
    call = Run.start("merge_insert", uri, run, max_replans=REPLANS)
    key = key_of(call.dataset, on)
    found = call.find_job()
    if found is not None:
        return MergeResult(**found, on=key)
    with _kept(df, join) as (rows, is_large):
        if is_large:
            return merge_partitions(rows, call, key, clauses, partitions=partitions)
        schema = adapt_schema(arrow_schema(df.schema), call.dataset.schema)
        return merge_insert(
            call.dataset,
            pa.RecordBatchReader.from_batches(schema, _batches(rows, schema)),
            on,
            when_matched=when_matched,
            condition=condition,
            when_not_matched=when_not_matched,
            when_not_matched_by_source=when_not_matched_by_source,
            on_duplicates=on_duplicates,
            use_index=use_index,
            **run,
        )


@contextmanager
def _kept(df: DataFrame, join: Join) -> Iterator[tuple[DataFrame, bool]]:
    """Return the rows, persisted if needed, and whether they are joined by partitions."""
    if join == "driver":
        yield df, False
        return
    is_ours = df.storageLevel == StorageLevel.NONE
    try:
        kept = df.persist(StorageLevel.DISK_ONLY) if is_ours else df
        large = join == "partitions" or kept.count() > ON_DRIVER
    except SPARK_ERRORS as error:
        raise _not_computed(error) from error
    try:
        yield kept, large
    finally:
        if is_ours:
            with suppress(*SPARK_ERRORS):
                kept.unpersist()


def _batches(df: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows, partition by partition, in the types of the dataset."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as writer:
                writer.write_batch(from_spark(batch, schema))
            yield pa.RecordBatch.from_pydict({"rows": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    try:
        for row in df.mapInArrow(send, "rows binary").toLocalIterator():
            yield from pa.ipc.open_stream(pa.py_buffer(bytes(row["rows"])))
    except SPARK_ERRORS as error:
        raise _not_computed(error) from error


def _not_computed(error: Exception) -> TaskFailedError:
    return TaskFailedError(
        f"Spark could not compute the rows: {spark_reason(error)}; nothing was committed",
        hint="see Spark's log; the executors must have lance_ops installed",
    )
