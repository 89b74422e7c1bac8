"""Small partitions: their rows are sent to the driver, which writes neighbours into common files.

Two hundred partitions of a few rows would be two hundred fragments. A task knows that it has few rows when
they end before they are worth a file; the rows it sends are not stored until the commit, so that neither a
duplicate task nor a failed one leaves files behind.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from lance_ops.maintenance.ingest.plan import WriteTask, WriteTaskResult, write_task

SMALL_BYTES = 1 << 20
"""Size in memory below which a partition sends its rows."""

RESULT_VARIABLE = "LANCE_OPS_SPARK_RESULT_BYTES"
"""Environment variable of Python workers: `spark.driver.maxResultSize` in bytes."""

_UNKNOWN_RESULT_BYTES = 256 << 20
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class SmallPart:
    """The rows of one partition, in the types of the dataset.

    Attributes:
        data: An Arrow stream.
        num_rows: Number of rows.
    """

    data: bytes
    num_rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        with pa.ipc.open_stream(self.data) as stream:
            yield from stream


def result_bytes(setting: str) -> int:
    """Return the bytes of `spark.driver.maxResultSize`; 0 (no limit) counts as the default of 1 GiB."""
    match = re.fullmatch(r"(\d+)([bkmgt]?)b?", setting.strip().lower())
    found = int(match[1]) * _UNITS[match[2]] if match else 0
    return found or _UNITS["g"]


def send_limit(partition: int, most: int | None = None) -> int:
    """Return the bytes that a partition may send to the driver; Spark rejects a total above `maxResultSize`.

    A task does not know the number of tasks. So the limit falls with its number: the first ones send up to
    `SMALL_BYTES`, a sixteenth of the total, later ones in inverse proportion to their number, which keeps a
    million partitions within two thirds of it.

    Args:
        partition: Number of the partition.
        most: Maximum total; None to read it from the environment of the worker.
    """
    if most is None:
        text = os.environ.get(RESULT_VARIABLE, "")
        most = int(text) if text.isdigit() else _UNKNOWN_RESULT_BYTES
    return min(SMALL_BYTES, most // 16 // (partition + 1))


def write_or_send(
    task: WriteTask, batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int = SMALL_BYTES
) -> WriteTaskResult | SmallPart:
    """Write the rows of a partition, or return them if they are few; on an executor.

    Args:
        task: The write.
        batches: The rows.
        schema: Their schema.
        limit: Maximum bytes to send.

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
    """Write the rows sent by partitions, neighbours together, in order; on the driver.

    Args:
        task: The write.
        parts: Parts of all partitions, in order.
        written: Receives the results, in the order of the rows; also those before an error.

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
