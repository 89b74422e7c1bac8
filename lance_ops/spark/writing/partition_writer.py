"""Partition writer for executors, independent of plans and commits.

Workers import this for the first partition that they write, and are short-lived; so it is separate from
modules of the driver.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from lance_ops.maintenance.ingest.plan import WriteTask, WriteTaskResult, write_task
from lance_ops.spark.convert import from_spark
from lance_ops.spark.small.parts import SmallPart, send_limit, write_or_send


@dataclass(frozen=True, slots=True)
class PartitionWriter:
    """Writes one partition of a DataFrame; serializable for executors.

    Attributes:
        task: The write, from the plan.
        schema: Types to which Spark's batches are converted first.
        already_committed: An earlier run with the same job key did it all: the rows are not computed.
        result_bytes: Maximum bytes sent by all partitions; None to read it from the environment.
    """

    task: WriteTask
    schema: pa.Schema
    already_committed: bool
    result_bytes: int | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> WriteTaskResult:
        """Write the rows of a partition.

        Raises:
            SchemaMismatchError: A value does not fit the dataset. Files written by then are removed.
        """
        if self.already_committed:
            return WriteTaskResult(())
        return write_task(self.task, self._converted(batches))

    def write_or_send(self, batches: Iterable[pa.RecordBatch], partition: int) -> WriteTaskResult | SmallPart:
        """Write the rows of a partition, or return them if they are too few for a separate file.

        Args:
            batches: The rows.
            partition: Its number.

        Raises:
            SchemaMismatchError: A value does not fit the dataset. Files written by then are removed.
        """
        if self.already_committed:
            return WriteTaskResult(())
        limit = send_limit(partition, self.result_bytes)
        return write_or_send(self.task, self._converted(batches), self.schema, limit)

    def _converted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (from_spark(batch, self.schema) for batch in batches)


def partition_id() -> int:
    """Return the number of this executor's partition."""
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())
