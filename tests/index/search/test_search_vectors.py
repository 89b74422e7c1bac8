"""Nearest vectors by an index: what the peer finds with the same segments, also where they do not reach."""

import warnings
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnreadableIndexWarning

pytestmark = pytest.mark.peer

DIMENSION = 16
KINDS = ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ"]
SEARCHES = [
    {"nprobes": 4},
    {"nprobes": 1},
    {"nprobes": 4, "refine_factor": 3},
    # With a least distance the peer loses rows that nearer ones displace.
    {"nprobes": 4, "distance_range": (None, 12.0)},
    {"metric": "dot"},
    {"use_index": False},
]
OPTIONS = [
    {},
    {"filter": "c = 2"},
    {"filter": "c = 2", "prefilter": True},
    {"fast_search": True},
    {"filter": "_distance < 9 AND c > 2", "limit": 3, "offset": 1},
]


def rows(count: int, seed: int) -> pa.Table:
    vectors = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return pa.table(
        {
            "id": np.arange(count) + 10_000 * seed,
            "c": np.arange(count) % 7,
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        }
    )


def query(seed: int, **more: object) -> dict[str, object]:
    vector = np.random.default_rng(100 + seed).normal(size=DIMENSION).astype(np.float32)
    return {"column": "v", "q": vector, "k": 8, **more}


def same(theirs: lance.LanceDataset, ours: lo.Dataset, *, graph: bool = False) -> None:
    """The same rows at the same distances, whatever the search.

    With a `graph` the peer may pass over near rows, by chance; ours reads the partitions. Then no row of ours
    is farther away than the peer's in its place, and both know the same distances.
    """
    for seed, search in enumerate(SEARCHES):
        for options in OPTIONS:
            expected = theirs.to_table(["id", "_distance"], nearest=query(seed, **search), **options)
            found = ours.to_table(["id", "_distance"], nearest=query(seed, **search), **options)
            if graph and found["id"].to_pylist() != expected["id"].to_pylist():
                _not_worse(found, expected, exhaustive="filter" not in options or "prefilter" in options)
                continue
            assert found["id"].to_pylist() == expected["id"].to_pylist(), (search, options)
            distances = [part["_distance"].to_numpy() for part in (found, expected)]
            np.testing.assert_allclose(*distances, rtol=1e-3, atol=1e-4)


def _not_worse(found: pa.Table, expected: pa.Table, *, exhaustive: bool) -> None:
    ours, theirs = (
        dict(zip(part["id"].to_pylist(), part["_distance"].to_pylist(), strict=True))
        for part in (found, expected)
    )
    for number in ours.keys() & theirs.keys():
        assert ours[number] == pytest.approx(theirs[number], rel=1e-3, abs=1e-4)
    if exhaustive:
        # A filter on the result takes rows away from each side by what it had found.
        assert len(ours) >= len(theirs)
        for mine, other in zip(ours.values(), theirs.values(), strict=False):
            assert mine <= other + 1e-3 * abs(other) + 1e-4


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_finds_what_the_peer_finds_with_it(tmp_path, kind, stable):
    uri, graph = str(tmp_path / "t.lance"), "HNSW" in kind
    metric = "cosine" if kind == "IVF_PQ" else "l2"
    theirs = lance.write_dataset(rows(900, 1), uri, max_rows_per_file=300, enable_stable_row_ids=stable)
    more = {"num_sub_vectors": 8} if kind == "IVF_PQ" else {}
    theirs.create_index("v", kind, metric=metric, num_partitions=4, **more)
    same(lance.dataset(uri), lo.dataset(uri), graph=graph)
    lance.dataset(uri).delete("id % 13 = 3")
    same(lance.dataset(uri), lo.dataset(uri), graph=graph)
    lo.append(uri, rows(80, 2))
    same(lance.dataset(uri), lo.dataset(uri), graph=graph)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lo.append(uri, rows(30, 3))
    same(lance.dataset(uri), lo.dataset(uri), graph=graph)


