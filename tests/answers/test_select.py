"""SELECT by DuckDB: columns and comparisons are pushed down, and errors are ours."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    InvalidArgumentError,
    MissingExtraError,
    UnsupportedTypeError,
)
from lance_ops.table.dataset import Dataset


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("select")
    table = pa.table({"id": range(10), "kind": list("ab") * 5, "Order ID": range(10)})
    lo.append(str(folder / "t.lance"), table)
    lo.append(str(folder / "other.lance"), pa.table({"id": [1, 2], "price": [0.5, 1.5]}))
    pq.write_table(pa.table({"id": [3], "name": ["three"]}), folder / "names.parquet")
    return folder


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT count(*) AS n FROM t", [{"n": 10}]),
        ("select id from t where kind = 'a' and id > 5 order by id", [{"id": 6}, {"id": 8}]),
        ("SELECT `Order ID` AS o FROM t WHERE `Order ID` = 3", [{"o": 3}]),
        (
            "SELECT id, price FROM t JOIN other USING (id) ORDER BY id",
            [{"id": 1, "price": 0.5}, {"id": 2, "price": 1.5}],
        ),
        ("WITH t2 AS (SELECT id FROM t) SELECT max(id) AS m FROM t2", [{"m": 9}]),
        ("FROM t SELECT id LIMIT 1", [{"id": 0}]),
        ("VALUES (1)", [{"col0": 1}]),
        ("SELECT 'FROM `x`' AS s -- FROM `y`", [{"s": "FROM `x`"}]),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM other) ORDER BY id", [{"id": 1}, {"id": 2}]),
    ],
)
def test_queries_are_answered_without_a_session(root, statement, rows):
    assert lo.sql(statement, root=str(root)).to_pylist() == rows


def test_tables_are_found_by_path_by_name_and_among_files(root, monkeypatch):
    monkeypatch.chdir(root)
    for name in ("`t.lance`", '"t.lance"', "'t.lance'", "t.lance", f"`{root}/t.lance`", '"./t.lance"'):
        assert lo.sql(f"SELECT count(*) AS n FROM {name}").to_pylist() == [{"n": 10}]
    named = lo.sql("SELECT count(*) AS n FROM sales.orders", tables={"sales.orders": str(root / "t.lance")})
    assert named.to_pylist() == [{"n": 10}]
    joined = lo.sql("SELECT name FROM t JOIN 'names.parquet' USING (id)", root=str(root))
    assert joined.to_pylist() == [{"name": "three"}]


def test_schemas_and_plans_are_queries_too(root):
    described = lo.sql("DESCRIBE t", root=str(root)).to_pylist()
    assert [row["column_name"] for row in described] == ["id", "kind", "Order ID"]
    assert lo.sql("SUMMARIZE t", root=str(root)).num_rows == 3
    plan = lo.sql("EXPLAIN SELECT id FROM t WHERE id = 1", root=str(root)).to_pylist()[0]["explain_value"]
    assert "id" in plan
    assert "kind" not in plan


def test_columns_and_comparisons_are_pushed_down(root, monkeypatch):
    scans = []
    usual = Dataset.to_batches

    def to_batches(self, *args, **options):
        scans.append((args[0], str(args[1])))
        return usual(self, *args, **options)

    monkeypatch.setattr(Dataset, "to_batches", to_batches)
    lo.sql("SELECT sum(id) FROM t WHERE kind = 'a' AND id > 3", root=str(root))
    ((columns, condition),) = scans
    assert columns == ["id", "kind"]
    assert sorted(condition.split(" AND ")) == ["id > 3", "kind = 'a'"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("", "empty"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "expected one statement, got 2"),
        ("SELECT nope FROM t", 'column "nope" not found'),
        ("SELECT * FROM a.b.c", "expected one or two"),
        ("INSERT INTO t VALUES (1)", "INSERT is neither a query nor a maintenance statement"),
        ("COPY t TO 'x.csv'", "COPY is neither"),
        ("CREATE TABLE x (a INT)", "CREATE is neither"),
        ("SET threads = 1", "SET is neither"),
        ("ATTACH 'x.db'", "ATTACH is neither"),
        ("INSTALL httpfs", "LOAD is neither"),
        ("SELECT 'a'::INT", "Could not convert"),
        ("SELECT kind::INT FROM t", "Could not convert"),
        ("SELECT * FROM 'nothing.parquet'", "No files found"),
    ],
)
def test_what_is_no_query_is_refused(root, tmp_path, monkeypatch, statement, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        lo.sql(statement, root=str(root))
    assert caught.value.field == "statement"
    assert list(tmp_path.iterdir()) == []


def test_unknown_tables_are_named(root):
    with pytest.raises(InvalidArgumentError, match="unknown table nope"):
        lo.sql("SELECT * FROM nope")
    with pytest.raises(DatasetNotFoundError):
        lo.sql("SELECT * FROM nope", root=str(root))
    with pytest.raises(InvalidArgumentError) as caught:
        lo.sql("SELECT * FROM lake/t.lance")
    assert "double quotes or backticks" in (caught.value.hint or "")


def test_python_variables_are_no_tables(root):
    secret = pa.table({"x": [1]})
    assert secret.num_rows
    with pytest.raises(InvalidArgumentError, match="unknown table secret"):
        lo.sql("SELECT * FROM secret")


def test_a_damaged_file_is_named(tmp_path):
    lo.append(str(tmp_path / "t.lance"), pa.table({"id": range(1000)}))
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(CorruptFileError) as caught:
        lo.sql("SELECT sum(id) FROM t", root=str(tmp_path))
    assert caught.value.path == str(file)


def test_types_that_duckdb_lacks_are_named(tmp_path):
    lo.append(str(tmp_path / "t.lance"), pa.table({"id": [1], "half": pa.array([1.0], pa.float16())}))
    with pytest.raises(UnsupportedTypeError, match=r"half \(halffloat\)"):
        lo.sql("SELECT id FROM t", root=str(tmp_path))


def test_without_duckdb_the_extra_is_named(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError) as caught:
        lo.sql("SELECT 1", root=str(root))
    assert "lance-ops[duckdb]" in (caught.value.hint or "")
    assert lo.sql("SHOW TAGS FROM t", root=str(root)).num_rows == 0
