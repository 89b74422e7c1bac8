"""Concurrent appenders: processes append to one dataset at once, counted from when all of them are ready."""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_ops as lo

NAME = "appenders"
PROCESSES, APPENDS = 8, 10
TITLE = f"{PROCESSES} processes append 100 rows {APPENDS} times each at once"
_ROWS = pa.table({"id": range(100), "s": [f"name-{number}" for number in range(100)]})


def _ours(uri: str) -> None:
    lo.append(uri, _ROWS)


def _peer(uri: str) -> None:
    lance.write_dataset(_ROWS, uri, mode="append")


def _work(append: Callable[[str], None], warm: str, uri: str, ready: Barrier, out: Any) -> None:
    append(warm)
    ready.wait()
    failed, started, cpu = 0, time.monotonic(), time.process_time()
    for _ in range(APPENDS):
        try:
            append(uri)
        except Exception:  # noqa: BLE001 - counted
            failed += 1
    out.put((started, time.monotonic(), time.process_time() - cpu, failed))


def _run(append: Callable[[str], None], folder: Path, number: int) -> tuple[float, float, int]:
    """Seconds from the first to the last append, processor time of all, and appends that failed."""
    uri = str(folder / f"{append.__name__}-{number}")
    lo.write_dataset(_ROWS, uri)
    context = multiprocessing.get_context("spawn")
    ready, out = context.Barrier(PROCESSES), context.Queue()
    running = []
    for process in range(PROCESSES):
        warm = str(folder / f"warm-{append.__name__}-{number}-{process}")
        lo.write_dataset(_ROWS, warm)
        running.append(context.Process(target=_work, args=(append, warm, uri, ready, out)))
    for item in running:
        item.start()
    results = [out.get(timeout=300) for _ in running]
    for item in running:
        item.join()
    failed = sum(result[3] for result in results)
    assert lo.dataset(uri).count_rows() == 100 * (1 + PROCESSES * APPENDS - failed)
    seconds = max(result[1] for result in results) - min(result[0] for result in results)
    return seconds, sum(result[2] for result in results), failed


def measure_appenders(repeats: int) -> str:
    """Run both in turn.

    Returns:
        A row of the table of results; its spread tells processor time and appends that failed, too.
    """
    ours, peer = [], []
    with tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder:
        for number in range(repeats):
            ours.append(_run(_ours, Path(folder), number))
            peer.append(_run(_peer, Path(folder), number))
    ratios = sorted(theirs[0] / mine[0] for mine, theirs in zip(ours, peer, strict=True))
    walls = [statistics.median(item[0] for item in side) for side in (ours, peer)]
    cpus = [statistics.median(item[1] for item in side) for side in (ours, peer)]
    failed = [sum(item[2] for item in side) for side in (ours, peer)]
    told = f"processor time {cpus[0]:.2f} s and {cpus[1]:.2f} s, failed {failed[0]} and {failed[1]}"
    return (
        f"| {TITLE} | {walls[0]:.3f} | {walls[1]:.3f} "
        f"| **{statistics.median(ratios):.2f}x** | {ratios[0]:.2f}-{ratios[-1]:.2f}; {told} |"
    )
