"""Compaction of a large table on Spark: on local threads, and on a cluster that loses a worker half-way.

    python -m benchmarks.spark_compact --gigabytes 10

The rows are compared by a digest of all their values in their order, read before by us and after by us and
by pylance. On the cluster the first task after half of them hangs until its worker is killed; the table tells
how many groups were done twice, and how many files no version uses afterwards.
"""

import argparse
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

import lance_ops as lo
from benchmarks.scan_memory import write
from lance_ops.spark import SparkRunner, build_session
from tests.support.spark_cluster import StandaloneCluster

_ROWS_PER_FILE = 20_000
_DELETED = "id % 100 = 7"
_CHOICES: dict[str, Any] = {
    "target_rows_per_fragment": 60_000,
    "materialize_deletions_threshold": 0.0,
    "commit_every": 8,
    "job_key": "night",
}


class NotingRunner(SparkRunner):
    """Notes each group that was done; the first one after so many says so, and hangs until it is killed.

    Args:
        spark: The session.
        folder: Where it is noted.
        fatal_after: None: no task dies.
    """

    def __init__(self, spark: Any, folder: Path, fatal_after: int | None = None) -> None:
        super().__init__(spark)
        self._folder, self._fatal_after = str(folder), fatal_after

    def map(self, function: Any, tasks: Any, *, on_done: Any = None) -> Any:
        """See `Runner.map`."""
        folder, fatal_after = self._folder, self._fatal_after

        def run(task: Any) -> Any:
            from lance_ops.maintenance.compact import recorded

            def rewrite(group: Any) -> Any:
                result = recorded.really(group)  # type: ignore[attr-defined]
                log, victim = Path(folder) / "done", Path(folder) / "victim"
                with log.open("a") as file:
                    file.write(f"{group.group.fragment_ids}\n")
                if fatal_after is None or len(log.read_text().splitlines()) <= fatal_after:
                    return result
                try:
                    with victim.open("x") as file:
                        file.write(str(os.getpid()))
                except FileExistsError:
                    return result
                time.sleep(600)
                return result

            if not hasattr(recorded, "really"):
                recorded.really = recorded.rewrite_group  # type: ignore[attr-defined]
                recorded.rewrite_group = rewrite
            return function(task)

        return super().map(run, tasks, on_done=on_done)


def digest_of(batches: Iterable[pa.RecordBatch]) -> str:
    """Stands for all values in their order, however they are cut into batches; without nulls."""
    parts: dict[str, Any] = {}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            digest = parts.setdefault(name, hashlib.blake2b())
            if pa.types.is_fixed_size_list(column.type):
                digest.update(column.flatten().to_numpy(zero_copy_only=False).tobytes())
            elif pa.types.is_string(column.type):
                lengths = parts.setdefault(f"{name}.lengths", hashlib.blake2b())
                lengths.update(pc.binary_length(column).to_numpy(zero_copy_only=False).tobytes())
                digest.update(_bytes_of(column))
            else:
                digest.update(column.to_numpy(zero_copy_only=False).tobytes())
    return " ".join(f"{name}={parts[name].hexdigest()[:12]}" for name in sorted(parts))


def _bytes_of(texts: pa.StringArray) -> memoryview:
    """Those of all texts, one after the other."""
    _, offsets, data = texts.buffers()
    if data is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int32)[texts.offset :][[0, len(texts)]]
    return memoryview(data)[ends[0] : ends[1]]


def _unused(path: Path) -> int:
    used = {
        file.path
        for version in lo.dataset(str(path)).versions()
        for fragment in lo.dataset(str(path), version.version).fragments
        for file in fragment.files
    }
    left = [item for item in (path / "_lance_ops" / "jobs").rglob("*") if item.is_file()]
    return len([item for item in (path / "data").iterdir() if item.name not in used]) + len(left)


def _kill_the_victims_worker(cluster: StandaloneCluster, folder: Path) -> None:
    victim = folder / "victim"
    while not (victim.exists() and victim.read_text()):
        time.sleep(0.1)
    above = {parent.pid for parent in psutil.Process(int(victim.read_text())).parents()}
    (number,) = [number for number, pid in enumerate(cluster.worker_pids) if pid in above]
    cluster.kill_worker(number)


def _compact(path: Path, spark: Any, folder: Path, expected: str, fatal_after: int | None, name: str) -> int:
    started = time.perf_counter()
    result = lo.compact(str(path), runner=NotingRunner(spark, folder, fatal_after), **_CHOICES)
    seconds = time.perf_counter() - started
    assert result.complete, result
    done = (folder / "done").read_text().splitlines()
    head = lo.dataset(str(path))
    for reader, batches in (
        ("lance_ops", head.to_batches()),
        ("pylance", lance.dataset(str(path)).to_batches()),
    ):
        assert digest_of(batches) == expected, f"{name}: {reader} reads other rows"
    assert lo.fsck(str(path)).ok
    print(
        f"| {name} | {result.bytes_removed / 1e9:.1f} GB | {result.groups} ({result.groups_copied}) "
        f"| {result.fragments_removed:,} -> {result.fragments_added} | {result.commits} | {seconds:.0f} s "
        f"| {len(done) - len(set(done))} | {_unused(path)} |",
        flush=True,
    )
    return int(result.groups)


def linked(source: Path, folder: Path) -> Path:
    """The same dataset in a folder of its own; no file of it is ever changed in place."""
    folder.mkdir()
    shutil.copytree(source, folder / "t.lance", copy_function=os.link)
    return folder / "t.lance"


def main() -> None:
    """Make the table, compact it twice, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--folder", help="where the table is made; it is deleted afterwards")
    parser.add_argument("--master", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spark-compact-", dir=arguments.folder))
    try:
        source = folder / "source.lance"
        write(source, arguments.gigabytes, "2.2", _ROWS_PER_FILE)
        lo.delete(str(source), _DELETED)
        expected = digest_of(lo.dataset(str(source)).to_batches())
        print("| on | read | groups (copied) | fragments | commits | time | done twice | files left |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        spark = build_session("bench", "local[2]")
        own = linked(source, folder / "threads")
        groups = _compact(own, spark, own.parent, expected, None, "`local[2]`")
        spark.stop()
        # What was made lies on the disk once at a time.
        shutil.rmtree(own.parent)
        with StandaloneCluster(workers=2, memory="2g") as cluster:
            spark = build_session("bench", cluster.master_url)
            own = linked(source, folder / "cluster")
            killer = threading.Thread(
                target=_kill_the_victims_worker, args=(cluster, own.parent), daemon=True
            )
            killer.start()
            _compact(own, spark, own.parent, expected, groups // 2, "two workers, one killed half-way")
            killer.join(10)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
