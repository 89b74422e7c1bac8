"""Vector indices asked by each side: the same index and questions, warm and cold, plainly and under filters.

Warm questions go to a dataset that is open and was asked others before; every question is a new one. Cold
ones open the dataset anew. Recall@10 against brute force stands beside the times, of both sides.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lance_ops as lo
from benchmarks.cases import write
from benchmarks.vector_builds import Build, Vectors, drawn, true_neighbours

GROUP = "questions"
HEADER = (
    "| questions | lance_ops, ms | pylance, ms | ratio | spread | recall@10 | pylance |",
    "|---|---:|---:|---:|---|---:|---:|",
)
WARM = 20
RECALLED = 100
NEIGHBOURS = 10
REFINE = 5
TENTHS = 10

INDICES = tuple(
    Build(kind, 200_000, 128, 128, 16 if kind.endswith("PQ") else None)
    for kind in ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")
)


@dataclass(frozen=True, slots=True)
class Manner:
    """A way to ask.

    Attributes:
        name: Last part of its name for `--only`.
        title: For the report.
        arguments: Of `nearest`, beside the question.
        filter: A condition that keeps one row in ten; None for all rows.
        cold: Whether the dataset is opened for each question.
    """

    name: str
    title: str
    arguments: dict[str, Any]
    filter: str | None = None
    cold: bool = False


MANNERS = (
    Manner("plain", "20 warm questions", {}),
    Manner("refined", f"the same with refine_factor={REFINE}", {"refine_factor": REFINE}),
    Manner("filtered", "the same where a column without an index keeps 1 in 10", {}, "bare = 3"),
    Manner("btree", "the same where one with a BTREE keeps 1 in 10", {}, "sorted = 3"),
    Manner("cold", "open and ask one", {}, cold=True),
    Manner(
        "cold-filtered",
        "open and ask one where a column without an index keeps 1 in 10",
        {},
        "bare = 3",
        True,
    ),
    Manner("cold-btree", "open and ask one where one with a BTREE keeps 1 in 10", {}, "sorted = 3", True),
)


def names_of(build: Build, manner: Manner) -> tuple[str, ...]:
    """What `--only` may say for it: the group, the kind, the manner, or it alone."""
    kind = f"{GROUP}-{build.kind.lower().replace('_', '-')}"
    return GROUP, kind, f"{GROUP}-{manner.name}", f"{kind}-{manner.name}"


def title_of(build: Build, manner: Manner) -> str:
    """First cell of its row."""
    return f"{build.title}: {manner.title}"


def titles() -> list[str]:
    """First cells of all rows, in their order."""
    return [title_of(build, manner) for build in INDICES for manner in MANNERS]


def measure_questions(only: list[str] | None, repeats: int, *, cpu: bool = False) -> Iterator[str]:
    """Build each index once, with pylance, and ask it.

    Args:
        only: See `names_of`; None for all.
        repeats: Pairs that count; one more warms up.
        cpu: Measure processor time of this process, for a busy machine, instead of wall time.

    Yields:
        A row of the table for each index and manner.
    """
    clock = time.process_time if cpu else time.perf_counter
    for build in INDICES:
        asked = [
            manner for manner in MANNERS if only is None or not set(only).isdisjoint(names_of(build, manner))
        ]
        if asked:
            with tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder:
                table = _Indexed(build, Path(folder) / "table.lance")
                for manner in asked:
                    yield table.measured(manner, repeats, clock)


class _Indexed:
    """A table with an index, and what is asked of it."""

    def __init__(self, build: Build, path: Path) -> None:
        self._build, self._path = build, str(path)
        self._vectors = drawn(build, build.rows, 3)
        # Rows that are kept lie in all parts of the table.
        self._labels = np.random.default_rng(9).integers(0, TENTHS, build.rows)
        column = pa.FixedSizeListArray.from_arrays(pa.array(self._vectors.ravel()), build.dimension)
        numbers = np.arange(build.rows)
        write(path, pa.table({"id": numbers, "bare": self._labels, "sorted": self._labels, "c": column}), 10)
        dataset = lance.dataset(self._path)
        dataset.create_index("c", build.kind, **build.parameters)
        dataset.create_scalar_index("sorted", "BTREE")

    def measured(self, manner: Manner, repeats: int, clock: Callable[[], float]) -> str:
        """The row of a manner."""
        each = 1 if manner.cold else WARM
        questions = drawn(self._build, (repeats + 1) * each, 77).reshape(repeats + 1, each, -1)
        seconds: dict[bool, list[float]] = {True: [], False: []}
        opened = {ours: self._open(ours) for ours in (True, False)}
        for turn, asked in enumerate(questions):
            for ours in (True, False) if turn % 2 else (False, True):
                gc.collect()
                began = clock()
                for question in asked:
                    dataset = self._open(ours) if manner.cold else opened[ours]
                    _ask(dataset, question, manner)
                if turn:
                    seconds[ours].append((clock() - began) / each)
        ratios = [theirs / mine for mine, theirs in zip(seconds[True], seconds[False], strict=True)]
        recalls = self._recalls(manner, opened)
        cells = [
            title_of(self._build, manner),
            *(f"{1000 * statistics.median(seconds[ours]):.2f}" for ours in (True, False)),
            f"**{statistics.median(ratios):.2f}x**",
            f"{min(ratios):.2f}-{max(ratios):.2f}",
            *(f"{recalls[ours]:.3f}" for ours in (True, False)),
        ]
        return f"| {' | '.join(cells)} |"

    def _open(self, ours: bool) -> Any:
        return lo.dataset(self._path) if ours else lance.dataset(self._path)

    def _recalls(self, manner: Manner, opened: dict[bool, Any]) -> dict[bool, float]:
        questions = drawn(self._build, RECALLED, 78)
        kept = np.flatnonzero(self._labels == 3) if manner.filter else np.arange(self._build.rows)
        truth = kept[true_neighbours(self._vectors[kept], questions)]
        return {ours: _recall(dataset, questions, truth, manner) for ours, dataset in opened.items()}


def _ask(dataset: Any, question: Vectors, manner: Manner) -> npt.NDArray[np.int64]:
    nearest = {"column": "c", "q": question, "k": NEIGHBOURS, **manner.arguments}
    found = dataset.to_table(
        columns=["id", "_distance"],
        nearest=nearest,
        filter=manner.filter,
        prefilter=manner.filter is not None,
    )
    return np.asarray(found["id"].to_numpy())


def _recall(dataset: Any, questions: Vectors, truth: npt.NDArray[np.int64], manner: Manner) -> float:
    found = [
        len(np.intersect1d(_ask(dataset, question, manner), expected)) / NEIGHBOURS
        for question, expected in zip(questions, truth, strict=True)
    ]
    return float(np.mean(found))
