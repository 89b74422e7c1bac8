"""Small partitions: rows that travel to the driver, which writes neighbours into files together.

Two hundred partitions of a few rows would be two hundred fragments. A task knows how little it has when its
rows end before they are worth a file; what it sends instead lies nowhere until the commit, so that neither a
second copy of the task nor its death leaves anything behind.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from lance_ops.maintenance.ingest.task import WriteTask, WriteTaskResult, write_task

SMALL_BYTES = 1 << 20
"""In memory: a partition of less sends its rows."""

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class SmallPart:
    """The rows of one partition, in the types of the dataset.

    Attributes:
        data: An Arrow stream.
        num_rows: How many they are.
    """

    data: bytes
    num_rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        with pa.ipc.open_stream(self.data) as stream:
            yield from stream


def write_or_send(
    task: WriteTask, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> WriteTaskResult | SmallPart:
    """Write the rows of a partition, or return them where they are few; on an executor.

    Args:
        task: How to write.
        batches: The rows.
        schema: Their schema.

    Raises:
        SchemaMismatchError: A value does not fit the dataset. Files written by then are removed.
    """
    rest = iter(batches)
    first: list[pa.RecordBatch] = []
    size = 0
    for batch in rest:
        first.append(batch)
        size += batch.nbytes
        if size >= SMALL_BYTES:
            return write_task(task, chain(first, rest))
    rows = sum(batch.num_rows for batch in first)
    if not rows:
        return WriteTaskResult(())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSION) as writer:
        for batch in first:
            writer.write_batch(batch)
    return SmallPart(sink.getvalue().to_pybytes(), rows)


def write_small_parts(
    task: WriteTask, parts: Sequence[WriteTaskResult | SmallPart], written: list[WriteTaskResult]
) -> None:
    """Write what partitions sent, neighbours together, in the order of all; on the driver.

    Args:
        task: How to write.
        parts: Of all partitions, in their order.
        written: Gets the results, in the order of the rows; also those before an error.

    Raises:
        SchemaMismatchError: A value does not fit the dataset.
    """
    run: list[SmallPart] = []
    for part in (*parts, None):
        if isinstance(part, SmallPart):
            run.append(part)
            continue
        if run:
            written.append(write_task(task, chain.from_iterable(small.batches() for small in run)))
            run = []
        if part is not None:
            written.append(part)
