"""ZONEMAP of floating-point numbers: NaN of both signs, infinities, zeros of both signs."""

import struct
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.search.pruner import IndexPruner
from tests.safety.profile import examples

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
NUMBERS = [None, float("nan"), NEGATIVE_NAN, float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 2.5]
FILTERS = [
    f"f {op} {value}"
    for op in ("=", "<", "<=", ">", ">=", "<>")
    for value in ("0.0", "-0.0", "1.0", "CAST('NaN' AS DOUBLE)", "CAST('inf' AS DOUBLE)")
] + ["f is null", "f is not null", "f in (1.0, 0.0)", "f between -1.0 and 1.0", "f = 1.0 or f is null"]


@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
@given(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=40))
@examples(10)
def test_no_comparison_loses_a_number(kind: str, numbers: list[float | None]) -> None:
    size = {"ZONEMAP": "rows_per_zone", "BLOOMFILTER": "number_of_items"}[kind]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.lance"
        lo.write_dataset(pa.table({"f": pa.array(numbers, pa.float64())}), path)
        lo.create_index(path, "f", kind, parameters={size: 2})
        dataset = lo.dataset(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnreadableIndexWarning)
            for sql in FILTERS:
                expected = dataset.scanner(filter=sql, pruners=[]).to_table()
                found = dataset.scanner(filter=sql, pruners=[IndexPruner()]).to_table()
                assert str(found.to_pylist()) == str(expected.to_pylist()), sql


def test_an_interval_of_a_few_values_leaves_most_zones_alone(tmp_path: Path) -> None:
    lo.write_dataset(pa.table({"f": np.arange(10_000.0)}), tmp_path / "t.lance")
    lo.create_index(tmp_path / "t.lance", "f", "zonemap", parameters={"rows_per_zone": 100})
    dataset = lo.dataset(tmp_path / "t.lance")
    pruning = IndexPruner().prune(dataset, dataset.parse_filter("f > 120 and f < 130"))
    assert pruning is not None
    assert pruning.addresses.tolist() == list(range(100, 200))
