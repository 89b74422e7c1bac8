"""Estimates of compactions against what they take: twenty groups of different kinds, none of them a probe.

Each table is compacted a few times from equal copies, with one thread; the median counts. Measured by
wall-clock and by CPU time: on a busy machine the clock tells how busy it was.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_ops as lo

NAME = "estimates"
WHOLE = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One table, which becomes one group."""

    name: str
    files: int
    rows: int
    columns: Callable[[np.random.Generator, int], dict[str, pa.Array]]
    deleted: int = 0
    indices: tuple[tuple[str, str], ...] = ()
    method: str = "auto"


def _numbers(count: int) -> Callable[[np.random.Generator, int], dict[str, pa.Array]]:
    def make(draw: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        widths = [10 + 5 * n % 40 for n in range(count // 2)]
        columns = {f"i{n}": pa.array(draw.integers(0, 1 << bits, rows)) for n, bits in enumerate(widths)}
        return columns | {f"f{n}": pa.array(draw.random(rows)) for n in range(count - count // 2)}

    return make


def _texts(
    length: int, distinct: int | None = None
) -> Callable[[np.random.Generator, int], dict[str, pa.Array]]:
    def make(draw: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        words = np.array([f"{word:x}" for word in draw.integers(0, 1 << 30, 5000)])
        per_row = max(1, length // 8)
        picked = words[draw.integers(0, distinct or len(words), (rows, per_row))]
        return {"text": pa.array([" ".join(row) for row in picked]), "id": pa.array(np.arange(rows))}

    return make


def _vectors(size: int) -> Callable[[np.random.Generator, int], dict[str, pa.Array]]:
    def make(draw: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        values = pa.array(draw.random(rows * size, dtype=np.float32))
        return {"v": pa.FixedSizeListArray.from_arrays(values, size), "id": pa.array(np.arange(rows))}

    return make


def _nested(draw: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    sizes = draw.integers(0, 6, rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    items = pa.array(draw.integers(0, 1000, int(offsets[-1])))
    point = pa.StructArray.from_arrays([pa.array(draw.random(rows)), pa.array(draw.random(rows))], ["x", "y"])
    return {"tags": pa.ListArray.from_arrays(pa.array(offsets), items), "at": point}


def _mixed(draw: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    return {**_texts(24)(draw, rows), **_numbers(4)(draw, rows)}


SHAPES = (
    Shape(name="two tiny files", files=2, rows=50, columns=_numbers(2)),
    Shape(name="100 tiny files", files=100, rows=20, columns=_numbers(2)),
    Shape(name="50 tiny files of mixed columns", files=50, rows=50, columns=_mixed),
    Shape(name="20 files of 30 numbers", files=20, rows=200, columns=_numbers(30)),
    Shape(name="1.2 M rows of 4 numbers", files=6, rows=200_000, columns=_numbers(4)),
    Shape(name="the same, rewritten", files=6, rows=200_000, columns=_numbers(4), method="rewrite"),
    Shape(name="30 files of 20,000 numbers", files=30, rows=20_000, columns=_numbers(3)),
    Shape(name="strings, 16 characters", files=8, rows=20_000, columns=_texts(16)),
    Shape(name="the same, rewritten", files=8, rows=20_000, columns=_texts(16), method="rewrite"),
    Shape(name="strings, 160 characters", files=6, rows=8_000, columns=_texts(160)),
    Shape(name="few distinct strings", files=8, rows=30_000, columns=_texts(8, distinct=20)),
    Shape(name="40 files of mixed columns", files=40, rows=3_000, columns=_mixed),
    Shape(name="mixed columns, a seventh deleted", files=10, rows=12_000, columns=_mixed, deleted=7),
    Shape(name="numbers, a tenth deleted", files=6, rows=150_000, columns=_numbers(4), deleted=10),
    Shape(name="vectors of 128", files=8, rows=4_000, columns=_vectors(128)),
    Shape(name="vectors of 768", files=6, rows=2_000, columns=_vectors(768)),
    Shape(name="vectors of 768, a tenth deleted", files=6, rows=2_000, columns=_vectors(768), deleted=10),
    Shape(name="lists and structs", files=8, rows=15_000, columns=_nested),
    Shape(
        name="numbers under a BTREE", files=8, rows=40_000, columns=_numbers(4), indices=(("i0", "BTREE"),)
    ),
    Shape(
        name="mixed under BTREE and ZONEMAP",
        files=8,
        rows=20_000,
        columns=_mixed,
        indices=(("id", "BTREE"), ("i0", "ZONEMAP")),
    ),
)


def measure_estimates(repeats: int) -> list[str]:
    """Compact every shape, and return the lines of the report."""
    lines: list[str] = []
    for title, clock in (("processor time", time.process_time), ("clock", time.perf_counter)):
        with tempfile.TemporaryDirectory(prefix="lance-ops-estimates-") as folder:
            lines += [
                f"By {title}.",
                "",
                "| group | method | expected, s | measured, s | error |",
                "|---|---|---:|---:|---:|",
            ]
            errors = []
            for shape in SHAPES:
                method, expected, measured = _compact(Path(folder), shape, repeats, clock)
                errors.append(abs(expected / measured - 1))
                row = f"| {shape.name} | {method} | {expected:.3f} | {measured:.3f} "
                lines.append(f"{row}| {expected / measured - 1:+.0%} |")
            lines += ["", f"Median error by {title}: {statistics.median(errors):.0%}.", ""]
        print("\n".join(lines[-len(SHAPES) - 7 :]), flush=True)
    return lines


def _compact(
    folder: Path, shape: Shape, repeats: int, clock: Callable[[], float]
) -> tuple[str, float, float]:
    source = folder / "source"
    draw = np.random.default_rng(7)
    table = pa.table(shape.columns(draw, shape.files * shape.rows))
    lo.write_dataset(table, source, max_rows_per_file=shape.rows)
    for column, kind in shape.indices:
        lo.create_index(source, column, kind)
    if shape.deleted:
        column = table.column_names[0] if "id" not in table.column_names else "id"
        if pa.types.is_integer(table.schema.field(column).type):
            lo.delete(source, f"{column} % {shape.deleted} = 0")
    options = {"target_rows_per_fragment": WHOLE, "method": shape.method}
    options["runner"] = lo.LocalRunner(1)
    plan = lo.compact(source, dry_run=True, **options)
    (group,) = plan.groups
    taken = []
    for number in range(repeats + 1):
        copy = folder / f"copy{number}"
        shutil.copytree(source, copy)
        started = clock()
        lo.compact(copy, **options)
        taken.append(clock() - started)
        shutil.rmtree(copy)
    shutil.rmtree(source)
    return group.method.method.value, plan.estimate.seconds, statistics.median(taken[1:])
