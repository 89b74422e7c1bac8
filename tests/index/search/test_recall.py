"""Recall on a sample: what it counts, and what it refuses."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError


def table(rows: int, seed: int = 0) -> pa.Table:
    vectors = np.random.default_rng(seed).normal(size=(rows, 8)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    nested = pa.StructArray.from_arrays([lists], ["v"])
    return pa.table({"x": pa.array(range(rows), pa.int64()), "v": lists, "n": nested})


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("column", ["v", "n.v"])
def test_a_search_of_all_partitions_of_flat_vectors_finds_all(
    tmp_path: Path, column: str, stable: bool
) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(table(400), path, max_rows_per_file=150, enable_stable_row_ids=stable)
    lo.create_index(path, column, "IVF_FLAT", name="i", parameters={"num_partitions": 4})
    lo.append(path, table(50, seed=1))
    lo.delete(path, "x % 7 = 0")
    sample = lo.measure_recall(lo.dataset(path), "i")
    assert (sample.recall, sample.is_whole) == (1.0, True)
    assert sample.rows == lo.dataset(path).count_rows()


def test_neighbours_in_partitions_that_nobody_looks_into_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(table(4000), path)
    lo.create_index(path, "v", "IVF_FLAT", name="i", parameters={"num_partitions": 200})
    sample = lo.measure_recall(lo.dataset(path), "i")
    assert sample.recall is not None
    assert 0.2 < sample.recall < 1
    assert sample == lo.measure_recall(lo.dataset(path), "i")


def test_a_part_of_many_rows_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(table(4000), path)
    lo.create_index(path, "v", "IVF_FLAT", name="i", parameters={"num_partitions": 4})
    sample = lo.measure_recall(lo.dataset(path), "i", max_bytes=1000 * 32, queries=5, k=3)
    assert (sample.recall, sample.is_whole, sample.queries) == (1.0, False, 5)
    assert 500 < sample.rows <= 1100


def test_wrong_names_and_numbers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(table(300), path)
    lo.create_index(path, "v", "IVF_FLAT", name="i")
    lo.create_index(path, "x")
    with pytest.raises(InvalidArgumentError, match="no vector index 'x_idx'") as caught:
        lo.measure_recall(lo.dataset(path), "x_idx")
    assert caught.value.hint == "vector indices: i"
    with pytest.raises(InvalidArgumentError, match="k must be at least 1"):
        lo.measure_recall(lo.dataset(path), "i", k=0)
