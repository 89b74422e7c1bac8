"""Change feed on Spark: the driver finds the changed rows, executors read their values."""

import pickle
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lance_ops.maintenance.target import Target, open_latest
from lance_ops.spark.convert import to_spark
from lance_ops.spark.transport import dump_task
from lance_ops.spark.types import arrow_schema, spark_schema
from lance_ops.table.changed_rows import read_changes
from lance_ops.table.changes import CHANGE_TYPES, Changes
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.resolve_version import VersionSpec
from lance_ops.table.readable import Readable
from lance_ops.table.snapshot import Snapshot

ROWS_PER_PARTITION = 1 << 18


@dataclass(frozen=True, slots=True)
class _Part:
    """Some changed rows; serializable for executors."""

    old: Snapshot
    new: Snapshot
    changes: Changes
    columns: tuple[str, ...] | None
    with_row_id: bool
    change_types: tuple[str, ...]


def changes_dataframe(
    spark: SparkSession,
    uri: Target,
    since: VersionSpec,
    until: VersionSpec | None = None,
    columns: Sequence[str] | None = None,
    *,
    with_row_id: bool = False,
    change_types: Collection[str] | None = None,
    storage_options: dict[str, str] | None = None,
    rows_per_partition: int = ROWS_PER_PARTITION,
) -> DataFrame:
    """Return the rows inserted, updated and deleted between two versions; see `Dataset.changes`.

    Args:
        spark: The session, classic or Spark Connect.
        uri: The dataset.
        since: The older version: a number, a tag, or (branch, version).
        until: The newer version; the newest if None.
        columns: Top-level columns of the newer version; all if None.
        with_row_id: Add the column `_rowid`.
        change_types: Values of `_change_type` to return; all if None. Others cost nothing.
        storage_options: Options of the store.
        rows_per_partition: Changed rows that one task reads; an update counts once.

    Returns:
        The rows of `Dataset.changes` in Spark's types (see `spark.types`): deleted ones first, then updated
        ones with old and new values, then inserted ones. They are read whenever Spark computes them; the two
        versions must still exist.

    Raises:
        VersionNotFoundError: The version does not exist, or was removed.
        InvalidArgumentError: `since` is the newer one, or of another branch; or a column or type of change
            does not exist.
        UnsupportedError: See `Dataset.changes`.
        UnsupportedTypeError: Spark has no type for some columns; lists every one.
    """
    dataset = open_latest(uri, storage_options)
    old, new, found = dataset.find_changes(since, until)
    names = None if columns is None else tuple(columns)
    none = found.deleted[:0]
    empty = Changes(none, none, none, none, origins=found.origins)
    told = read_changes(old, new, empty, columns, with_row_id=with_row_id, change_types=change_types)
    kinds = CHANGE_TYPES if change_types is None else tuple(change_types)
    schema = spark_schema(told.schema)
    target = arrow_schema(schema)
    parts = [
        dump_task(
            _Part(
                _narrowed(old, part.deleted, part.before),
                _narrowed(new, part.after, part.inserted),
                part,
                names,
                with_row_id,
                kinds,
            )
        )
        for part in found.split(rows_per_partition)
        if part.kinds.intersection(kinds)
    ]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part: _Part = pickle.loads(parts[number])  # noqa: S301 - pickled above
                feed = read_changes(
                    _readable(part.old),
                    _readable(part.new),
                    part.changes,
                    part.columns,
                    with_row_id=part.with_row_id,
                    change_types=part.change_types,
                )
                yield from (to_spark(rows, target) for rows in feed)

    # Each part has its own partition, and the order is kept.
    return spark.range(0, len(parts), 1, max(1, len(parts))).mapInArrow(read, schema)


def _narrowed(dataset: Dataset, *addresses: npt.NDArray[np.uint64]) -> Snapshot:
    ids = np.unique(np.concatenate(addresses) >> np.uint64(32)).tolist()
    return dataset.narrowed([dataset.fragments_by_id[number] for number in ids])


def _readable(snapshot: Snapshot) -> Readable:
    return Readable(snapshot.store, snapshot.manifest, snapshot.storage_options)
