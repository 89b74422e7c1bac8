"""Scans as DataFrames with `mapInArrow`: only the requested columns are read.

Spark passes a data source in Python neither the columns of a query nor that it only counts. Here they are
arguments. Spark Connect works as well, and the JVM does less work per row.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.spark.convert import to_spark
from lance_ops.spark.shares import Share, bytes_to_read, cut_scan, with_blob_sizes
from lance_ops.spark.transport import dump_task, refuse_memory_store
from lance_ops.spark.types import arrow_schema, spark_schema
from lance_ops.table.dataset import Dataset, DatasetHandle, snapshot_of
from lance_ops.table.history.resolve_version import VersionSpec
from lance_ops.table.scan.plan import FragmentPlan
from lance_ops.table.scan.run import Scan
from lance_ops.table.snapshot import Snapshot

if TYPE_CHECKING:
    import os

_FEW_ROWS, _FEW_BYTES = 1_000, 4 << 20
"""Limits of rows and bytes that the driver reads itself, if an index selects them."""


def read_dataset(
    spark: SparkSession,
    uri: str | Dataset | DatasetHandle,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - the name users know
    version: VersionSpec | None = None,
    *,
    asof: datetime | str | None = None,
    limit: int | None = None,
    partition_bytes: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read columns and rows of a dataset as a DataFrame.

    It is pinned to the version of this call. The driver plans, indices included; executors read ranges of
    rows. Where an index leaves at most 1,000 rows of at most about 4 MiB of files, the driver reads them at
    once, and no task is run. `count()` of the result reads only the columns of the filter, and without a
    filter nothing.

    Args:
        spark: A session, classic or of Spark Connect.
        uri: The dataset; a `Dataset` stands for its version.
        columns: Names or nested paths; all if None.
        filter: SQL condition of lance_ops.
        version: A version number, a tag, or (branch, version); the newest if None.
        asof: Read the newest version at this time, instead of `version`.
        limit: Maximum rows, in their order without a filter.
        partition_bytes: Target size of the data files of a partition; None for two partitions a core (one if
            each core reads little) between 4 and 64 MiB.
        storage_options: Options of the store; they are sent to executors.

    Raises:
        DatasetNotFoundError: There is no dataset.
        VersionNotFoundError: The version, tag or branch does not exist, or none is that old.
        UnsupportedTypeError: Spark has no type for some columns; lists every one.
        PredicateError: The filter does not parse.
        InvalidArgumentError: A limit below 0, or a dataset in the memory of this process.
    """
    given = snapshot_of(uri)
    if given is not None:
        if version is not None or asof is not None:
            raise InvalidArgumentError("the dataset is already pinned to a version", field="version, asof")
        dataset = given
    else:
        dataset = Dataset.open(cast("str | os.PathLike[str]", uri), version, storage_options, asof=asof)
    refuse_memory_store(dataset.store)
    scan = dataset.scanner(columns, filter, limit=limit)
    plan = scan.plan
    schema = spark_schema(plan.projection.arrow_schema)
    plan = with_blob_sizes(plan, dataset.bases)
    if _is_few(plan.fragments):
        return _here(spark, scan, schema)
    shares = cut_scan(plan, slots=_slots(spark), share_bytes=partition_bytes)
    snapshot = dataset.narrowed((), Schema(()))
    df = _run(spark, snapshot, shares, _read_rows(arrow_schema(schema)), schema)
    if plan.filter is None:
        return _with_count(df, scan.count_rows)

    def count() -> int:
        counts = _run(spark, snapshot, shares, _count_rows, "rows long").collect()
        total = sum(int(row["rows"]) for row in counts)
        return total if limit is None else min(limit, total)

    # Each partition returns at most the limit.
    return _with_count(df if limit is None else df.limit(limit), count)


def _is_few(fragments: Sequence[FragmentPlan]) -> bool:
    """Return whether an index selects so little that a task costs more than the rows."""
    found = [fragment.candidates for fragment in fragments if fragment.candidates is not None]
    if len(found) < len(fragments) or sum(map(len, found)) > _FEW_ROWS:
        return False
    return sum(bytes_to_read(fragment) for fragment in fragments) <= _FEW_BYTES


def _here(spark: SparkSession, scan: Scan, schema: StructType) -> DataFrame:
    """Return the rows themselves: they need no Spark task, and no worker."""
    target = arrow_schema(schema)
    rows = pa.Table.from_batches([to_spark(batch, target) for batch in scan.to_batches()], target)
    return _with_count(spark.createDataFrame(rows, schema), lambda: rows.num_rows)


def _slots(spark: SparkSession) -> int | None:
    """Return how many tasks run at once, if known; a client of Spark Connect does not know."""
    context = getattr(spark, "_sc", None)
    return None if context is None else max(1, int(context.defaultParallelism))


def _run(
    spark: SparkSession, snapshot: Snapshot, shares: Sequence[Share], work: Any, schema: Any
) -> DataFrame:
    """Return a DataFrame with a partition for each share, computed by a function."""
    payloads = [dump_task((snapshot, share)) for share in shares]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(*pickle.loads(payloads[number]))  # noqa: S301 - pickled above

    count = len(payloads)
    # A range gives each share its own partition, without a shuffle.
    return spark.range(0, count, 1, max(1, count)).mapInArrow(run, schema)


def _read_rows(target: pa.Schema) -> Any:
    def read(snapshot: Snapshot, share: Share) -> Iterator[pa.RecordBatch]:
        return share.read(snapshot, target)

    return read


def _count_rows(snapshot: Snapshot, share: Share) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": [share.count(snapshot)]})


def _with_count(df: DataFrame, count: Callable[[], int]) -> DataFrame:
    """Return the same DataFrame with another implementation of `count()`; derived ones have Spark's."""
    df.count = count
    return df