@pytest.mark.parametrize("by_peer", [True, False])
@pytest.mark.parametrize("defer", [True, False])
def test_rows_are_found_where_a_compaction_put_them(tmp_path, by_peer, defer):
    uri = str(tmp_path / "t.lance")
    theirs = lance.write_dataset(rows(900, 1), uri, max_rows_per_file=200)
    theirs.create_index("v", "IVF_PQ", num_partitions=4, num_sub_vectors=8)
    theirs.delete("id % 13 = 3")
    lo.append(uri, rows(80, 2))
    if by_peer:
        lance.dataset(uri).optimize.compact_files(defer_index_remap=defer)
    else:
        lo.compact(uri, defer_index_remap=defer)
    assert "index v_idx" in lo.dataset(uri).explain(["id"], nearest=query(0))
    same(lance.dataset(uri), lo.dataset(uri))


def test_the_plan_says_which_segments_are_used_and_what_is_scanned(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(600, 1), uri, max_rows_per_file=300).create_index(
        "v", "IVF_FLAT", num_partitions=2
    )
    lo.append(uri, rows(20, 2))
    dataset = lo.dataset(uri)
    plan = dataset.explain(["id"], nearest=query(0))
    assert "index v_idx (IVF_FLAT), segment" in plan
    assert "fragments to scan: 2" in plan
    assert "index v_idx" not in dataset.explain(["id"], nearest=query(0, use_index=False))
    assert "index v_idx" not in dataset.explain(["id"], nearest=query(0, metric="dot"))


@pytest.mark.parametrize("file", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("damage", ["gone", "cut", "garbage"])
def test_a_damaged_segment_is_scanned_with_a_warning(tmp_path, file, damage):
    uri = str(tmp_path / "t.lance")
    theirs = lance.write_dataset(rows(600, 1), uri, max_rows_per_file=300)
    theirs.create_index("v", "IVF_PQ", num_partitions=2, num_sub_vectors=8)
    (path,) = (tmp_path / "t.lance" / "_indices").glob(f"*/{file}")
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else bytes(len(data)))
    dataset = lo.dataset(uri)
    for options in OPTIONS:
        with pytest.warns(UnreadableIndexWarning, match="v_idx"):
            found = dataset.to_table(["id"], nearest=query(0), **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            options = {name: value for name, value in options.items() if name != "fast_search"}
            expected = dataset.to_table(["id"], nearest=query(0, use_index=False), **options)
        assert found.equals(expected)


@pytest.mark.parametrize(
    ("kind", "appended", "refine"),
    [("IVF_FLAT", False, None), ("IVF_FLAT", True, None), ("IVF_SQ", False, 2), ("IVF_SQ", True, None)],
)
def test_near_rows_do_not_displace_those_of_a_farther_range(tmp_path, kind, appended, refine):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(400, 1), uri)
    lo.create_index(uri, "v", kind, parameters={"num_partitions": 4})
    if appended:
        lo.append(uri, rows(20, 2))
    dataset = lo.dataset(uri)
    distances = dataset.to_table(nearest=query(1, k=1000, use_index=False))["_distance"].to_numpy()
    # Nearer ones than these are as many as a search with four times the candidates does not get past.
    farther = query(1, k=10, distance_range=(float(distances[250]), float(distances[300])))
    expected = dataset.to_table(nearest={**farther, "k": 1000, "use_index": False})["id"].to_pylist()
    assert len(expected) == 50
    found = dataset.to_table(nearest={**farther, "nprobes": 4, "refine_factor": refine})["id"].to_pylist()
    assert len(found) == 10
    assert set(found) <= set(expected)
    assert found == expected[:10] or kind == "IVF_SQ"


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_HNSW_SQ"])
def test_vectors_whose_squares_overflow_do_not_stop_the_process(tmp_path, kind):
    long = rows(300, 1)
    values = np.array(long["v"].combine_chunks().flatten()) * np.float32(1e30)
    long = long.set_column(2, "v", pa.FixedSizeListArray.from_arrays(pa.array(values), DIMENSION))
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(long, uri)
    with pytest.raises(InvalidArgumentError, match="too long"):
        lo.create_index(uri, "v", kind, parameters={"num_partitions": 4})
    lo.append(uri, rows(300, 2))
    lo.create_index(uri, "v", kind, parameters={"num_partitions": 4})
    expected = lo.dataset(uri).to_table(["id"], nearest=query(1, use_index=False))
    found = lo.dataset(uri).to_table(["id"], nearest=query(1, nprobes=4, refine_factor=10))
    assert found.equals(expected)


