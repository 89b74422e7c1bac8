"""Column by column: size of the files, and speed of writing, reading and taking rows, against the peer.

Each side runs in a process of its own; both do the same job in turn, so that noise of the machine hits both.
"""

import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from benchmarks.column_kinds import ALL_VERSIONS, KINDS, Kind

TAKEN = 1_000

ROWS = (300_000, 3_000_000)
"""Rows of a narrow column; kinds with large values have fewer in proportion."""

GOALS = {"write": (1.2, 0.8), "read": (2.5, 1.3), "take": (1.0, 1.0)}
"""Median over the kinds and the least of them, as peer / ours, at each storage version."""
SIZE_GOAL = (1.0, 1.1)
"""Median over the kinds and the most of them, as ours / peer."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Seconds of both sides, in pairs."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times faster ours is: the median over the pairs."""
        return statistics.median(theirs / mine for mine, theirs in zip(self.ours, self.peer, strict=True))

    @property
    def text(self) -> str:
        """Ratio and our median."""
        return f"{self.ratio:.2f}x"


@dataclass(frozen=True, slots=True)
class ColumnResult:
    """One kind at one version.

    Attributes:
        kind: Name of the kind.
        version: Storage version.
        rows: Of the column.
        sizes: Bytes of our data file and of the peer's.
        write: Creating a dataset.
        read: Reading the peer's dataset, every byte of the result.
        take: Reading 1,000 random rows of it.
    """

    kind: str
    version: str
    rows: int
    sizes: tuple[int, int]
    write: Paired
    read: Paired
    take: Paired

    @property
    def size_ratio(self) -> float:
        """Our bytes over the peer's."""
        return self.sizes[0] / self.sizes[1]


class _Process:
    """One side."""

    def __init__(self, side: str, clock: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.column_worker", side, clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **job: Any) -> dict[str, Any]:
        """Have something done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that should {job['do']} ended")
        return dict(json.loads(line))

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def measure_columns(
    repeats: int,
    *,
    kinds: Sequence[str] | None = None,
    versions: Sequence[str] = ALL_VERSIONS,
    rows: Sequence[int] = ROWS,
    cpu: bool = False,
    report: Callable[[str], None] = print,
) -> list[ColumnResult]:
    """Measure.

    Args:
        repeats: Pairs that count; one more warms caches up.
        kinds: Names of some of the kinds, or all.
        versions: Storage versions.
        rows: Of a narrow column.
        cpu: Measure processor time of each side, for a busy machine, instead of wall time.
        report: Told about each result.
    """
    done = []
    clock = "cpu" if cpu else "wall"
    with (
        tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder,
        _Process("ours", clock) as ours,
        _Process("peer", clock) as peer,
    ):
        for kind, count in itertools.product(KINDS, rows):
            if kinds and kind.name not in kinds:
                continue
            values = Path(folder) / "values"
            table = kind.table(count)
            taken = min(TAKEN, table.num_rows // 2)
            picked = np.sort(np.random.default_rng(5).choice(table.num_rows, taken, replace=False)).tolist()
            with pa.ipc.new_stream(str(values), table.schema) as stream:
                stream.write_table(table)
            del table
            for side in (ours, peer):
                side.ask(do="load", values=str(values))
            for version in versions:
                if version in kind.versions:
                    done.append(_measure(kind, version, count, picked, (ours, peer), Path(folder), repeats))
                    report(row(done[-1]))
    return done


def _measure(
    kind: Kind,
    version: str,
    rows: int,
    picked: list[int],
    sides: tuple[_Process, _Process],
    folder: Path,
    repeats: int,
) -> ColumnResult:
    dataset, copy = folder / "dataset", folder / "copy"
    sides[1].ask(do="write", version=version, folder=str(dataset))
    sizes = [0, 0]

    def write(number: int) -> float:
        answer = sides[number].ask(do="write", version=version, folder=str(copy))
        shutil.rmtree(copy)
        sizes[number] = answer["bytes"]
        return float(answer["seconds"])

    def read(number: int) -> float:
        return float(sides[number].ask(do="read", folder=str(dataset))["seconds"])

    def take(number: int) -> float:
        return float(sides[number].ask(do="take", folder=str(dataset), rows=picked)["seconds"])

    timings = [_pair(work, repeats) for work in (write, read, take)]
    shutil.rmtree(dataset)
    return ColumnResult(kind.name, version, rows, (sizes[0], sizes[1]), *timings)


def _pair(work: Callable[[int], float], repeats: int) -> Paired:
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        # Whoever is second finds warmer caches: take turns in that, too.
        for number in (0, 1) if turn % 2 else (1, 0):
            seconds = work(number)
            if turn:
                times[number].append(seconds)
    return Paired(tuple(times[0]), tuple(times[1]))


HEADER = (
    "| column | version | rows | bytes | write, ms | write | read, ms | read | take, ms | take |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def row(result: ColumnResult) -> str:
    """One line of the table: our milliseconds, and how many times faster that is."""
    cells = [result.kind, result.version, f"{result.rows:,}", f"{result.size_ratio:.3f}"]
    for timing in (result.write, result.read, result.take):
        cells += [f"{1000 * statistics.median(timing.ours):.1f}", f"**{timing.ratio:.2f}x**"]
    return "| " + " | ".join(cells) + " |"


def summary(results: Sequence[ColumnResult]) -> str:
    """Median and worst of each version and number of rows, beside the goals."""
    lines = [
        "| version | rows | bytes: median, most | write: median, least | read: the same | take: the same |",
        "|---|---:|---|---|---|---|",
    ]
    for version, rows in sorted({(result.version, result.rows) for result in results}):
        here = [result for result in results if (result.version, result.rows) == (version, rows)]
        sizes = [result.size_ratio for result in here]
        cells = [version, f"{rows:,}", _judged(statistics.median(sizes), max(sizes), SIZE_GOAL, below=True)]
        for name, goal in GOALS.items():
            ratios = [getattr(result, name).ratio for result in here]
            cells.append(_judged(statistics.median(ratios), min(ratios), goal))
        lines.append("| " + " | ".join(cells) + " |")
    goals = "; ".join(f"{name} at least {median} and {least}" for name, (median, least) in GOALS.items())
    lines.append(f"\nGoals: bytes at most {SIZE_GOAL[0]} and {SIZE_GOAL[1]}; {goals}.")
    return "\n".join(lines)


def _judged(median: float, worst: float, goal: tuple[float, float], *, below: bool = False) -> str:
    # The table shows three digits: a few bytes of the footer do not count.
    median, worst = round(median, 3), round(worst, 3)
    met = median <= goal[0] and worst <= goal[1] if below else median >= goal[0] and worst >= goal[1]
    return f"{median:.2f}, {worst:.2f}{'' if met else ' (missed)'}"
