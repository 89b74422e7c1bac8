"""query: rows by filter, by nearness, by words, and the plan."""

import pyarrow as pa
import pytest

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("query") / "t.lance")
    vectors = pa.array([[float(number), 0.0] for number in range(30)], pa.list_(pa.float32(), 2))
    texts = ["alpha beta" if number % 10 == 0 else f"gamma {number}" for number in range(30)]
    lo.write_dataset(pa.table({"id": range(30), "v": vectors, "text": texts}), path)
    lo.create_index(path, "id")
    lo.create_index(path, "text", "INVERTED")
    return path


def test_rows_that_a_filter_selects_are_shown(uri):
    lines = lance_ops("query", uri, "--filter", "id IN (3, 5)", "--columns", "id, text").stdout.splitlines()
    assert [line.split() for line in lines] == [["id", "text"], ["3", "gamma", "3"], ["5", "gamma", "5"]]


def test_no_more_rows_are_shown_than_asked_for(uri):
    assert len(lance_ops("query", uri).stdout.splitlines()) == 21
    found = lance_ops_json("query", uri, "--columns", "id", "--limit", 2, "--offset", 4)
    assert found["rows"] == [{"id": 4}, {"id": 5}]


def test_the_nearest_rows_come_with_their_distances(uri):
    near = '{"column": "v", "q": [7, 0], "k": 2}'
    found = lance_ops_json("query", uri, "--columns", "id", "--nearest", near)
    assert found["rows"] == [{"id": 7, "_distance": 0.0}, {"id": 6, "_distance": 1.0}]
    among = lance_ops_json(
        "query", uri, "--columns", "id", "--nearest", near, "--filter", "id > 20", "--prefilter"
    )
    assert [row["id"] for row in among["rows"]] == [21, 22]


@pytest.mark.parametrize("query", ["beta", '{"match": {"terms": "beta", "column": "text"}}'])
def test_words_are_searched(uri, query):
    found = lance_ops_json("query", uri, "--columns", "id", "--match", query)
    assert sorted(row["id"] for row in found["rows"]) == [0, 10, 20]
    assert all(row["_score"] > 0 for row in found["rows"])


def test_the_plan_is_shown_instead_of_rows(uri):
    assert "index id_idx (BTREE" in lance_ops("query", uri, "--filter", "id = 3", "--explain").stdout
    assert "text_idx" in lance_ops_json("query", uri, "--match", "beta", "--explain")["plan"]


def test_what_makes_no_sense_is_one_message(uri):
    assert "not valid JSON" in lance_ops("query", uri, "--nearest", "[", code=1).stderr
    assert "column" in lance_ops("query", uri, "--nearest", "{}", code=1).stderr
    assert "no column 'none'" in lance_ops("query", uri, "--filter", "none = 1", code=1).stderr


def test_values_that_json_lacks_are_shown_as_text(tmp_path):
    path = str(tmp_path / "t.lance")
    lo.write_dataset(
        pa.table({"b": [b"\x00\xff"], "f": [float("nan")], "d": pa.array([1], pa.date32())}), path
    )
    assert lance_ops_json("query", path)["rows"] == [{"b": "AP8=", "f": "nan", "d": "1970-01-02"}]


def test_changes_between_two_versions_are_shown_and_counted(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"k": range(5)}))
    lo.append(uri, pa.table({"k": [7]}))
    lo.delete(uri, "k < 2")
    assert lance_ops("changes", uri, "--since", 1).stdout.endswith("2 delete, 1 insert\n")
    shown = lance_ops_json("changes", uri, "--since", 2, "--columns", "k", "--limit", 1)
    assert shown["counts"] == {"delete": 2}
    assert shown["rows"] == [{"k": 0, "_change_type": "delete", "_commit_version": 3}]
    assert "no rows differ" in lance_ops("changes", uri, "--since", 3).stdout
    assert "no version 9" in lance_ops("changes", uri, "--since", 9, code=1).stderr
