"""The cases of Spark: datasets beside Spark's own Parquet, in one session, in turn.

Told are seconds by the clock and of the processors, the latter of everything below this process: JVM, daemons
and workers. Where a machine is busy with other things, only these say something.

Cases that begin with "floor" are those of `spark_floor`: ready batches and a sink that keeps nothing, in
place of a dataset. No source or sink in Python can take less.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lance_ops as lo
from benchmarks.spark_first import everything, processor_seconds
from benchmarks.spark_floor import make_ready, ready_frame, register_floor
from lance_ops.spark import build_session, read_dataset

GROUP = "spark"
ROWS = 8_000_000
FILES = 8
HEADER = [
    "| case | lance_ops, s | Parquet, s | by the clock | processor, lance_ops / Parquet, s | by processor |",
    "|---|---:|---:|---:|---|---:|",
]

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Cost:
    """One run: seconds by the clock and of the processors."""

    wall: float
    processor: float


@dataclass(frozen=True, slots=True)
class SparkMeasurement:
    """All runs of a case, in pairs."""

    title: str
    ours: tuple[Cost, ...]
    parquet: tuple[Cost, ...]

    def row(self) -> str:
        """The row of the table."""
        wall = [statistics.median(run.wall for run in runs) for runs in (self.ours, self.parquet)]
        busy = [statistics.median(run.processor for run in runs) for runs in (self.ours, self.parquet)]
        return (
            f"| {self.title} | {wall[0]:.2f} | {wall[1]:.2f} | **{_ratio('wall', self):.2f}x** "
            f"| {busy[0]:.2f} / {busy[1]:.2f} | **{_ratio('processor', self):.2f}x** |"
        )


def _ratio(kind: str, result: SparkMeasurement) -> float:
    """How many times less ours takes: the median, pair by pair."""
    pairs = zip(result.ours, result.parquet, strict=True)
    return statistics.median(getattr(theirs, kind) / max(1e-9, getattr(mine, kind)) for mine, theirs in pairs)


def measure_all(repeats: int, rows: int = ROWS) -> Iterator[SparkMeasurement]:
    """Measure every case: first queries of sessions of their own, and then all others in one session."""
    with tempfile.TemporaryDirectory(prefix="lance-ops-spark-bench-") as folder:
        place = Path(folder)
        _make(place, rows)
        for door in ("read_dataset", "lance"):
            title = f"first query of a session, {'format ' if door == 'lance' else ''}`{door}`"
            runs = [
                (_first(door, place / "eight.lance"), _first("parquet", place / "parquet"))
                for _ in range(min(repeats, 3))
            ]
            mine, theirs = zip(*runs, strict=True)
            yield SparkMeasurement(title, mine, theirs)
        spark = build_session("benchmark", "local[2]")
        register_floor(spark)
        try:
            for title, ours, parquet, at_most in _cases(spark, place, rows):
                for work in (parquet, ours):
                    work()
                runs = [(_timed(ours), _timed(parquet)) for _ in range(min(repeats, at_most))]
                mine, theirs = zip(*runs, strict=True)
                yield SparkMeasurement(title, mine, theirs)
        finally:
            spark.stop()


def _make(place: Path, rows: int) -> None:
    """The same rows as files of Parquet, as a dataset of as many fragments, and of a single fragment."""
    random = np.random.default_rng(7)
    words = pa.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"])
    (place / "parquet").mkdir()
    each = rows // FILES
    tables = []
    for number in range(FILES):
        ids = np.arange(number * each, (number + 1) * each)
        table = pa.table(
            {
                "id": ids,
                "user": random.integers(0, 1 << 30, each, dtype=np.int32),
                "value": random.random(each),
                "name": words.take(pa.array(random.integers(0, len(words), each))),
            }
        )
        pq.write_table(table, place / "parquet" / f"{number}.parquet")
        lo.append(place / "eight.lance", table)
        tables.append(table)
    lo.append(
        place / "one.lance", pa.concat_tables(tables), max_rows_per_file=rows, max_bytes_per_file=1 << 40
    )
    lo.create_index(place / "eight.lance", "user")
    make_ready(place / "ready.arrow", tables)


def _cases(spark: Any, place: Path, rows: int) -> Iterator[tuple[str, Work, Work, int]]:
    """Title, our work, Parquet's, and how often it is worth repeating."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    files, eight, one, ready = (
        str(place / name) for name in ("parquet", "eight.lance", "one.lance", "ready.arrow")
    )
    all_columns = everything()
    wanted = np.random.default_rng(7).integers(0, 1 << 30, rows // FILES, dtype=np.int32)[5]
    few = f"user = {wanted}"

    def parquet() -> Any:
        return spark.read.parquet(files)

    def loaded(uri: str, **options: str) -> Any:
        return spark.read.format("lance").options(**options).load(uri)

    names = ("id", "user", "value", "name")
    # As many partitions as the same queries on the dataset have.
    parts, parts_of_one = (
        read_dataset(spark, eight, columns).rdd.getNumPartitions() for columns in (names, ["user"])
    )

    def ready_source(columns: Sequence[str], parts: int) -> Any:
        chosen = {"columns": ",".join(columns), "parts": str(parts)}
        return spark.read.format("ready").options(**chosen).load(ready)

    yield (
        "all columns, `read_dataset`",
        lambda: read_dataset(spark, eight).agg(*all_columns).collect(),
        lambda: parquet().agg(*all_columns).collect(),
        99,
    )
    yield (
        "all columns, format `lance`",
        lambda: loaded(eight).agg(*all_columns).collect(),
        lambda: parquet().agg(*all_columns).collect(),
        99,
    )
    yield (
        "floor of all columns: ready batches, `mapInArrow`",
        lambda: ready_frame(spark, ready, names, parts).agg(*all_columns).collect(),
        lambda: parquet().agg(*all_columns).collect(),
        99,
    )
    yield (
        "floor of all columns: ready batches, a source in Python",
        lambda: ready_source(names, parts).agg(*all_columns).collect(),
        lambda: parquet().agg(*all_columns).collect(),
        99,
    )
    yield (
        "all columns of one fragment, `read_dataset`",
        lambda: read_dataset(spark, one).agg(*all_columns).collect(),
        lambda: parquet().agg(*all_columns).collect(),
        99,
    )
    yield (
        "all columns of one fragment, format `lance`",
        lambda: loaded(one).agg(*all_columns).collect(),
        lambda: parquet().agg(*all_columns).collect(),
        99,
    )
    yield (
        "one column, `read_dataset`",
        lambda: read_dataset(spark, eight, ["user"]).agg(F.sum("user")).collect(),
        lambda: parquet().agg(F.sum("user")).collect(),
        99,
    )
    yield (
        "one column, format `lance`",
        lambda: loaded(eight, columns="user").agg(F.sum("user")).collect(),
        lambda: parquet().agg(F.sum("user")).collect(),
        99,
    )
    yield (
        "floor of one column: ready batches, `mapInArrow`",
        lambda: ready_frame(spark, ready, ["user"], parts_of_one).agg(F.sum("user")).collect(),
        lambda: parquet().agg(F.sum("user")).collect(),
        99,
    )
    yield (
        "floor of one column: ready batches, a source in Python",
        lambda: ready_source(["user"], parts_of_one).agg(F.sum("user")).collect(),
        lambda: parquet().agg(F.sum("user")).collect(),
        99,
    )
    yield "count, `read_dataset`", lambda: read_dataset(spark, eight).count(), lambda: parquet().count(), 99
    yield (
        "filter that an index answers, `read_dataset`",
        lambda: read_dataset(spark, eight, filter=few).collect(),
        lambda: parquet().where(few).collect(),
        99,
    )
    yield (
        "filter that an index answers, format `lance`",
        lambda: loaded(eight, filter=few).collect(),
        lambda: parquet().where(few).collect(),
        99,
    )
    yield (
        "write",
        lambda: _written(parquet().write.format("lance").mode("overwrite"), place / "out.lance"),
        lambda: _written(parquet().write.format("parquet").mode("overwrite"), place / "out.parquet"),
        3,
    )
    yield (
        "floor of write: batches are taken and thrown away",
        lambda: _written(parquet().write.format("throwaway").mode("overwrite"), place / "out.none"),
        lambda: _written(parquet().write.format("parquet").mode("overwrite"), place / "out.parquet"),
        3,
    )


def _written(writer: Any, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    writer.save(str(target))


def _first(door: str, path: Path) -> Cost:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.spark_first", door, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("took "))
    wall, processor = map(float, said.split()[1:])
    return Cost(wall, processor)


def _timed(work: Work) -> Cost:
    clock, processor = time.perf_counter(), processor_seconds()
    work()
    return Cost(time.perf_counter() - clock, processor_seconds() - processor)
