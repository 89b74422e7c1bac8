"""Small partitions: rows that travel to the driver, which writes neighbours into files together.

Two hundred partitions of a few rows would be two hundred fragments. A task knows how little it has when its
rows end before they are worth a file; what it sends instead lies nowhere until the commit, so that neither a
second copy of the task nor its death leaves anything behind.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from lance_ops.maintenance.ingest.task import WriteTask, WriteTaskResult, write_task

SMALL_BYTES = 1 << 20
"""In memory: a partition of less sends its rows."""

RESULT_VARIABLE = "LANCE_OPS_SPARK_RESULT_BYTES"
"""In the environment of Python workers: `spark.driver.maxResultSize` in bytes."""

_UNKNOWN_RESULT_BYTES = 256 << 20
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

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


def result_bytes(setting: str) -> int:
    """Bytes of `spark.driver.maxResultSize`; 0 there is no limit, which counts as the default of 1 GiB."""
    match = re.fullmatch(r"(\d+)([bkmgt]?)b?", setting.strip().lower())
    found = int(match[1]) * _UNITS[match[2]] if match else 0
    return found or _UNITS["g"]


def send_limit(partition: int, most: int | None = None) -> int:
    """Bytes that a partition may send to the driver, of which Spark refuses a sum above `maxResultSize`.

    A task does not know how many others there are. So the limit falls with its number: the first send up to
    `SMALL_BYTES`, which takes a sixteenth of the sum, those after them in inverse proportion to their number,
    which leaves a million partitions within two thirds of it.

    Args:
        partition: Number of the partition.
        most: The greatest sum; None for what the session says in the environment of its workers.
    """
    if most is None:
        text = os.environ.get(RESULT_VARIABLE, "")
        most = int(text) if text.isdigit() else _UNKNOWN_RESULT_BYTES
    return min(SMALL_BYTES, most // 16 // (partition + 1))


def write_or_send(
    task: WriteTask, batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int = SMALL_BYTES
) -> WriteTaskResult | SmallPart:
    """Write the rows of a partition, or return them where they are few; on an executor.

    Args:
        task: How to write.
        batches: The rows.
        schema: Their schema.
        limit: Bytes that may be sent.

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
    if sink.tell() > limit:
        return write_task(task, first)
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
