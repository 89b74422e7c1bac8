"""Nearest vectors in `to_table`: the rows, columns, order and ties of the peer."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.encoding.arrays import number_dtype
from lance_ops.errors import InvalidArgumentError

pytestmark = pytest.mark.peer

ROWS, DIMENSION = 20, 4
KINDS = {
    "half": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.uint8(),
}


def table(values: pa.DataType) -> pa.Table:
    """Small whole numbers, so that many rows are equally near; null, NaN and infinite vectors among them."""
    rng = np.random.default_rng(0)
    vectors = rng.integers(0, 4, (ROWS, DIMENSION)).tolist()
    nested = [list(vector) for vector in vectors]
    vectors[3] = None
    if pa.types.is_floating(values):
        vectors[4][0], vectors[5][0] = float("nan"), float("inf")

    def column(rows: list) -> pa.Array:
        convert = number_dtype(values).type
        rows = [None if row is None else [convert(value) for value in row] for row in rows]
        return pa.array(rows, pa.list_(values, DIMENSION))

    return pa.table(
        {
            "id": np.arange(ROWS),
            "c": [number % 3 for number in range(ROWS)],
            "vector": column(vectors),
            "nested": pa.StructArray.from_arrays([column(nested)], ["vector"]),
        }
    )


@pytest.fixture(scope="module", params=[*[(kind, False) for kind in KINDS], ("float", True)])
def pair(request, tmp_path_factory):
    """One table as the peer and we open it."""
    kind, stable = request.param
    uri = str(tmp_path_factory.mktemp("nearest") / "t.lance")
    theirs = lance.write_dataset(table(KINDS[kind]), uri, max_rows_per_file=8, enable_stable_row_ids=stable)
    theirs.delete("id = 12 OR id = 1")
    if stable:
        # A row that moves to another fragment keeps its id, by which ties are settled.
        theirs.update({"c": "c"}, where="id = 9")
    return theirs, lo.dataset(uri)


VECTORS = st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=DIMENSION, max_size=DIMENSION)
QUERIES = st.fixed_dictionaries(
    {
        "column": st.sampled_from(["vector", "nested.vector"]),
        "q": VECTORS | st.lists(VECTORS, min_size=1, max_size=3),
    },
    optional={
        "k": st.sampled_from([1, 2, 3, 5, 30]),
        "metric": st.sampled_from(["l2", "cosine", "dot", "Euclidean"]),
        "distance_range": st.sampled_from([(0.0, 3.0), (None, 5.0), (1.0, None), (3.0, 5.0)]),
        "use_index": st.booleans(),
        "refine_factor": st.just(2),
        "nprobes": st.just(1),
    },
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "columns": st.sampled_from([["id"], ["_distance", "id"], ["_rowid", "id"], [], ["nested.vector"]]),
        "filter": st.sampled_from(["c = 0", "id > 5 AND c <> 1", "_rowid > 3", "nested IS NOT NULL"]),
        "prefilter": st.booleans(),
        "limit": st.sampled_from([1, 3, 12]),
        "offset": st.sampled_from([0, 1, 3]),
        "with_row_id": st.booleans(),
        "with_row_address": st.booleans(),
    },
)


def plain(found: pa.Table) -> list[list[object]]:
    """Values by column, NaN as text, distances rounded."""
    return [
        np.round(column.to_numpy(), 4).tolist() if name == "_distance" else str(column.to_pylist())
        for name, column in zip(found.schema.names, found.columns, strict=True)
    ]


def settled(found: pa.Table) -> tuple[list[float], list[tuple[object, ...]]]:
    """All distances, and the rows that are nearer than the last one; those of one distance in any order.

    Parallel vectors are equally near by cosine but for the last bit of a float, which decides the order.
    """
    distances = np.round(found["_distance"].to_numpy(), 4).tolist()
    rest = [found[name].to_pylist() for name in found.schema.names if name != "_distance"]
    rows = zip(distances, *(map(str, column) for column in rest), strict=True)
    return distances, sorted(row for row in rows if row[0] != distances[-1])


@given(near=QUERIES, options=OPTIONS)
@settings(deadline=None, max_examples=40)
def test_without_an_index_answers_are_those_of_the_peer(pair, near, options):
    theirs, ours = pair
    if ours.schema.field("vector").type.value_type == pa.uint8():
        near.pop("metric", None)
    expected = theirs.to_table(nearest=near, **options)
    found = ours.to_table(nearest=near, **options)
    assert found.schema == expected.schema
    if near.get("metric") == "cosine" and "_distance" in found.schema.names:
        assert settled(found) == settled(expected)
    else:
        assert plain(found) == plain(expected)
    assert ours.scanner(nearest=near, **options).count_rows() == expected.num_rows
    assert plain(ours.to_batches(nearest=near, **options, batch_size=3).read_all()) == plain(expected)


def test_a_limit_of_nothing_returns_nothing(pair):
    # The peer refuses that unless the query says how many rows to look for.
    near = {"column": "vector", "q": [1.0, 2.0, 0.0, 1.0]}
    assert pair[1].to_table(nearest=near, limit=0).num_rows == 0
    assert pair[0].to_table(nearest={**near, "k": 2}, limit=0).num_rows == 0


def test_distances_may_be_in_a_filter(pair):
    theirs, ours = pair
    near = {"column": "vector", "q": [1.0, 2.0, 0.0, 1.0]}
    expected = theirs.to_table(["id"], nearest=near, filter="_distance < 6 AND c <> 1")
    assert ours.to_table(["id"], nearest=near, filter="_distance < 6 AND c <> 1").equals(expected)


def test_a_fast_search_finds_nothing_without_an_index(pair):
    theirs, ours = pair
    near = {"column": "vector", "q": [1.0, 2.0, 0.0, 1.0]}
    assert theirs.to_table(nearest=near, fast_search=True).num_rows == 0
    assert ours.to_table(nearest=near, fast_search=True).num_rows == 0


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"column": "vector"}, "q"),
        ({"q": [1.0] * 4}, "column"),
        ({"column": "none", "q": [1.0] * 4}, "none"),
        ({"column": "id", "q": [1.0] * 4}, "id"),
        ({"column": "vector", "q": [1.0] * 3}, "q"),
        ({"column": "vector", "q": [1.0] * 8}, "q"),
        ({"column": "vector", "q": "abcd"}, "q"),
        ({"column": "vector", "q": [[[1.0] * 4]]}, "q"),
        ({"column": "vector", "q": [1.0] * 4, "k": 0}, "k"),
        ({"column": "vector", "q": [1.0] * 4, "k": 1.5}, "k"),
        ({"column": "vector", "q": [1.0] * 4, "metric": "far"}, "metric"),
        ({"column": "vector", "q": [1.0] * 4, "metric": "hamming"}, "metric"),
        ({"column": "vector", "q": [1.0] * 4, "nprobes": 0}, "nprobes"),
        ({"column": "vector", "q": [1.0] * 4, "minimum_nprobes": 5, "maximum_nprobes": 2}, "nprobes"),
        ({"column": "vector", "q": [1.0] * 4, "refine_factor": 0}, "refine_factor"),
        ({"column": "vector", "q": [1.0] * 4, "distance_range": 3}, "distance_range"),
        ({"column": "vector", "q": [1.0] * 4, "radius": 3}, "radius"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_by_name(tmp_path: Path, given_, named):
    lo.write_dataset(table(pa.float32()), tmp_path / "t.lance")
    with pytest.raises(InvalidArgumentError, match=named):
        lo.dataset(tmp_path / "t.lance").to_table(nearest=given_)


@pytest.mark.parametrize("number", [300, -1, float("nan"), float("inf")])
def test_bytes_are_not_searched_for_what_is_no_byte(tmp_path: Path, number: float):
    lo.write_dataset(table(pa.uint8()), tmp_path / "t.lance")
    with pytest.raises(InvalidArgumentError, match="range 0 to 255"):
        lo.dataset(tmp_path / "t.lance").to_table(nearest={"column": "vector", "q": [1.0, 2.0, 3.0, number]})


def test_a_null_within_a_vector_leaves_the_others_as_exact_as_they_are(tmp_path: Path):
    vectors = pa.array([[1e300, 0.0], [2.0, 1.0 + 2.0**-40], [1.0, None]], pa.list_(pa.float64(), 2))
    lo.write_dataset(pa.table({"vector": vectors}), tmp_path / "t.lance")
    found = lo.dataset(tmp_path / "t.lance").to_table(nearest={"column": "vector", "q": [2.0, 1.0]})
    assert found["_distance"].to_pylist() == [np.float32(2.0**-80), float("inf")]


def test_a_scan_of_many_rows_keeps_the_nearest_only(tmp_path: Path):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(50_000, 8)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    lo.write_dataset(pa.table({"v": column}), tmp_path / "t.lance", max_rows_per_file=20_000)
    found = lo.dataset(tmp_path / "t.lance").to_table(
        ["_rowoffset"], nearest={"column": "v", "q": vectors[7], "k": 50}
    )
    true = ((vectors - vectors[7]) ** 2).sum(axis=1)
    assert found["_rowoffset"].to_pylist() == np.argsort(true, kind="stable")[:50].tolist()


def test_the_plan_says_what_is_searched_and_what_is_filtered(tmp_path: Path):
    lo.write_dataset(table(pa.float32()), tmp_path / "t.lance", max_rows_per_file=8)
    near = {"column": "vector", "q": [1.0] * 4, "k": 3}
    dataset = lo.dataset(tmp_path / "t.lance")
    before = dataset.scanner(["id"], "c = 0", nearest=near, prefilter=True).explain()
    assert "3 rows nearest by vector (l2)" in before
    assert "fragments to scan: 0, 1, 2" in before
    assert "among the rows of" in before
    assert "filter: c = 0" in before
    after = dataset.scanner(["id"], "c = 0", nearest=near).explain()
    assert "then filter: c = 0" in after
    assert "return: id, _distance" in after
