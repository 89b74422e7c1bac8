"""Indices of half floats, which Arrow does not compare, answer as a scan does, and without a warning."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo

NUMBERS = [None, -np.inf, -1.5, -0.0, 0.0, 0.5, 1.5, np.inf, np.nan]
CONDITIONS = (
    "f = 0.5",
    "f = 0.0",
    "f <> 0.5",
    "f < 0.1",
    "f >= 100000.0",
    "f BETWEEN -1.5 AND 0.5",
    "f IN (-0.0, 1.5)",
    "f NOT IN (0.5)",
    "f IS NULL",
    "f IS NOT NULL",
)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_half_floats_are_found_as_by_a_scan(tmp_path, kind: str) -> None:
    halves = [None if number is None else np.float16(number) for number in NUMBERS * 5]
    uri = tmp_path / "t.lance"
    rows = pa.table({"id": range(len(halves)), "f": pa.array(halves, pa.float16())})
    lo.write_dataset(rows, uri, max_rows_per_file=20)
    lo.create_index(uri, "f", kind)
    dataset = lo.dataset(uri)
    for condition in CONDITIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = dataset.to_table(["id"], filter=condition)
        assert found.equals(dataset.to_table(["id"], filter=condition, pruners=())), condition
