"""A streaming query without Spark: what Spark calls, in its order, with restarts from a checkpoint."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from lance_ops.spark.streaming import outbox, sink
from lance_ops.spark.streaming.options import SinkOptions, SourceOptions
from lance_ops.spark.streaming.sink import LanceStreamWriter
from lance_ops.spark.streaming.source import LanceStreamReader, source_schema
from lance_ops.spark.types import spark_schema
from lance_ops.storage import Store

SPARK_ID = "c0ffee00-0000-4000-8000-000000000000"


@dataclass
class SinkQuery:
    """A query that writes; a new one with the same values is the query after a restart.

    Attributes:
        options: Of the sink.
        schema: Of its rows.
        spark_id: What the checkpoint calls it.
        complete: Output mode "complete".
        travels: Bytes of a partition up to which rows travel to the driver.
    """

    options: SinkOptions
    schema: StructType
    spark_id: str = SPARK_ID
    complete: bool = False
    travels: int = outbox.TRAVELS

    def on(self, store: Store) -> "SinkQuery":
        """The same on another view of the store."""
        return replace(self, options=replace(self.options, uri=store))  # type: ignore[arg-type]

    def run(self, number: int, partitions: Sequence[pa.Table]) -> None:
        """One epoch, from the first task to the commit; without Spark's own note that it is done."""
        planner = LanceStreamWriter(self.schema, self.options, complete=self.complete)
        messages = [self._task(planner, number, place, rows) for place, rows in enumerate(partitions)]
        driver = LanceStreamWriter(self.schema, self.options, complete=self.complete)
        driver.commit(messages, number)

    def _task(self, writer: LanceStreamWriter, number: int, place: int, rows: pa.Table) -> Any:
        context = mock.Mock()
        context.getLocalProperty = {sink._QUERY_ID: self.spark_id, sink._BATCH_ID: str(number)}.get
        with (
            mock.patch.object(sink.TaskContext, "get", return_value=context),
            mock.patch.object(sink, "partition_id", return_value=place),
            mock.patch.object(outbox, "TRAVELS", self.travels),
        ):
            return pickle.loads(pickle.dumps(writer.write(iter(rows.to_batches()))))


@dataclass
class SourceQuery:
    """A query that reads; every epoch may be another process.

    Attributes:
        options: Of the source.
        start: Where the next epoch begins; None before the first.
        planned: The end of an epoch that was planned and not committed, as a checkpoint has it.
    """

    options: SourceOptions
    start: dict[str, Any] | None = None
    planned: dict[str, Any] | None = None
    schema: StructType | None = None
    _reader: LanceStreamReader | None = field(default=None, repr=False)

    def restart(self) -> None:
        """A new process goes on from the checkpoint."""
        self._reader = None

    def plan(self, limit: Any = None) -> bool:
        """Plan an epoch, if none is planned; False when there is nothing new."""
        reader = self._open()
        if self.start is None:
            self.start = reader.initialOffset()
        if self.planned is None:
            end = reader.latestOffset(self.start, limit or reader.getDefaultReadLimit())
            if end == self.start:
                return False
            self.planned = end
        return True

    def read(self) -> list[dict[str, Any]]:
        """The rows of the planned epoch."""
        assert self.start is not None
        assert self.planned is not None
        reader = self._open()
        rows: list[dict[str, Any]] = []
        executor = pickle.loads(pickle.dumps(reader))
        for partition in reader.partitions(self.start, self.planned):
            for batch in executor.read(pickle.loads(pickle.dumps(partition))):
                rows += batch.to_pylist()
        return rows

    def commit(self) -> None:
        """Spark notes that the epoch is done."""
        self.start, self.planned = self.planned, None

    def drain(self) -> list[list[dict[str, Any]]]:
        """All epochs that there are, one after the other."""
        epochs = []
        while self.plan():
            epochs.append(self.read())
            self.commit()
        return epochs

    def everything(self) -> list[dict[str, Any]]:
        """Rows of all epochs that there are, without limits."""
        rows: list[dict[str, Any]] = []
        while self.plan(ReadAllAvailable()):
            rows += self.read()
            self.commit()
        return rows

    def _open(self) -> LanceStreamReader:
        if self._reader is None:
            self.schema = self.schema or source_schema(self.options)
            self._reader = LanceStreamReader(self.options, self.schema)
        return self._reader


def schema_of(rows: pa.Table) -> StructType:
    """A table's schema in Spark's types."""
    return spark_schema(rows.schema)
