"""How many partitions a search looks into: as many as the peer does, by what its plans count."""

import re

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo

pytestmark = pytest.mark.peer

ROWS, DIMENSION, PARTITIONS = 4000, 8, 48
ROUNDS = 8
BOUNDS = [(1, None), (1, 2), (2, None), (1, 12), (5, 9), (7, 7)]


def _table(uri: str, metric: str, kind: str = "IVF_FLAT") -> np.ndarray:
    vectors = np.random.default_rng(3).normal(size=(ROWS, DIMENSION)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION)
    theirs = lance.write_dataset(pa.table({"id": range(ROWS), "v": column}), uri, max_rows_per_file=1500)
    more = {"num_sub_vectors": 4} if kind == "IVF_PQ" else {}
    theirs.create_index("v", kind, metric=metric, num_partitions=PARTITIONS, **more)
    return vectors


def _nearest(query: np.ndarray, k: int, least: int, most: int | None) -> dict:
    found = {"column": "v", "q": query, "k": k, "minimum_nprobes": least}
    return found if most is None else {**found, "maximum_nprobes": most}


def _queries(vectors: np.ndarray) -> list[np.ndarray]:
    """Near to all centroids, to one of them, and far away from all."""
    random = np.random.default_rng(5)
    scales = np.geomspace(0.01, 40, ROUNDS)
    return [
        (random.normal(size=DIMENSION) * scale + 0.05 * vectors[number]).astype(np.float32)
        for number, scale in enumerate(scales)
    ]


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("k", [1, 8, 60, 150, 300])
def test_a_search_finds_the_rows_of_the_partitions_that_the_peer_looks_into(tmp_path, metric, k):
    uri = str(tmp_path / "t.lance")
    vectors = _table(uri, metric)
    theirs, ours = lance.dataset(uri), lo.dataset(uri)
    for query in _queries(vectors):
        for least, most in BOUNDS:
            nearest = _nearest(query, k, least, most)
            expected = theirs.to_table(["id", "_distance"], nearest=nearest)
            found = ours.to_table(["id", "_distance"], nearest=nearest)
            # Rows as near as each other may change places.
            np.testing.assert_allclose(found["_distance"], expected["_distance"], rtol=1e-4, atol=1e-4)
            assert len(set(found["id"].to_pylist()) & set(expected["id"].to_pylist())) >= 0.98 * len(expected)


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
@pytest.mark.parametrize("matching", [4, 30, 400])
def test_a_filter_never_finds_fewer_of_the_nearest_rows_than_the_peer(tmp_path, kind, matching):
    uri = str(tmp_path / "t.lance")
    vectors = _table(uri, "l2", kind)
    theirs, ours = lance.dataset(uri), lo.dataset(uri)
    step = ROWS // matching
    for query in _queries(vectors):
        near = np.argsort(((vectors[::step] - query) ** 2).sum(axis=1), kind="stable") * step
        for k in (5, 40):
            for least, most in BOUNDS:
                options = {"filter": f"id % {step} = 0", "prefilter": True}
                nearest = {**_nearest(query, k, least, most), "refine_factor": 20}
                expected = theirs.to_table(["id", "_distance"], nearest=nearest, **options)["id"].to_pylist()
                found = ours.to_table(["id", "_distance"], nearest=nearest, **options)["id"].to_pylist()
                true = set(near[:k].tolist())
                assert len(true & set(found)) >= len(true & set(expected)), (k, least, most)
                assert len(found) >= len(expected)


def test_as_many_rows_as_match_are_found_however_few_these_are_and_nearest_first(tmp_path):
    """The peer finds them, too, at no distance and in no order."""
    uri = str(tmp_path / "t.lance")
    vectors = _table(uri, "l2", "IVF_PQ")
    query = _queries(vectors)[4]
    options = {"filter": "id IN (7, 900, 2100, 3999)", "prefilter": True}
    nearest = _nearest(query, 10, 1, None)
    theirs = lance.dataset(uri).to_table(["id", "_distance"], nearest=nearest, **options)
    found = lo.dataset(uri).to_table(["id", "_distance"], nearest=nearest, **options)
    assert sorted(theirs["id"].to_pylist()) == sorted(found["id"].to_pylist()) == [7, 900, 2100, 3999]
    expected = np.sort(((vectors[[7, 900, 2100, 3999]] - query) ** 2).sum(axis=1))
    np.testing.assert_allclose(found["_distance"], expected, rtol=1e-5)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("k", [1, 10, 100, 200, 500, 1000, 1001])
def test_as_many_partitions_are_looked_into_as_plans_of_the_peer_count(tmp_path, metric, k, monkeypatch):
    """With so many partitions that each bound of a budget can be seen."""
    uri, partitions = str(tmp_path / "t.lance"), 640
    random = np.random.default_rng(1)
    vectors = random.normal(size=(40_000, 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    theirs = lance.write_dataset(pa.table({"id": range(len(vectors)), "v": column}), uri)
    centroids = pa.FixedSizeListArray.from_arrays(pa.array(vectors[:partitions].ravel()), 4)
    theirs.create_index("v", "IVF_FLAT", metric=metric, num_partitions=partitions, ivf_centroids=centroids)
    theirs, ours = lance.dataset(uri), lo.dataset(uri)
    held = theirs.stats.index_stats("v_idx")["indices"][0]["partitions"]
    filled = sum(part["size"] > 0 for part in held)
    read: list[int] = []
    _count_partitions(monkeypatch, read)
    for scale in np.geomspace(0.02, 30, 12):
        query = (vectors[int(scale * 100)] + random.normal(size=4) * scale).astype(np.float32)
        plan = theirs.scanner(["id", "_distance"], nearest=_nearest(query, k, 1, None)).analyze_plan()
        expected = int(re.search(r"partitions_searched=(\d+)", plan).group(1))  # type: ignore[union-attr]
        read.clear()
        ours.to_table(["id"], nearest=_nearest(query, k, 1, None))
        # The peer counts empty ones, too.
        assert sum(read) == min(expected, filled), scale


def _count_partitions(monkeypatch: pytest.MonkeyPatch, read: list[int]) -> None:
    import lance_ops.index.vector.search as module

    own = module.opened_parts

    def counting(dataset, segment, names, *more):  # type: ignore[no-untyped-def]
        # Columns that are read whole are no partition.
        read.append(len([name for name in names if name != module._NARROW]))
        return own(dataset, segment, names, *more)

    monkeypatch.setattr(module, "opened_parts", counting)
