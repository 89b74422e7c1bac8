"""One side of `columns.py` in a process of its own: does a job a line and answers with seconds and bytes.

python -m benchmarks.column_worker ours|peer
"""

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

_MEMORY_PAGE = 4096


class Side(Protocol):
    """What both libraries do."""

    def encode(self, table: pa.Table, version: str, path: Path) -> None:
        """Write one data file."""

    def decode(self, folder: Path) -> pa.Table:
        """Read a dataset of one data file."""

    def take(self, folder: Path, rows: list[int]) -> pa.Table:
        """Read single rows of it."""

    def check(self, folder: Path) -> pa.Table:
        """Read it in the ordinary way."""


class Ours:
    """lance_ops, with one thread."""

    def __init__(self) -> None:
        import lance_ops
        from lance_ops.encoding import kernels
        from lance_ops.file import reader, schema, writer
        from lance_ops.storage import open_store

        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        list(kernels.compile_all())
        self._table = lance_ops
        self._schema = schema.Schema
        self._reader = reader.FileReader
        self._writer = writer.FileWriter
        self._open_store = open_store

    def encode(self, table: pa.Table, version: str, path: Path) -> None:
        """See `Side.encode`; without flushing, which the peer does not do either."""
        store = self._open_store(str(path.parent), {"fsync": "false"})
        with self._writer(store, path.name, self._schema.from_arrow(table.schema), version=version) as writer:
            writer.write(table)

    def decode(self, folder: Path) -> pa.Table:
        """See `Side.decode`: the data file, which is read by one thread."""
        (path,) = (folder / "data").iterdir()
        return self._reader.open(self._open_store(str(path.parent)), path.name).read_table()

    def take(self, folder: Path, rows: list[int]) -> pa.Table:
        """See `Side.take`."""
        return self._table.dataset(str(folder)).take(rows)

    def check(self, folder: Path) -> pa.Table:
        """See `Side.check`."""
        return self._table.dataset(str(folder)).to_table()


class Peer:
    """pylance, as it comes."""

    def __init__(self) -> None:
        import lance
        import lance.file

        self._lance = lance

    def encode(self, table: pa.Table, version: str, path: Path) -> None:
        """See `Side.encode`."""
        with self._lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)

    def decode(self, folder: Path) -> pa.Table:
        """See `Side.decode`."""
        return self._lance.dataset(str(folder)).to_table()

    def take(self, folder: Path, rows: list[int]) -> pa.Table:
        """See `Side.take`."""
        return self._lance.dataset(str(folder)).take(rows)

    def check(self, folder: Path) -> pa.Table:
        """See `Side.check`."""
        return self.decode(folder)

    def create(self, table: pa.Table, version: str, folder: Path) -> None:
        """The dataset that both read."""
        self._lance.write_dataset(table, str(folder), data_storage_version=version, max_rows_per_file=1 << 30)


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
        elif job["do"] == "create":
            assert isinstance(side, Peer)
            side.create(table, job["version"], Path(job["folder"]))
        elif job["do"] == "encode":
            path = Path(job["path"])
            answer["seconds"] = timed(lambda: side.encode(table, job["version"], path))  # noqa: B023
            answer["bytes"] = path.stat().st_size
        elif job["do"] == "decode":
            answer["seconds"] = timed(lambda: touch(side.decode(Path(job["folder"]))))  # noqa: B023
        else:
            answer["seconds"] = timed(lambda: touch(side.take(Path(job["folder"]), job["rows"])))  # noqa: B023
        print(json.dumps(answer), flush=True)


def timed(work: Any) -> float:
    """Seconds that something takes."""
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
