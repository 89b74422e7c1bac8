"""Vector indices that lance_ops builds, searched by the peer, and the other way round."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.scored import NearestQuery
from tests.support.vectors import nearest, queries, search, vector_table

pytestmark = pytest.mark.peer

KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
CASES = [(kind, metric) for kind in KINDS for metric in ("l2", "cosine", "dot")] + [("IVF_FLAT", "hamming")]
PARTITIONS = 6


def build(folder: Path, table: pa.Table, kind: str, metric: str) -> tuple[str, str]:
    """One table with our index, one with the peer's."""
    parameters = {"num_partitions": PARTITIONS}
    if kind.endswith("PQ"):
        parameters["num_sub_vectors"] = 8
    ours, theirs = str(folder / "ours"), str(folder / "theirs")
    for uri in (ours, theirs):
        lance.write_dataset(table, uri, max_rows_per_file=len(table) // 2 + 1)
    lo.create_index(ours, "v", kind, parameters={"metric": metric, **parameters})
    lance.dataset(theirs).create_index("v", kind, metric=metric, **parameters)
    return ours, theirs


def peer_search(uri: str, query: np.ndarray, probes: int, k: int = 10) -> list[tuple[int, float]]:
    scanner = lance.dataset(uri).scanner(
        columns=["id", "_distance"], nearest={"column": "v", "q": query, "k": k, "nprobes": probes}
    )
    assert "ANN" in scanner.explain_plan(verbose=True)
    found = scanner.to_table()
    return list(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))


@pytest.mark.parametrize(("kind", "metric"), CASES)
def test_both_find_the_same_rows_at_the_same_distances_through_either_index(
    tmp_path: Path, kind: str, metric: str
) -> None:
    table = vector_table(3000, value_type=pa.uint8() if metric == "hamming" else pa.float32())
    for uri in build(tmp_path, table, kind, metric):
        assert lo.fsck(uri).ok
        for query in queries(table, 5):
            mine = search(uri, NearestQuery("v", query, k=10, minimum_nprobes=PARTITIONS))
            theirs = peer_search(uri, query, PARTITIONS)
            if "_HNSW_" in kind:
                # The peer walks a graph of each partition and can miss some; all of ours are compared.
                assert len({number for number, _ in mine} & {number for number, _ in theirs}) >= 8
            else:
                np.testing.assert_allclose(
                    [far for _, far in mine], [far for _, far in theirs], rtol=1e-4, atol=1e-4
                )
            if kind == "IVF_FLAT":
                exact = nearest(table, metric, query, 10)
                np.testing.assert_allclose(
                    [far for _, far in mine], [far for _, far in exact], rtol=1e-5, atol=1e-5
                )
            if kind == "IVF_FLAT" and metric != "hamming":
                assert [number for number, _ in mine] == [number for number, _ in theirs]


@pytest.mark.parametrize(("kind", "metric"), CASES)
def test_as_many_of_the_nearest_are_found_as_with_the_index_of_the_peer(
    tmp_path: Path, kind: str, metric: str
) -> None:
    table = vector_table(6000, value_type=pa.uint8() if metric == "hamming" else pa.float32())
    found = []
    for uri in build(tmp_path, table, kind, metric):
        near = 0
        for query in queries(table, 40):
            farthest = nearest(table, metric, query, 10)[-1][1]
            hits = peer_search(uri, query, 2)
            rows = table.take([number for number, _ in hits])
            near += sum(far <= farthest * 1.00001 for _, far in nearest(rows, metric, query, 10))
        found.append(near / 400)
    assert found[0] >= found[1] - 0.05, found
