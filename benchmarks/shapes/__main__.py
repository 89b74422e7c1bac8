"""`python -m benchmarks.shapes`: reads of shapes x operations, in pairs with pylance, as a table of ratios.

Numbers above 1 mean that lance_ops is faster. Each run opens the dataset anew, unless `--held`.
"""

import argparse
import gc
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import lance

import lance_ops as lo
from benchmarks.report import machine, today
from benchmarks.shapes.operations import OPERATIONS, Operation
from benchmarks.shapes.tables import SHAPES, Shape

_VERSION = "2.2"
_DELETED = 0.02
_ENOUGH_SECONDS = 4.0
_LIBRARIES: tuple[ModuleType, ModuleType] = (lo, lance)
_FRESH = """
import sys
import {library} as library
from benchmarks.shapes.operations import OPERATIONS
dataset = library.dataset(sys.argv[1])
rows = int(sys.argv[2])
(operation,) = [one for one in OPERATIONS if one.name == sys.argv[3]]
operation.run(dataset, rows)
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One operation on one table.

    Attributes:
        operation: Name of the operation.
        ours: Seconds of each run.
        peer: Seconds of each run of pylance, in pairs with ours.
    """

    operation: str
    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median over the pairs of pylance's time divided by ours."""
        return statistics.median(theirs / mine for mine, theirs in zip(self.ours, self.peer, strict=True))


@dataclass(frozen=True, slots=True)
class _Setting:
    pairs: int
    held: bool
    fresh: bool


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument("--pairs", type=int, default=7, help="pairs of runs that count (default 7)")
    parser.add_argument("--shapes", nargs="*", metavar="TEXT", help="only shapes whose names contain one")
    parser.add_argument("--operations", nargs="*", metavar="TEXT", help="only operations likewise")
    parser.add_argument("--whole", action="store_true", help="only tables without deleted rows")
    parser.add_argument("--deleted", action="store_true", help="only tables with 2 %% of the rows deleted")
    parser.add_argument("--stable-row-ids", action="store_true", help="tables with stable row ids")
    parser.add_argument("--version", default=_VERSION, help=f"storage version (default {_VERSION})")
    parser.add_argument("--held", action="store_true", help="each library keeps its dataset open")
    parser.add_argument("--fresh", action="store_true", help="each run is a whole process")
    parser.add_argument("--keep", type=Path, help="folder for the tables, which are used again if there")
    arguments = parser.parse_args()
    setting = _Setting(arguments.pairs, arguments.held, arguments.fresh)
    operations = [one for one in OPERATIONS if _is_named(one.name, arguments.operations)]
    kinds = [0.0] * (not arguments.deleted) + [_DELETED] * (not arguments.whole)

    print(f"{today()}, {machine()}, {setting.pairs} pairs, {_how(setting)}, load {os.getloadavg()[0]:.1f}\n")
    print(f"| shape | {' | '.join(one.name for one in operations)} | median |")
    print(f"|---|{'---:|' * (len(operations) + 1)}", flush=True)
    ratios: dict[str, float] = {}
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="lance-ops-shapes-"))
    try:
        for shape in SHAPES:
            for deleted in kinds:
                if not _is_named(shape.name, arguments.shapes):
                    continue
                title = f"{shape.name}, {deleted:.0%} deleted" if deleted else shape.name
                path = folder / f"{title}, {arguments.version}, {arguments.stable_row_ids}.lance"
                if not path.exists():
                    shape.write(
                        path,
                        version=arguments.version,
                        deleted=deleted,
                        stable_row_ids=arguments.stable_row_ids,
                    )
                cells = measure(path, shape, operations, setting)
                ratios |= {f"{title}: {cell.operation}": cell.ratio for cell in cells}
                own = [cell.ratio for cell in cells]
                print(
                    f"| {title} | {' | '.join(map(_show, own))} | {statistics.median(own):.2f} |", flush=True
                )
                if not arguments.keep:
                    shutil.rmtree(path)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")
    print("\n".join(_summary(ratios)))


def measure(path: Path, shape: Shape, operations: Sequence[Operation], setting: _Setting) -> list[Cell]:
    """Measure operations on one table.

    Args:
        path: The table.
        shape: Its shape.
        operations: What to run.
        setting: How.

    Raises:
        AssertionError: The two libraries read different numbers of rows.
    """
    held = [library.dataset(str(path)) for library in _LIBRARIES] if setting.held else None
    num_rows = int(lance.dataset(str(path)).count_rows())
    cells = []
    for operation in operations:
        times: tuple[list[float], list[float]] = ([], [])
        started = time.perf_counter()
        for turn in range(setting.pairs + 1):
            rows = [0, 0]
            # The second finds warmer caches: they take turns in that, too.
            for side in (0, 1) if turn % 2 else (1, 0):
                seconds, rows[side] = _timed(side, path, num_rows, operation, held, setting)
                if turn:
                    times[side].append(seconds)
            assert rows[0] == rows[1], f"{shape.name}, {operation.name}: {rows[0]} and {rows[1]} rows"
            if turn >= 3 and time.perf_counter() - started > _ENOUGH_SECONDS:
                break
        cells.append(Cell(operation.name, tuple(times[0]), tuple(times[1])))
    return cells


def _timed(
    side: int, path: Path, num_rows: int, operation: Operation, held: list[Any] | None, setting: _Setting
) -> tuple[float, int]:
    library = _LIBRARIES[side]
    if setting.fresh:
        program = _FRESH.format(library=library.__name__)
        started = time.perf_counter()
        command = [sys.executable, "-c", program, str(path), str(num_rows), operation.name]
        subprocess.run(command, check=True)
        return time.perf_counter() - started, 0
    gc.collect()
    started = time.perf_counter()
    rows = operation.run(held[side] if held else library.dataset(str(path)), num_rows)
    return time.perf_counter() - started, rows


def _summary(ratios: dict[str, float]) -> list[str]:
    if not ratios:
        return ["nothing measured"]
    fast = sum(ratio >= 1 for ratio in ratios.values())
    worst = sorted(ratios.items(), key=lambda pair: pair[1])[:20]
    return [
        f"{fast} of {len(ratios)} at or above 1.0, median {statistics.median(ratios.values()):.2f}",
        "worst: " + "; ".join(f"{name} {ratio:.2f}" for name, ratio in worst),
    ]


def _show(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"


def _how(setting: _Setting) -> str:
    return "whole processes" if setting.fresh else "dataset held" if setting.held else "warm"


def _is_named(name: str, parts: Sequence[str] | None) -> bool:
    return not parts or any(part in name for part in parts)


if __name__ == "__main__":
    main()
