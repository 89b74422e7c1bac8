"""Rows that a filter left are kept for the next search of the same version."""

import numpy as np
import pyarrow as pa

import lance_ops as lo
from lance_ops.cache import cache_stats

CONDITION = "c = 1"


def test_every_version_finds_its_own_rows(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    lo.write_dataset(pa.table({"c": np.arange(40) % 4, "id": range(40), "v": column}), tmp_path)
    nearest = {"column": "v", "q": vectors[5], "k": 20}

    def found(dataset: lo.Dataset) -> list[int]:
        table = dataset.to_table(["id"], filter=CONDITION, nearest=nearest, prefilter=True)
        return sorted(table["id"].to_pylist())

    before = lo.dataset(tmp_path)
    assert found(before) == found(before) == list(range(1, 40, 4))
    lo.delete(tmp_path, "id < 20")
    assert found(lo.dataset(tmp_path)) == list(range(21, 40, 4))
    assert found(before) == list(range(1, 40, 4))
    # Only some fragments are other rows, whatever was kept.
    table = before.to_table(["id"], filter=CONDITION, nearest=nearest, prefilter=True, fragments=[])
    assert table.num_rows == 0
    # Those of the fragments of each version were found once.
    kinds = cache_stats().kinds
    assert kinds["rows of filters"].hits >= 2
