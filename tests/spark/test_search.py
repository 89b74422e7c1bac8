"""Searches by score in `spark.read.format("lance")`."""

import json

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.spark.options import read_options

QUERY = {"column": "v", "q": [1.0, 2.0, 0.5], "k": 7}


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    uri = str(tmp_path_factory.mktemp("vectors") / "t.lance")
    rng = np.random.default_rng(3)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=600).astype(np.float32)), 3)
    lo.write_dataset(pa.table({"id": range(200), "v": vectors}), uri, max_rows_per_file=70)
    return uri


def load(spark, uri: str, **options):
    return spark.read.format("lance").options(**options).load(uri)


@pytest.mark.spark
def test_the_nearest_rows_come_with_their_distances(spark, table):
    found = load(spark, table, nearest=json.dumps(QUERY), columns="id").toArrow()
    expected = lo.dataset(table).to_table(["id"], nearest=QUERY)
    assert found.to_pydict() == expected.to_pydict()


@pytest.mark.spark
def test_filters_apply_before_the_search_or_after_it(spark, table):
    options = {"nearest": json.dumps(QUERY), "filter": "id < 50"}
    before = load(spark, table, prefilter="true", **options).select("id").toArrow()["id"].to_pylist()
    assert (
        before
        == lo.dataset(table).to_table(["id"], "id < 50", nearest=QUERY, prefilter=True)["id"].to_pylist()
    )
    assert len(before) == 7
    after = load(spark, table, **options).count()
    assert after == lo.dataset(table).to_table(filter="id < 50", nearest=QUERY).num_rows < 7
    by_spark = load(spark, table, nearest=json.dumps(QUERY), pushdown="true").where("id < 50").count()
    assert by_spark == after


@pytest.mark.spark
def test_several_vectors_number_their_rows(spark, table):
    query = {**QUERY, "q": [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], "k": 2}
    rows = load(spark, table, nearest=json.dumps(query), columns="id", limit=3).collect()
    assert [row["query_index"] for row in rows] == [0, 0, 1]


@pytest.mark.spark
@pytest.mark.parametrize("query", ["beta", '{"match": {"terms": "beta", "column": "text"}}'])
def test_words_are_searched(spark, tmp_path, query):
    uri = str(tmp_path / "t.lance")
    words = ["alpha", "beta", "beta beta gamma", None, "gamma"]
    lo.write_dataset(pa.table({"id": range(5), "text": words}), uri)
    lo.create_index(uri, "text", "INVERTED")
    found = load(spark, uri, full_text_query=query, columns="id").toArrow()
    expected = lo.dataset(uri).to_table(["id"], full_text_query="beta")
    assert found.to_pydict() == expected.to_pydict()
    assert sorted(found["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nearest": "[1]"}, "must be a JSON object"),
        ({"nearest": "{"}, "nearest"),
        ({"prefilter": "true"}, "requires a search"),
        ({"limit": "3"}, "requires a search"),
    ],
)
def test_options_of_a_search_that_make_no_sense_are_refused(given, message):
    with pytest.raises(InvalidArgumentError, match=message):
        read_options({"path": "x", **given})
