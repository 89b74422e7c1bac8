"""Source: `spark.readStream.format("lance")`, added or changed rows, version by version.

The driver plans an epoch from manifests; executors get their share of fragments or rows, as in a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lance_ops.spark.streaming.columns import CHANGE_FIELDS, StreamColumns, wanted_columns
from lance_ops.spark.streaming.history import History, Step
from lance_ops.spark.streaming.offset import Offset
from lance_ops.spark.streaming.options import SourceOptions
from lance_ops.spark.streaming.shares import Share
from lance_ops.spark.transport import refuse_memory_store
from lance_ops.table.dataset import Dataset


def open_source_dataset(options: SourceOptions) -> Dataset:
    """Open the newest version of the dataset, or branch, of a stream."""
    version = None if options.branch is None else (options.branch, None)
    dataset = Dataset.open(options.uri, version, storage_options=options.storage_options)
    refuse_memory_store(dataset.store)
    return dataset


def source_schema(options: SourceOptions) -> StructType:
    """Return the columns of a stream in Spark's types.

    Raises:
        UnsupportedTypeError: Spark has no type for some columns; lists every one.
    """
    rows = wanted_columns(open_source_dataset(options), options.columns)
    return StructType([*rows.fields, *CHANGE_FIELDS]) if options.mode == "changes" else rows


@dataclass(slots=True)
class _Budget:
    """Remaining limits of an epoch; None for no limit."""

    versions: int | None
    rows: int | None
    size: int | None
    fresh: bool = True

    def take(self, step: Step, position: int) -> int:
        """Return how far a version may be read from a position on; subtracts this."""
        rows = step.delta.rows - position
        if rows <= 0:
            return step.delta.rows
        if self.versions is not None:
            if not self.versions:
                return position
            self.versions -= 1
        room = rows if self.rows is None else min(rows, self.rows)
        row_bytes = step.delta.row_bytes
        if self.size is not None and room * row_bytes > self.size:
            room = self.size // row_bytes
        if room <= 0 and not self.fresh:
            return position
        # An empty epoch would be requested again and again.
        stop = min(step.delta.align(position + max(room, 1)), step.delta.rows)
        taken = stop - position
        if self.rows is not None:
            self.rows = max(0, self.rows - taken)
        if self.size is not None:
            self.size = max(0, self.size - taken * row_bytes)
        self.fresh = False
        return stop


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads one dataset, or branch, as a stream; see `datasource.LanceDataSource`.

    Args:
        options: Options of the source.
        schema: The columns in Spark's types, from the data source.

    Raises:
        SchemaMismatchError: The dataset does not have the wanted columns; lists every mismatch.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._changes = options.mode == "changes"
        rows = StructType(schema.fields[: -len(CHANGE_FIELDS)]) if self._changes else schema
        dataset = open_source_dataset(options)
        self._columns = StreamColumns.of(dataset, rows)
        self._history: History | None = History(dataset, options)
        self._target: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends this object to every executor: none of them has to read a manifest.
        return {**self.__dict__, "_history": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start of a new query."""
        return self._past.first().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return that limits exist; `latestOffset` applies them."""
        options = self._options
        limits = (options.max_versions, options.max_rows, options.max_bytes)
        if all(limit is None for limit in limits):
            return ReadAllAvailable()
        return ReadMaxRows(options.max_rows or 1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Limit the query to the present newest version."""
        self._target = self._past.latest().version

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next epoch.

        Raises:
            StreamGapError: Versions not read yet were removed.
            StreamChangeError: A commit changed or deleted rows, in mode "append".
            SchemaMismatchError: Columns of the stream were dropped.
        """
        options = self._options
        limited = not isinstance(limit, ReadAllAvailable)
        budget = (
            _Budget(options.max_versions, options.max_rows, options.max_bytes)
            if limited
            else _Budget(None, None, None)
        )
        offset = self._past.end_of(Offset.of(start))
        until = self._past.latest().version if self._target is None else self._target
        for step in self._past.steps(offset, until):
            stop = budget.take(step, offset.position)
            if stop < step.delta.rows:
                offset = Offset(offset.version, stop, offset.snapshot, offset.data)
                break
            offset = step.after
        return offset.to_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the newest version of the dataset, for the status of the query."""
        return Offset(self._past.latest().version + 1).to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the shares of an epoch.

        Raises:
            StreamGapError: See `latestOffset`.
        """
        offset, stop = Offset.of(start), Offset.of(end)
        if offset == stop:
            return []
        last = stop.version if stop.position else stop.version - 1
        shares: list[Share] = []
        for step in self._past.steps(offset, last):
            if step.offset.version > last:
                break
            partial = (step.offset.version, step.offset.snapshot) == (stop.version, stop.snapshot)
            until = stop.position if partial else step.delta.rows
            shares += step.delta.shares(
                offset.position,
                until,
                self._columns,
                partition_bytes=self._options.partition_bytes,
                tells_changes=self._changes,
            )
            if partial:
                break
            offset = step.after
        return [InputPartition(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one share, on an executor."""
        if partition.value is not None:
            yield from partition.value.read()

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: no state is kept for processed rows."""

    @property
    def _past(self) -> History:
        assert self._history is not None
        return self._history
