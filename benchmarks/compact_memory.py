"""Peak memory of compacting a whole table as one group, for tables of several sizes.

Each compaction runs in a process of its own with one thread for tasks, which reports the most anonymous
memory that it had (pages of mapped files are left out, because the system takes them back whenever it likes)
and the most that Arrow's pool had in use.

    python -m benchmarks.compact_memory --gigabytes 1 5
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import lance_ops as lo
from benchmarks.scan_memory import Peak, write

_ROWS_PER_FILE = 50_000
_ALL_ROWS = 1 << 31
_METHODS = ("copy", "rewrite")


def _compact(path: str, method: str) -> None:
    rows = lo.dataset(path).count_rows()
    peak = Peak()
    peak.measure()
    before = peak.bytes
    peak.start()
    begin, busy = time.perf_counter(), time.process_time()
    result = lo.compact(
        path, method=method, target_rows_per_fragment=_ALL_ROWS, runner=lo.LocalRunner(1), commit_every=None
    )
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    most = peak.finish() - before
    assert result.fragments_added == 1, result
    assert lo.dataset(path).count_rows() == rows
    print(f"{rows} {most} {pa.default_memory_pool().max_memory()} {busy} {seconds}")


def main() -> None:
    """Write the tables, compact each in processes of its own, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1, 5])
    parser.add_argument("--version", default="2.2")
    parser.add_argument("--methods", nargs="+", choices=_METHODS, default=_METHODS)
    parser.add_argument("--deleted", help="a condition whose rows are deleted first, such as 'id %% 100 = 7'")
    parser.add_argument("--folder", help="where the tables are made; they are deleted afterwards")
    parser.add_argument("--compact", nargs=2, metavar=("PATH", "METHOD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compact:
        _compact(*arguments.compact)
        return
    folder = Path(tempfile.mkdtemp(prefix="compact-memory-", dir=arguments.folder))
    try:
        print("| table | method | anonymous memory | Arrow's pool | CPU | time |\n|---|---|---|---|---|---|")
        for gigabytes in arguments.gigabytes:
            path = folder / "table.lance"
            for method in arguments.methods:
                write(path, gigabytes, arguments.version, _ROWS_PER_FILE)
                if arguments.deleted:
                    lo.delete(str(path), arguments.deleted)
                command = [sys.executable, "-m", "benchmarks.compact_memory", "--compact", str(path), method]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rows, peak, pool, busy, seconds = output.split()
                print(
                    f"| {gigabytes:g} GB, {int(rows):,} rows | {method} | {int(peak) / 1e6:,.0f} MB "
                    f"| {int(pool) / 1e6:,.0f} MB | {float(busy):.1f} s | {float(seconds):.1f} s |",
                    flush=True,
                )
                shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
