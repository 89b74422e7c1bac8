"""Indices with their tasks on Spark, beside the same ones built here: shares, merges, ranges of graphs."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.file.reader import FileReader
from lance_ops.index.vector import merge as vector_merge
from lance_ops.spark.runner import SparkRunner

pytestmark = [pytest.mark.spark, pytest.mark.peer]

ROWS = 1600
DIMENSION = 8
WORDS = ("storm", "harbour", "letter", "silver", "engine", "meadow", "signal", "copper")


def rows_of(first: int, count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(count).tolist()
    texts = [" ".join(rng.choice(WORDS, 6)) for _ in range(count)]
    vectors = rng.normal(size=count * DIMENSION).astype(np.float32)
    return pa.table(
        {
            "id": range(first, first + count),
            "n": pa.array([None if number % 97 == 0 else number // 3 for number in numbers], pa.int64()),
            "t": pa.array([None if place % 89 == 0 else text for place, text in enumerate(texts)]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSION),
        }
    )


class Watched(SparkRunner):
    """Counts the tasks of each call, and which processes ran them."""

    def __init__(self, spark) -> None:
        super().__init__(spark)
        self.calls: list[int] = []

    def map(self, function, tasks, *, on_done=None):
        self.calls.append(len(tasks))
        return super().map(function, tasks, on_done=on_done)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """Two equal tables of four fragments, with deleted rows, the one for Spark first."""
    uris = str(tmp_path / "spark.lance"), str(tmp_path / "here.lance")
    for uri in uris:
        lo.write_dataset(rows_of(0, ROWS, 1), uri, max_rows_per_file=400)
        lo.delete(uri, "id % 53 = 7")
    return uris


def grow(uri: str) -> None:
    """One more fragment, and more deleted rows of the old ones."""
    lo.append(uri, rows_of(ROWS, 200, 2))
    lo.delete(uri, "id % 59 = 3")


def stored(uri: str, file: str) -> pa.Table:
    """The rows of a file of the one segment that there is."""
    dataset = lo.dataset(uri)
    (segment,) = dataset.indices
    store, directory = dataset.bases.index_directory(segment)
    return FileReader.open(store, f"{directory}/{file}").read_table()


def test_a_btree_of_spark_has_the_rows_of_one_built_here(spark, tables):
    runner = Watched(spark)
    for uri, how in zip(tables, (runner, lo.LocalRunner(1)), strict=True):
        built = lo.create_index(uri, "n", rows_per_task=500, runner=how)
        assert (built.rows_indexed, built.coverage_after) == (lo.dataset(uri).count_rows(), 1.0)
        grow(uri)
        lo.optimize_indices(uri, rows_per_task=500, runner=how)
    # Four fragments of less than 400 rows, no two of which one task takes; then the new one.
    assert runner.calls == [4, 1]
    assert stored(tables[0], "page_data.lance").equals(stored(tables[1], "page_data.lance"))
    dataset = lo.dataset(tables[0])
    for condition in ("n = 7", "n BETWEEN 20 AND 60", "n IS NULL", "NOT (n > 5)"):
        wanted = dataset.to_table(filter=condition, use_scalar_index=False)
        assert wanted.num_rows
        assert dataset.to_table(filter=condition).equals(wanted)
        assert lance.dataset(tables[0]).to_table(filter=condition).sort_by("id").equals(wanted.sort_by("id"))
    assert "ScalarIndexQuery" in lance.dataset(tables[0]).scanner(filter="n = 7").explain_plan(True)


def test_full_text_of_spark_scores_as_one_built_here(spark, tables):
    runner = Watched(spark)
    for uri, how in zip(tables, (runner, lo.LocalRunner(1)), strict=True):
        lo.create_index(uri, "t", "INVERTED", rows_per_task=500, runner=how)
        grow(uri)
        lo.optimize_indices(uri, rows_per_task=500, runner=how)
    # Shares of the build; the share of the new rows, and one merge of the partitions that were there.
    assert runner.calls == [4, 1, 1]
    for words in ("storm", "copper meadow", "engine"):
        query = {"query": words, "columns": ["t"]}
        found = [scores(lo.dataset(uri).to_table(["id", "_score"], full_text_query=query)) for uri in tables]
        peer = scores(
            lance.dataset(tables[0]).to_table(columns=["id", "_score"], full_text_query=query, limit=ROWS * 2)
        )
        assert found[0]
        for other in (found[1], peer):
            assert other.keys() == found[0].keys()
            assert np.allclose([other[row] for row in found[0]], list(found[0].values()), atol=1e-5)


def scores(found: pa.Table) -> dict[int, float]:
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_vectors_of_spark_are_found_as_those_of_an_index_built_here(spark, tables, kind, monkeypatch):
    pytest.importorskip("faiss")
    # Graphs are made in tasks of so many rows: several ranges of partitions here.
    monkeypatch.setattr(vector_merge, "_GRAPH_ROWS_MOST", 500)
    parameters = {"num_partitions": 8} | ({"num_sub_vectors": 4} if kind == "IVF_PQ" else {})
    runner = Watched(spark)
    for uri, how in zip(tables, (runner, lo.LocalRunner(1)), strict=True):
        built = lo.create_index(uri, "v", kind, parameters=parameters, rows_per_task=500, runner=how)
        assert built.coverage_after == 1.0
        grow(uri)
        lo.optimize_indices(uri, rows_per_task=500, runner=how)
    assert runner.calls[0] == 4
    if kind == "IVF_HNSW_SQ":
        assert runner.calls[1] >= 3
    assert lo.optimize_indices(tables[0], dry_run=True).segments == ()
    rng = np.random.default_rng(5)
    for _ in range(5):
        nearest = {"column": "v", "q": rng.normal(size=DIMENSION).astype(np.float32), "k": 10, "nprobes": 8}
        found = [lo.dataset(uri).to_table(["id", "_distance"], nearest=nearest) for uri in tables]
        assert found[0].equals(found[1])
        exact = {**nearest, "refine_factor": 50}
        wanted = lo.dataset(tables[0]).to_table(["id"], nearest={**nearest, "use_index": False})["id"]
        for library in (lo, lance):
            table = library.dataset(tables[0]).to_table(columns=["id"], nearest=exact)
            assert len(set(table["id"].to_pylist()) & set(wanted.to_pylist())) >= 9