@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_tensors_are_vectors(tmp_path: Path, shape: tuple[int, ...], *, nested: bool) -> None:
    uri = str(tmp_path / "t.lance")
    values = np.random.default_rng(1).normal(size=(300, 4)).astype("float32")
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values.reshape(-1, *shape))
    plain = pa.table({"id": range(300), "p": pa.FixedSizeListArray.from_arrays(values.ravel(), 4)})
    column = "s.v" if nested else "v"
    extra = pa.StructArray.from_arrays([tensors], ["v"]) if nested else tensors
    table = plain.append_column("s" if nested else "v", extra)
    lo.write_dataset(table, uri)

    def check() -> None:
        for options in ({}, {"use_index": False}, {"metric": "cosine"}):
            query = {"q": values[7], "k": 9, **options}
            found = lo.dataset(uri).to_table(["id"], nearest={"column": column, **query})
            expected = lo.dataset(uri).to_table(["id"], nearest={"column": "p", **query})
            assert found.equals(expected)
            if not nested:
                theirs = lance.dataset(uri).to_table(columns=["id"], nearest={"column": column, **query})
                assert found["id"].to_pylist() == theirs["id"].to_pylist()

    check()
    parameters = {"num_partitions": 1}
    lo.create_index(uri, column, "IVF_FLAT", name="x", parameters=parameters)
    lo.create_index(uri, "p", "IVF_FLAT", parameters=parameters)
    check()
    lo.append(uri, table.slice(0, 20))
    check()
    assert lo.measure_recall(lo.dataset(uri), "x").recall == 1.0
    lo.optimize_indices(uri)
    lo.compact(uri)
    check()
    assert lo.measure_recall(lo.dataset(uri), "x").recall == 1.0


@pytest.mark.parametrize("metric", [None, "l2", "cosine", "dot"])
def test_of_several_vectors_a_row_the_nearest_ones_count(tmp_path: Path, metric: str | None) -> None:
    uri = str(tmp_path / "t.lance")
    random = np.random.default_rng(2)
    rows = [random.normal(size=(random.integers(1, 4), 8)).astype("float32").tolist() for _ in range(200)]
    # A row without vectors, be it null or empty, is never found.
    kinds = pa.list_(pa.list_(pa.float32(), 8))
    table = pa.table({"id": range(202), "v": pa.array([*rows, None, []], kinds)})
    lance.write_dataset(table, uri, max_rows_per_file=70)
    lo.delete(uri, "id % 7 = 3")
    for query in (np.ones(8, np.float32), random.normal(size=(3, 8)).astype("float32")):
        for k in (5, 300):
            near = {"column": "v", "q": query, "k": k, **({} if metric is None else {"metric": metric})}
            expected = lance.dataset(uri).to_table(columns=["id", "_distance"], nearest=near)
            found = lo.dataset(uri).to_table(["id"], nearest=near)
            assert found.column_names == ["id", "_distance"]
            assert found["id"].to_pylist() == expected["id"].to_pylist()
            np.testing.assert_allclose(found["_distance"], expected["_distance"], rtol=1e-4, atol=1e-4)
    filtered = {"columns": ["id"], "filter": "id < 50", "prefilter": True}
    expected = lance.dataset(uri).to_table(nearest=near, **filtered)["id"].to_pylist()
    assert lo.dataset(uri).to_table(nearest=near, **filtered)["id"].to_pylist() == expected
