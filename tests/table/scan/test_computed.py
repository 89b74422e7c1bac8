"""Columns of a result that are computed: a mapping of names to SQL, in every call that takes columns."""

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, PredicateError

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

ROWS = pa.table(
    {
        "id": range(6),
        "x": pa.array([10, 20, None, 40, 100, 3], pa.int8()),
        "f16": pa.array([1, 2, None, 4, 5, 6], pa.float32()).cast(pa.float16()),
        "s": ["a", "b", None, "Straße", "", "é"],
        "ds": pa.array(["a", "b", None, "a", "b", "c"]).dictionary_encode(),
        "point": [
            {"a": 1, "b": "x"},
            None,
            {"a": None, "b": "y"},
            {"a": 4, "b": "z"},
            None,
            {"a": 6, "b": ""},
        ],
        "tags": [["a"], [], None, ["b", "c"], None, ["d"]],
        "v": pa.array([[float(n), 1.0] for n in range(6)], pa.list_(pa.float32(), 2)),
        "_x": range(6),
    }
)
COLUMNS = [
    {},
    {"x": "x * 2"},
    {"z": "id", "a": "id + 1", "m": "upper(s)"},
    {"id": "id IS NULL", "x": "id"},
    {"y": "point.a", "point": "tags"},
    {"ds": "ds", "s": "concat(s, '!')", "f": "f16 + 1", "v": "v"},
    {"row": "_rowid", "address": "_rowaddr"},
    {"_rowid": "_rowid", "n": "_x"},
    {"one": "1", "id": "id"},
    {"big": "x * 100"},
    {"c": "coalesce(x, 0)", "t": "coalesce(CASE WHEN id > 2 THEN 'late' ELSE 'soon' END)"},
]
OPTIONS = [
    {},
    {"limit": 2, "offset": 1},
    {"filter": "x > 3 AND id < 5"},
    {"filter": "id > 1", "limit": 1, "with_row_id": True},
    {"with_row_id": True, "with_row_address": True},
    {"batch_size": 2},
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("computed") / "t.lance")
    lance.write_dataset(ROWS, path, max_rows_per_file=4, data_storage_version="2.1")
    lance.dataset(path).delete("id = 1")
    return path


def same(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether schema and values are equal; chunks may have other dictionaries."""
    return ours.schema == theirs.schema and ours.to_pydict() == theirs.to_pydict()


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
def test_every_call_computes_what_the_peer_computes(uri, columns):
    ours, theirs = lo.dataset(uri), lance.dataset(uri)
    for options in OPTIONS:
        wanted = theirs.to_table(columns=columns, **options)
        assert same(ours.to_table(columns=columns, **options), wanted), options
        assert ours.scanner(columns=columns, **options).schema == wanted.schema
        assert ours.scanner(columns=columns, **options).count_rows() == ours.count_rows(
            options.get("filter")
        ) or ("limit" in options)
    wanted = theirs.to_table(columns=columns)
    assert ours.scanner(columns=columns).to_table().equals(ours.to_table(columns=columns))
    assert same(ours.to_batches(columns=columns).read_all(), wanted)
    assert same(ours.head(3, columns=columns), theirs.head(3, columns=columns))
    assert list(ours.to_pandas(columns=columns).columns) == list(columns)
    assert same(ours.take([2, 0, 2], columns=columns), theirs.take([2, 0, 2], columns=columns))


def test_a_search_adds_its_scores_and_an_expression_may_name_them(uri):
    query = {"column": "v", "q": [3.0, 1.0], "k": 2}
    for columns in ({"y": "id * 2"}, {"y": "id", "far": "_distance"}):
        wanted = lance.dataset(uri).to_table(columns=columns, nearest=query)
        assert lo.dataset(uri).to_table(columns=columns, nearest=query).equals(wanted)


def test_versions_and_branches_compute_on_their_own_rows(uri, tmp_path):
    columns = {"y": "id * 2"}
    old = lo.dataset(uri, version=1)
    assert old.to_table(columns=columns)["y"].to_pylist() == [0, 2, 4, 6, 8, 10]
    copy = str(tmp_path / "b.lance")
    lo.write_dataset(ROWS, copy)
    lo.create_branch(copy, "dev")
    lo.delete(copy, "id > 1")
    assert lo.dataset(copy).to_table(columns=columns)["y"].to_pylist() == [0, 2]
    assert len(lo.dataset(copy, version=("dev", None)).to_table(columns=columns)) == 6


def test_a_constant_needs_no_column(uri):
    found = lo.dataset(uri).to_table(columns={"one": "1", "text": "'a' || 'b'"}, filter="id > 3")
    assert found.to_pydict() == {"one": [1, 1], "text": ["ab", "ab"]}
    assert [len(batch) for batch in lo.dataset(uri).to_batches({"one": "1"}, batch_size=2)] == [2, 2, 1]


def test_the_plan_names_the_expressions(uri):
    assert "compute: y = id * 2" in lo.dataset(uri).explain(columns={"y": "id * 2"})


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({"y": "nope"}, PredicateError, "no column 'nope', at character 1"),
        ({"y": "id +"}, PredicateError, "at character"),
        ({"y": "s = 1"}, PredicateError, "cannot be compared"),
        ({"y": 5}, InvalidArgumentError, "SQL expression of column 'y'"),
        ({1: "id"}, InvalidArgumentError, "a column name"),
        ("id", InvalidArgumentError, r"got the text 'id'.*columns=\['id'\]"),
    ],
)
def test_what_cannot_be_computed_is_refused_before_anything_is_read(uri, columns, error, match):
    dataset = lo.dataset(uri)
    query = {"column": "v", "q": [3.0, 1.0], "k": 2}
    for run in (
        lambda: dataset.scanner(columns=columns),
        lambda: dataset.to_batches(columns=columns),
        lambda: dataset.head(1, columns=columns),
        lambda: dataset.take([0], columns=columns),
        lambda: dataset.to_table(columns=columns, nearest=query),
    ):
        with pytest.raises(error, match=match):
            run()
