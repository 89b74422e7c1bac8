"""One side of `columns.py` in a process of its own: does a job a line and answers with seconds and bytes.

python -m benchmarks.column_worker ours|peer [cpu]
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

ONE_FILE = 1 << 30
"""Rows of a file at most: all of them."""

_MEMORY_PAGE = 4096


class Side(Protocol):
    """What both libraries do, through the calls that their users make."""

    def write(self, table: pa.Table, version: str, folder: Path) -> None:
        """Create a dataset of one data file."""

    def read(self, folder: Path) -> pa.Table:
        """Read a dataset."""

    def take(self, folder: Path, rows: list[int]) -> pa.Table:
        """Read single rows of it."""


class Ours:
    """lance_ops, as it comes."""

    def __init__(self) -> None:
        import lance_ops
        from lance_ops.encoding import kernels

        for name in kernels.names():
            kernels.load(name)
        # What is loaded when it is first used would be loaded within a job, and collected before each.
        for name in lance_ops.__all__:
            getattr(lance_ops, name)
        import_module("lance_ops.index.search.pruner")
        self._library = lance_ops

    def write(self, table: pa.Table, version: str, folder: Path) -> None:
        """See `Side.write`; flushing included."""
        self._library.write_dataset(
            table, str(folder), mode="create", data_storage_version=version, max_rows_per_file=ONE_FILE
        )

    def read(self, folder: Path) -> pa.Table:
        """See `Side.read`."""
        return self._library.dataset(str(folder)).to_table()

    def take(self, folder: Path, rows: list[int]) -> pa.Table:
        """See `Side.take`."""
        return self._library.dataset(str(folder)).take(rows)


class Peer:
    """pylance, as it comes."""

    def __init__(self) -> None:
        import lance

        self._library = lance

    def write(self, table: pa.Table, version: str, folder: Path) -> None:
        """See `Side.write`; the peer flushes nothing."""
        self._library.write_dataset(
            table, str(folder), data_storage_version=version, max_rows_per_file=ONE_FILE
        )

    def read(self, folder: Path) -> pa.Table:
        """See `Side.read`."""
        return self._library.dataset(str(folder)).to_table()

    def take(self, folder: Path, rows: list[int]) -> pa.Table:
        """See `Side.take`."""
        return self._library.dataset(str(folder)).take(rows)


def touch(table: pa.Table) -> int:
    """Read a word of each page of memory of a table, so that views of a mapped file are really there."""
    total = 0
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None:
                    total += int(np.frombuffer(buffer, np.uint8)[::_MEMORY_PAGE].sum(dtype=np.uint64))
    return total


def main() -> None:
    """Work until the input ends."""
    side: Ours | Peer = Ours() if sys.argv[1] == "ours" else Peer()
    clock = time.process_time if "cpu" in sys.argv[2:] else time.perf_counter
    table = pa.table({})
    # The collection before each job would otherwise go through all that was ever imported, and leave nothing
    # of what the job needs in the processor's caches: no program that reads files does that.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        answer: dict[str, Any] = {}
        if job["do"] == "load":
            # The peer ends the process when values are not where their type wants them.
            aligned = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
            with pa.ipc.open_stream(job["values"], options=aligned) as stream:
                table = stream.read_all()
        elif job["do"] == "write":
            folder = Path(job["folder"])
            answer["seconds"] = timed(lambda: side.write(table, job["version"], folder), clock)  # noqa: B023
            answer["bytes"] = sum(path.stat().st_size for path in (folder / "data").iterdir())
        elif job["do"] == "read":
            answer["seconds"] = timed(lambda: touch(side.read(Path(job["folder"]))), clock)  # noqa: B023
        else:
            taken = lambda: touch(side.take(Path(job["folder"]), job["rows"]))  # noqa: B023, E731
            answer["seconds"] = timed(taken, clock)
        print(json.dumps(answer), flush=True)


def timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds that something takes by a clock."""
    gc.collect()
    started = clock()
    work()
    return clock() - started


if __name__ == "__main__":
    main()
