"""Vector indices built by each side from equal rows: seconds, bytes, and recall at the same parameters.

A faster build of a worse index is no figure, so recall@10 against brute force stands beside each time: every
index is asked the same questions by the library that built it, with as many partitions looked into, plainly
and with `refine_factor`.

Both sides have built something small before, so that no row has what the first build of a process costs:
imports, and compiled loops that are loaded (or compiled, where nobody did before). A row of its own has it.
"""

import gc
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lance_ops as lo
from benchmarks.cases import write

GROUP = "vectors"
HEADER = (
    "| build | lance_ops, s | pylance, s | ratio | bytes | recall@10, refined | pylance | paired apart |",
    "|---|---:|---:|---:|---:|---|---|---|",
)
CENTERS = 200
QUESTIONS = 400
NEIGHBOURS = 10
PROBES = 20
REFINE = 5

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Build:
    """One kind on one table.

    Attributes:
        kind: The index.
        rows: Vectors.
        dimension: Of each.
        partitions: Asked for on both sides.
        sub_vectors: Of a product quantizer; None for kinds without.
    """

    kind: str
    rows: int
    dimension: int
    partitions: int
    sub_vectors: int | None = None

    @property
    def title(self) -> str:
        """First cell of its row."""
        parts = "" if self.sub_vectors is None else f", {self.sub_vectors} parts"
        return f"{self.kind}, {self.rows:,} x {self.dimension}{parts}"

    @property
    def name(self) -> str:
        """For `--only`."""
        return f"{GROUP}-{self.kind.lower().replace('_', '-')}-{self.dimension}"

    @property
    def parameters(self) -> dict[str, Any]:
        """What both are given."""
        parts = {} if self.sub_vectors is None else {"num_sub_vectors": self.sub_vectors}
        return {"metric": "l2", "num_partitions": self.partitions, **parts}


BUILDS = (
    Build("IVF_FLAT", 200_000, 128, 128),
    Build("IVF_SQ", 200_000, 128, 128),
    Build("IVF_PQ", 200_000, 128, 128, 16),
    Build("IVF_RQ", 200_000, 128, 128),
    Build("IVF_HNSW_FLAT", 200_000, 128, 128),
    Build("IVF_HNSW_SQ", 200_000, 128, 128),
    Build("IVF_HNSW_PQ", 200_000, 128, 128, 16),
    Build("IVF_FLAT", 50_000, 768, 64),
    Build("IVF_SQ", 50_000, 768, 64),
    Build("IVF_PQ", 50_000, 768, 64, 96),
    Build("IVF_RQ", 50_000, 768, 64),
    Build("IVF_HNSW_FLAT", 50_000, 768, 64),
    Build("IVF_HNSW_SQ", 50_000, 768, 64),
    Build("IVF_HNSW_PQ", 50_000, 768, 64, 96),
)


FIRST = Build("IVF_FLAT", 200_000, 128, 128)
FIRST_NAME = f"{GROUP}-first"
FIRST_TITLE = f"{FIRST.title}, first of its process"
WARMING_ROWS = 2_000


def measure_vectors(only: list[str] | None, repeats: int, *, cpu: bool = False) -> Iterator[str]:
    """Build, ask, compare.

    Args:
        only: Names of builds, or the group, or `vectors-first`; None for all.
        repeats: Pairs of builds.
        cpu: Measure processor time of this process, for a busy machine, instead of wall time.

    Yields:
        A row of the table for each build.
    """
    if only is None or GROUP in only or FIRST_NAME in only:
        yield _first(repeats, cpu=cpu)
    warm = False
    for build in BUILDS:
        if only is None or GROUP in only or build.name in only:
            with tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder:
                if not warm:
                    _warm_up(Path(folder))
                    warm = True
                yield _measured(build, Path(folder), repeats, time.process_time if cpu else time.perf_counter)


