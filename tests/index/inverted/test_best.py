"""The best of many scores, and searches that look only at rows that can be among the best."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.index.inverted.best import best_places


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 30_000), st.sampled_from([1, 2, 7, 10**6])
)
def test_what_is_not_below_the_last_of_the_best_stays(seed: int, count: int, rows: int, values: int) -> None:
    """Whether scores are few and equal, or all different."""
    scores = np.random.default_rng(seed).integers(0, values, rows).astype(np.float32)
    ordered = np.sort(scores)[::-1]
    expected = np.flatnonzero(scores >= ordered[min(count, rows) - 1]) if rows else np.arange(0)
    assert best_places(scores, count).tolist() == expected.tolist()


@pytest.mark.parametrize("deleted", [0, 1, 40, 2_900])
def test_the_best_rows_are_those_of_the_whole_answer(tmp_path: Path, deleted: int) -> None:
    """Of thousands with equal scores, in fragments and an appended one, and though the best were deleted."""
    rng = np.random.default_rng(deleted)
    words = [[f"w{number}" for number in line] for line in rng.integers(0, 9, (3_000, 4)).tolist()]
    rows = pa.table({"id": range(3_000), "text": [" ".join(line) for line in words]})
    uri = str(tmp_path / "t")
    lo.write_dataset(rows, uri, max_rows_per_file=700)
    lo.create_index(uri, "text", "INVERTED")
    lo.write_dataset(rows.slice(0, 5), uri, mode="append")
    best = lo.dataset(uri).to_table(["id"], full_text_query="w1 w2")["id"].to_pylist()
    if deleted:
        lo.delete(uri, f"id IN ({', '.join(map(str, best[:deleted]))})")
    dataset = lo.dataset(uri)
    for query in ("w1 w2", {"match": {"column": "text", "terms": "w1 w2", "operator": "And"}}, "w7"):
        whole = dataset.to_table(["id"], full_text_query=query)
        for limit in (1, 10, 300):
            found = dataset.to_table(["id"], full_text_query=query, limit=limit)
            assert found.equals(whole.slice(0, limit))
    boosted = {"match": {"column": "text", "terms": "w1 w2", "boost": 1e-44}}
    whole = dataset.to_table(["id"], full_text_query=boosted)
    assert dataset.to_table(["id"], full_text_query=boosted, limit=10).equals(whole.slice(0, 10))
