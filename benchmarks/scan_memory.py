"""Peak memory of streaming a whole table, ours and the peer's, for tables of several sizes.

Each scan runs in a process of its own, which reports the most anonymous memory that it had: pages of mapped
files are left out, because the system takes them back whenever it likes.

    python -m benchmarks.scan_memory --gigabytes 1 5
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

_BATCH_ROWS = 8192
_DIMENSION = 256
_TEXT_BYTES = 500
_ROW_BYTES = 8 + 4 * _DIMENSION + _TEXT_BYTES
_ROWS_PER_FILE = 250_000


def make_batches(gigabytes: float) -> Iterator[pa.RecordBatch]:
    """Rows with a number, a vector and a text."""
    rng = np.random.default_rng(0)
    words = rng.integers(97, 123, 1 << 20, dtype=np.uint8).tobytes().decode()
    left = int(gigabytes * 1e9 / _ROW_BYTES)
    first = 0
    while left > 0:
        rows = min(left, _BATCH_ROWS)
        starts = rng.integers(0, len(words) - _TEXT_BYTES, rows)
        vectors = pa.array(rng.random(rows * _DIMENSION, dtype=np.float32))
        yield pa.record_batch(
            {
                "id": pa.array(np.arange(first, first + rows)),
                "vector": pa.FixedSizeListArray.from_arrays(vectors, _DIMENSION),
                "text": pa.array([words[start : start + _TEXT_BYTES] for start in starts.tolist()]),
            }
        )
        first, left = first + rows, left - rows


def write(path: Path, gigabytes: float, version: str, rows_per_file: int = _ROWS_PER_FILE) -> None:
    """Write such rows with the peer."""
    import lance

    batches = make_batches(gigabytes)
    head = next(batches)

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield head
        yield from batches

    lance.write_dataset(
        pa.RecordBatchReader.from_batches(head.schema, all_batches()),
        str(path),
        max_rows_per_file=rows_per_file,
        data_storage_version=version,
    )


class Peak(threading.Thread):
    """Watches how much anonymous memory this process has.

    Attributes:
        bytes: The most so far.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Measure until `finish`."""
        while not self._over.wait(0.005):
            self.measure()

    def measure(self) -> None:
        """Look once."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                self.bytes = max(self.bytes, int(line.split()[1]) << 10)

    def finish(self) -> int:
        """End, and say the most that there was."""
        self._over.set()
        self.join()
        self.measure()
        return self.bytes


def _scan(who: str, path: str) -> None:
    if who == "peer":
        import lance

        batches = lance.dataset(path).to_batches()
    else:
        from lance_ops.table.dataset import Dataset

        batches = Dataset.open(path).scanner().to_batches()
    peak = Peak()
    peak.measure()
    before = peak.bytes
    peak.start()
    begin = time.perf_counter()
    rows = sum(batch.num_rows for batch in batches)
    seconds = time.perf_counter() - begin
    print(f"{rows} {peak.finish() - before} {seconds}")


def main() -> None:
    """Write the tables, scan each in processes of its own, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1, 5])
    parser.add_argument("--version", default="2.2")
    parser.add_argument("--folder", help="where the tables are made; they are deleted afterwards")
    parser.add_argument("--scan", nargs=2, metavar=("WHO", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.scan:
        _scan(*arguments.scan)
        return
    folder = Path(tempfile.mkdtemp(prefix="scan-memory-", dir=arguments.folder))
    try:
        print("| table | who | peak of anonymous memory | time |\n|---|---|---|---|")
        for gigabytes in arguments.gigabytes:
            path = folder / "table.lance"
            write(path, gigabytes, arguments.version)
            for who in ("ours", "peer"):
                command = [sys.executable, "-m", "benchmarks.scan_memory", "--scan", who, str(path)]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rows, peak, seconds = output.split()
                size = f"{gigabytes:g} GB, {int(rows):,} rows"
                print(f"| {size} | {who} | {int(peak) / 1e6:,.0f} MB | {float(seconds):.2f} s |", flush=True)
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