def _measured(build: Build, folder: Path, repeats: int, clock: Callable[[], float]) -> str:
    vectors = drawn(build, build.rows, 3)
    questions = drawn(build, QUESTIONS, 77)
    source = folder / "source"
    _write(source, vectors)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(repeats):
        for ours in (True, False) if turn % 2 else (False, True):
            path = folder / ("ours" if ours else "peer")
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(source, path)
            gc.collect()
            began = clock()
            _build(path, build, ours=ours)
            seconds[ours].append(clock() - began)
    truth = true_neighbours(vectors, questions)
    recalls = {
        (ours, refined): _recalls(folder / ("ours" if ours else "peer"), questions, truth, ours, refined)
        for ours in (True, False)
        for refined in (False, True)
    }
    sizes = [_index_bytes(folder / side) for side in ("ours", "peer")]
    ratio = statistics.median(
        theirs / mine for mine, theirs in zip(seconds[True], seconds[False], strict=True)
    )
    cells = [
        build.title,
        f"{statistics.median(seconds[True]):.2f}",
        f"{statistics.median(seconds[False]):.2f}",
        f"**{ratio:.2f}x**",
        f"{sizes[0] / sizes[1]:.3f}",
        *(f"{recalls[ours, False].mean():.3f}, {recalls[ours, True].mean():.3f}" for ours in (True, False)),
        ", ".join(_difference(recalls[True, refined], recalls[False, refined]) for refined in (False, True)),
    ]
    return f"| {' | '.join(cells)} |"


def _warm_up(folder: Path) -> None:
    """Build an index of each kind on few vectors, on both sides."""
    for build in {build.kind: build for build in BUILDS}.values():
        small = replace(build, rows=WARMING_ROWS, partitions=2)
        for ours in (True, False):
            path = folder / f"warm-{ours}"
            _write(path, drawn(small, small.rows, 3))
            _build(path, small, ours=ours)
            shutil.rmtree(path)


def _first(repeats: int, *, cpu: bool) -> str:
    """The row of a build in processes that did nothing before."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder:
        source = Path(folder) / "source"
        _write(source, drawn(FIRST, FIRST.rows, 3))
        for turn in range(repeats):
            for ours in (True, False) if turn % 2 else (False, True):
                path = Path(folder) / "copy"
                shutil.copytree(source, path)
                command = [sys.executable, "-m", __name__, str(path), "ours" if ours else "peer"]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds[ours].append(float(done.stdout.split()[cpu]))
                shutil.rmtree(path)
    ratio = statistics.median(
        theirs / mine for mine, theirs in zip(seconds[True], seconds[False], strict=True)
    )
    times = " | ".join(f"{statistics.median(seconds[ours]):.2f}" for ours in (True, False))
    return f"| {FIRST_TITLE} | {times} | **{ratio:.2f}x** | | | | |"


def _write(path: Path, vectors: Vectors) -> None:
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    write(path, pa.table({"id": np.arange(len(vectors)), "c": column}), 10)


def drawn(build: Build, rows: int, seed: int) -> Vectors:
    """Around centers that do not depend on the seed, so that questions lie among the rows."""
    draw = np.random.default_rng(seed)
    centers = np.random.default_rng(1).normal(size=(CENTERS, build.dimension))
    values = centers[draw.integers(0, CENTERS, rows)] + draw.normal(size=(rows, build.dimension)) * 0.6
    return values.astype(np.float32)


def _build(path: Path, build: Build, *, ours: bool) -> None:
    if ours:
        lo.create_index(str(path), "c", build.kind, parameters=build.parameters)
    else:
        lance.dataset(str(path)).create_index("c", build.kind, **build.parameters)


def true_neighbours(vectors: Vectors, questions: Vectors) -> npt.NDArray[np.int64]:
    """The true neighbours, nearest first: int64 of shape (questions, `NEIGHBOURS`)."""
    lengths = (vectors**2).sum(axis=1)
    distances = lengths[None, :] - 2 * questions @ vectors.T
    return np.argsort(distances, axis=1)[:, :NEIGHBOURS]


def _recalls(
    path: Path, questions: Vectors, truth: npt.NDArray[np.int64], ours: bool, refined: bool
) -> npt.NDArray[np.float64]:
    """Recall of each question."""
    dataset = lo.dataset(str(path)) if ours else lance.dataset(str(path))
    found = []
    for question, expected in zip(questions, truth, strict=True):
        nearest = {"column": "c", "q": question, "k": NEIGHBOURS, "nprobes": PROBES}
        if refined:
            nearest["refine_factor"] = REFINE
        answer = dataset.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_numpy()
        found.append(len(np.intersect1d(answer, expected)) / NEIGHBOURS)
    return np.array(found)


def _difference(mine: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> str:
    """Mean difference of the same questions with its standard error."""
    each = mine - theirs
    return f"{each.mean():+.3f} ± {each.std(ddof=1) / len(each) ** 0.5:.3f}"


def _index_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "_indices").rglob("*") if file.is_file())


if __name__ == "__main__":
    # One build, for `_first`: seconds by the clock, and of the processor.
    began, worked = time.perf_counter(), time.process_time()
    _build(Path(sys.argv[1]), FIRST, ours=sys.argv[2] == "ours")
    print(time.perf_counter() - began, time.process_time() - worked)
