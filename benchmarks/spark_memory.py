"""Memory of Spark's executors while they read and compact a large table, on a cluster of two workers.

    python -m benchmarks.spark_memory --gigabytes 5

Each executor has one core and a heap of 512 MB. Told is the most that one of them had at any moment: its JVM,
the daemon and the Python workers below it together. Anonymous memory is what cannot be had back; all that is
resident counts pages of mapped files too, and those that processes share once for each of them. A hundredth
of the rows is deleted before, so that a compaction is no copy of files.
"""

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

import lance_ops as lo
from benchmarks.scan_memory import write
from benchmarks.spark_compact import digest_of, linked
from lance_ops.spark import SparkRunner, build_session, read_dataset
from tests.support.spark_cluster import StandaloneCluster

_ROWS_PER_FILE = 20_000
_DELETED = "id % 100 = 7"
_HEAP = "512m"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Use:
    """Bytes of one executor at one moment.

    Attributes:
        jvm: Anonymous memory of its JVM.
        python: Anonymous memory of its Python processes.
        resident: Of all of them, pages of files included.
    """

    jvm: int = 0
    python: int = 0
    resident: int = 0

    @property
    def anonymous(self) -> int:
        """Of all processes together."""
        return self.jvm + self.python


class Watch(threading.Thread):
    """Looks at the executors below some processes again and again.

    Attributes:
        most: The moment of the most anonymous memory, and that of the most resident memory.
    """

    def __init__(self, workers: tuple[int, ...]) -> None:
        super().__init__(daemon=True)
        self._workers, self._over = workers, threading.Event()
        self.most = [Use(), Use()]

    def run(self) -> None:
        """Look until `finish`."""
        while not self._over.wait(_SECONDS):
            for use in _uses(self._workers):
                self.most[0] = max(self.most[0], use, key=lambda one: one.anonymous)
                self.most[1] = max(self.most[1], use, key=lambda one: one.resident)

    def finish(self) -> list[Use]:
        """End, and say what was found."""
        self._over.set()
        self.join()
        return self.most


def _uses(workers: tuple[int, ...]) -> list[Use]:
    found = []
    for worker in workers:
        try:
            below = psutil.Process(worker).children(recursive=True)
            jvms = [process for process in below if _EXECUTOR in " ".join(process.cmdline())]
            for jvm in jvms:
                own, pythons = _memory(jvm), [_memory(one) for one in jvm.children(recursive=True)]
                found.append(
                    Use(
                        own[0],
                        sum(one[0] for one in pythons),
                        own[1] + sum(one[1] for one in pythons),
                    )
                )
        except psutil.Error:
            continue
    return found


def _memory(process: psutil.Process) -> tuple[int, int]:
    """Anonymous bytes, those that processes share divided among them; and all that is resident."""
    kilobytes = {"Pss_Anon": 0, "Rss": 0}
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, _, value = line.partition(":")
            if name in kilobytes:
                kilobytes[name] = int(value.split()[0])
    except OSError:
        return 0, 0
    return kilobytes["Pss_Anon"] << 10, kilobytes["Rss"] << 10


def _read(frame: Any, rows: int) -> None:
    """Take all columns to the JVM."""
    sums = [F.count("*"), F.sum("id"), F.sum(F.length("text")), F.sum(F.element_at("vector", 1))]
    (found,) = frame.agg(*sums).collect()
    assert found[0] == rows, found


def _compact(path: Path, spark: Any, method: Any, expected: str) -> None:
    result = lo.compact(
        str(path), runner=SparkRunner(spark), method=method, materialize_deletions_threshold=0.0
    )
    assert result.fragments_removed, result
    assert digest_of(lo.dataset(str(path)).to_batches()) == expected


def main() -> None:
    """Make the table, do each work in a session of its own, and print what the executors had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--heap", default=_HEAP, help="of an executor's JVM, in Spark's notation")
    parser.add_argument("--only", nargs="+", help="names of the works")
    parser.add_argument("--folder", help="where the table is made; it is deleted afterwards")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spark-memory-", dir=arguments.folder))
    try:
        source = folder / "source.lance"
        write(source, arguments.gigabytes, "2.2", _ROWS_PER_FILE)
        lo.delete(str(source), _DELETED)
        rows = lo.dataset(str(source)).count_rows()
        expected = digest_of(lo.dataset(str(source)).to_batches())
        works: dict[str, Callable[[Any], None]] = {
            "read_dataset": lambda spark: _read(read_dataset(spark, str(source)), rows),
            "format lance": lambda spark: _read(spark.read.format("lance").load(str(source)), rows),
            **{
                f"compact, method {method}": lambda spark, method=method: _compact(
                    linked(source, folder / method), spark, method, expected
                )
                for method in ("auto", "rewrite")
            },
        }
        print("| work | time | anonymous at most (JVM, Python) | resident at most |\n|---|---|---|---|")
        with StandaloneCluster(workers=2, memory="2g") as cluster:
            for name, work in works.items():
                if arguments.only and name not in arguments.only:
                    continue
                spark = build_session(
                    "memory", cluster.master_url, config={"spark.executor.memory": arguments.heap}
                )
                watch = Watch(cluster.worker_pids)
                watch.start()
                started = time.perf_counter()
                work(spark)
                seconds = time.perf_counter() - started
                anonymous, resident = watch.finish()
                spark.stop()
                print(
                    f"| {name} | {seconds:.0f} s | {anonymous.anonymous / 1e6:,.0f} MB "
                    f"({anonymous.jvm / 1e6:,.0f}, {anonymous.python / 1e6:,.0f}) "
                    f"| {resident.resident / 1e6:,.0f} MB |",
                    flush=True,
                )
                for method in ("auto", "rewrite"):
                    shutil.rmtree(folder / method, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
