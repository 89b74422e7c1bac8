"""The floor of Spark's interface for Python: batches that are ready, and a sink that keeps nothing.

What any source or sink in Python costs beside Spark's own Parquet, before it has read or written a byte of
a dataset: batches are mapped from an Arrow file and handed over as they are, and a write only takes them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lance_ops.spark.types import spark_schema

BATCH_ROWS = 65_536


def make_ready(path: Path, tables: Sequence[pa.Table]) -> None:
    """Write the batches that are handed over, in one Arrow file without compression."""
    with pa.ipc.new_file(str(path), tables[0].schema) as writer:
        writer.write_table(pa.concat_tables(tables).combine_chunks(), max_chunksize=BATCH_ROWS)


def ready_batches(path: str, columns: Sequence[str], part: int, parts: int) -> Iterator[pa.RecordBatch]:
    """One of so many parts of the batches, mapped into memory."""
    names = pa.ipc.open_file(pa.memory_map(path)).schema.names
    chosen = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in columns])
    file = pa.ipc.open_file(pa.memory_map(path), options=chosen)
    count = file.num_record_batches
    for number in range(count * part // parts, count * (part + 1) // parts):
        yield file.get_batch(number)


def ready_frame(spark: SparkSession, path: str, columns: Sequence[str], parts: int) -> DataFrame:
    """The batches as a DataFrame by way of `mapInArrow`, as `read_dataset` makes one."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield from ready_batches(path, columns, part, parts)

    return spark.range(0, parts, 1, parts).mapInArrow(run, _schema(path, columns))


def register_floor(spark: SparkSession) -> None:
    """Make the formats `ready` and `throwaway` known."""
    spark.dataSource.register(ReadySource)
    spark.dataSource.register(ThrowawaySink)


class ReadySource(DataSource):  # type: ignore[misc]  # pyspark counts as untyped
    """The batches as a data source in Python; options `columns` (between commas) and `parts`."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "ready"

    def schema(self) -> StructType:
        """Of the columns."""
        return _schema(self.options["path"], self.options["columns"].split(","))

    def reader(self, schema: StructType) -> DataSourceReader:
        """What hands them over."""
        return _ReadyReader(self.options["path"], schema.fieldNames(), int(self.options["parts"]))


class _ReadyReader(DataSourceReader):  # type: ignore[misc]  # pyspark counts as untyped
    def __init__(self, path: str, columns: Sequence[str], parts: int) -> None:
        self._path, self._columns, self._parts = path, tuple(columns), parts

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in range(self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return ready_batches(self._path, self._columns, partition.value, self._parts)


class ThrowawaySink(DataSource):  # type: ignore[misc]  # pyspark counts as untyped
    """Takes all batches, and keeps none."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "throwaway"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's
        """What takes them."""
        return _ThrowawayWriter()


class _ThrowawayWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark counts as untyped
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def _schema(path: str, columns: Sequence[str]) -> Any:
    found = pa.ipc.open_file(pa.memory_map(path)).schema
    return spark_schema(pa.schema([found.field(name) for name in columns]))
