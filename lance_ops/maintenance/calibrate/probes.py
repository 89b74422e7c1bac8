"""Probes: small tables of several shapes, so that each unit of the cost model makes most of one of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One table.

    Attributes:
        name: What it has most of.
        files: Fragments, of one data file each.
        rows: Of each of them.
        numbers: Columns of int64.
        floats: Columns of float64, which are hardly compressed.
        texts: Columns of strings.
        length: Characters of a string, about.
        vector: Components of the one column of float32 vectors; 0 for no such column.
        deleted: One of so many rows is deleted; 0 for none.
    """

    name: str
    files: int
    rows: int
    numbers: int = 0
    floats: int = 0
    texts: int = 0
    length: int = 8
    vector: int = 0
    deleted: int = 0

    def table(self) -> pa.Table:
        """The rows; column `n` counts them."""
        draw = np.random.default_rng(len(self.name))
        count = self.files * self.rows
        columns: dict[str, pa.Array] = {"n": pa.array(np.arange(count))}
        for number in range(self.numbers - 1):
            columns[f"n{number}"] = pa.array(draw.integers(0, 1 << 40, count))
        for number in range(self.floats):
            columns[f"f{number}"] = pa.array(draw.random(count))
        for number in range(self.texts):
            words = draw.integers(0, 1 << 62, (count, max(1, self.length // 8)))
            columns[f"t{number}"] = pa.array(
                ["-".join(f"{word % 10**7:07d}" for word in row) for row in words]
            )
        if self.vector:
            values = pa.array(draw.random(count * self.vector, dtype=np.float32))
            columns["v"] = pa.FixedSizeListArray.from_arrays(values, self.vector)
        return pa.table(columns)


PROBES = (
    Probe(name="one task", files=2, rows=10, numbers=1),
    Probe(name="files", files=60, rows=10, numbers=1),
    Probe(name="pages", files=40, rows=10, numbers=12),
    Probe(name="numbers", files=4, rows=150_000, numbers=4),
    Probe(name="more numbers", files=12, rows=100_000, numbers=2),
    Probe(name="floats", files=4, rows=100_000, numbers=1, floats=3),
    Probe(name="short texts", files=4, rows=40_000, numbers=1, texts=2),
    Probe(name="texts in many files", files=30, rows=2_000, numbers=2, texts=2, length=16),
    Probe(name="long texts", files=4, rows=6_000, numbers=1, texts=1, length=400),
    Probe(name="vectors", files=4, rows=6_000, numbers=1, vector=256),
    Probe(name="small vectors", files=20, rows=1_000, numbers=2, vector=64),
    Probe(name="numbers, some deleted", files=4, rows=150_000, numbers=4, deleted=20),
    Probe(name="floats, some deleted", files=4, rows=100_000, numbers=1, floats=3, deleted=10),
    Probe(name="texts, some deleted", files=6, rows=20_000, numbers=1, texts=2, length=24, deleted=10),
    Probe(name="vectors, some deleted", files=4, rows=5_000, numbers=1, vector=256, deleted=10),
)
"""What a calibration measures: some 40 MB in all, some of it several times."""


def smaller(share: float) -> Iterator[Probe]:
    """The probes with so much of their rows, where anybody is in a hurry."""
    for probe in PROBES:
        rows = max(10, round(probe.rows * share))
        yield Probe(
            name=probe.name,
            files=probe.files,
            rows=rows,
            numbers=probe.numbers,
            floats=probe.floats,
            texts=probe.texts,
            length=probe.length,
            vector=probe.vector,
            deleted=probe.deleted,
        )
