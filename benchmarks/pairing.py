"""Paired timing: ours and the peer's take turns on equal inputs, so that noise of the machine hits both."""

import gc
import os
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that both can do.

    Attributes:
        name: Short name for `--only`.
        title: What is measured, for the report.
        prepare: Makes the dataset that both start from, at a path; cases with the same function share it.
        ours: The work with lance_ops, on a copy of the dataset.
        peer: The same work with pylance.
        reads_only: Both may work on one copy.
    """

    name: str
    title: str
    prepare: Callable[[Path], None]
    ours: Callable[[str], object]
    peer: Callable[[str], object]
    reads_only: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds of each run, in pairs."""

    case: Case
    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """How many times faster ours is, pair by pair."""
        return [theirs / mine for mine, theirs in zip(self.ours, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        """Median of the ratios."""
        return statistics.median(self.ratios)


class Sources:
    """The datasets that cases start from, each made once.

    Args:
        folder: An empty folder, which becomes full.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[Callable[[Path], None], Path] = {}

    def get(self, prepare: Callable[[Path], None]) -> Path:
        """The dataset that a function makes; nobody may change it."""
        if prepare not in self._made:
            path = self.folder / f"source-{len(self._made)}.lance"
            prepare(path)
            self._made[prepare] = path
        return self._made[prepare]


def measure(case: Case, sources: Sources, repeats: int, *, cpu: bool = False) -> Measurement:
    """Run a case.

    Args:
        case: What to run.
        sources: Where it gets its dataset.
        repeats: Pairs that count; one more warms caches up.
        cpu: Measure processor time of this process, for a busy machine, instead of wall time.
    """
    source = sources.get(case.prepare)
    ours: list[float] = []
    peer: list[float] = []
    for turn in range(repeats + 1):
        # Whoever is second finds warmer caches: take turns in that, too.
        order = ((case.ours, ours), (case.peer, peer))
        for work, times in order if turn % 2 else reversed(order):
            clock = time.process_time if cpu else time.perf_counter
            seconds = _timed(work, source, sources.folder / "copy.lance", case.reads_only, clock)
            if turn:
                times.append(seconds)
    return Measurement(case, tuple(ours), tuple(peer))


def _timed(
    work: Callable[[str], object], source: Path, copy: Path, reads_only: bool, clock: Callable[[], float]
) -> float:
    if not reads_only and source.exists():
        # Neither side changes a file in place, so links are as good as copies.
        shutil.copytree(source, copy, copy_function=os.link)
    gc.collect()
    started = clock()
    work(str(source if reads_only else copy))
    seconds = clock() - started
    shutil.rmtree(copy, ignore_errors=True)
    return seconds
