"""Sources of other kinds: Python objects, Lance tables, queries, standard input, Avro, ORC."""

import gzip
import io
import sqlite3
import sys

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, MissingExtraError, SchemaMismatchError
from lance_ops.maintenance.sources import standard_input
from lance_ops.maintenance.sources.lance_table import open_table
from lance_ops.maintenance.sources.open import open_source, read_files, read_query

ROWS = [{"id": 1, "s": "a"}, {"id": 2, "s": None}]


class Features:
    arrow_schema = pa.schema([("id", pa.int64()), ("s", pa.string())])


class HuggingFace:
    """What a `datasets.Dataset` offers to a reader; the library itself is not installed for tests."""

    features = Features()

    def with_format(self, name):
        assert name == "arrow"
        return self

    def iter(self, batch_size):
        yield pa.table({"id": [1, 2], "s": ["a", None]})


HuggingFace.__module__ = "datasets.arrow_dataset"


def rows(data):
    return [row for batch in open_source(data).batches() for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ROWS,
        lambda: ({"id": 1, "s": "a"} if n == 0 else {"id": 2} for n in range(2)),
        lambda: {"id": [1, 2], "s": ["a", None]},
        lambda: {"id": range(1, 3), "s": pa.array(["a", None])},
        lambda: pl.LazyFrame({"id": [1, 2], "s": ["a", None]}),
        lambda: pl.DataFrame({"id": [1, 2], "s": ["a", None]}).lazy().filter(pl.col("id") > 0),
        lambda: duckdb.sql("SELECT * FROM (VALUES (1::BIGINT, 'a'), (2, NULL)) t(id, s)"),
        HuggingFace,
    ],
    ids=["dicts", "generator", "columns", "ranges", "lazy frame", "lazy query", "duckdb", "datasets"],
)
def test_python_objects_give_the_same_rows(make, tmp_path):
    assert rows(make()) == ROWS
    lo.append(tmp_path / "t.lance", make())
    lo.merge_insert(tmp_path / "t.lance", make(), on="id")
    assert lo.dataset(tmp_path / "t.lance").to_table().sort_by("id").to_pylist() == ROWS


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"id": 1}, "map names of columns to their values"),
        ({"id": [1, 2], "s": [1]}, "no table"),
        ([{"id": 1}, {"id": "x"}], "row 1 has 'x'"),
        ([{"id": 1}, 7], "a row is int"),
        ([{}], "no columns"),
    ],
    ids=repr,
)
def test_objects_that_are_no_rows_are_refused_with_the_row(data, said):
    with pytest.raises(InvalidArgumentError, match=said):
        rows(data)


def test_a_name_that_no_early_row_has_is_refused_instead_of_dropped():
    with pytest.raises(InvalidArgumentError, match="row 65,540 has the column 'late'"):
        rows([{"id": n} for n in range(65_540)] + [{"id": 1, "late": 2}])


def test_a_lance_table_is_a_source_with_version_columns_and_filter(tmp_path):
    first, second = tmp_path / "first.lance", tmp_path / "second.lance"
    lo.append(first, pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]}))
    lo.delete(first, "id = 3")
    lo.append(second, first)
    assert lo.dataset(second).count_rows() == 2
    lo.append(second, open_table(str(first), 1, ["id"], "id > 2"), fill_missing=True)
    assert lo.dataset(second).to_table().to_pylist()[-1] == {"id": 3, "s": None}
    lo.append(second, lo.dataset(first, 1).to_batches(["id", "s"], "id = 3"))
    assert lo.dataset(second).count_rows() == 4
    with pytest.raises(InvalidArgumentError, match="beside other input"):
        lo.append(second, [str(first), str(second)])


def test_a_query_of_duckdb_or_a_database_is_a_source(tmp_path):
    with sqlite3.connect(tmp_path / "x.db") as base:
        base.execute("CREATE TABLE p (id INTEGER, s TEXT)")
        base.executemany("INSERT INTO p VALUES (?, ?)", [(1, "a"), (2, None)])
    base.close()
    path = str(tmp_path / "x.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE p AS SELECT 1::BIGINT AS id, 'a' AS s UNION ALL SELECT 2, NULL")
    for database in (tmp_path / "x.db", f"sqlite:///{tmp_path}/x.db", path, f"duckdb:///{path}"):
        assert rows(read_query("SELECT * FROM p ORDER BY id", database)) == ROWS
    pq.write_table(pa.table({"id": [5]}), tmp_path / "five.parquet")
    lo.append(tmp_path / "t.lance", read_query(f"SELECT id FROM '{tmp_path}/five.parquet'"), job_key="k")
    again = read_query("SELECT error('never run')")
    assert lo.append(tmp_path / "t.lance", again, job_key="k").already_committed
    for database in (tmp_path / "x.db", None):
        with pytest.raises(InvalidArgumentError, match="the query failed") as caught:
            rows(read_query("SELECT nothing FROM nowhere", database))
        assert caught.value.field == "query"
    with pytest.raises(InvalidArgumentError, match="two columns named 'id'"):
        rows(read_query("SELECT id, id FROM p", tmp_path / "x.db"))
    with pytest.raises(InvalidArgumentError, match="no such database file"):
        rows(read_query("SELECT 1", tmp_path / "absent.db"))


@pytest.mark.parametrize(
    "content", [b"id,s\n1,a\n", gzip.compress(b'{"id": 1, "s": "a"}\n')], ids=["csv", "jsonl.gz"]
)
def test_standard_input_is_read_once_by_a_job_and_drained_by_the_next(tmp_path, monkeypatch, content):
    uri = tmp_path / "t.lance"
    for number in range(2):
        stream = io.BytesIO(content)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        done = lo.append(uri, read_files("-"), job_key="k")
        assert done.already_committed == bool(number)
        assert stream.tell() == len(content)
    assert lo.dataset(uri).to_table().to_pylist() == [{"id": 1, "s": "a"}]


def test_errors_of_standard_input_name_it_and_not_the_temporary_file(monkeypatch, tmp_path):
    for content, said in ((b"id\n1\nx\n", None), (b'{"a": 1}\n{', "line 2"), (b"", "is empty")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        source = read_files("-", column_types={"id": "int64"} if said is None else None)
        with pytest.raises(InvalidArgumentError, match=said or "line 3: 'x'") as caught:
            lo.append(tmp_path / "t.lance", source)
        assert caught.value.path == "standard input"
        assert "lance-ops-input" not in str(caught.value)
    assert standard_input.STANDARD_INPUT == "-"


def test_avro_and_orc_are_read_and_avro_names_its_extra(tmp_path, monkeypatch):
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "s", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "l", "type": {"type": "array", "items": "int"}},
        ],
    }
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"id": 1, "s": None, "at": 0, "l": [1, 2]}])
    found = open_source(tmp_path / "a.avro")
    assert [str(kind) for kind in found.read_schemas()[0][1].types] == [
        "int64",
        "string",
        "timestamp[us, tz=UTC]",
        "list<item: int32>",
    ]
    assert rows(tmp_path / "a.avro")[0]["l"] == [1, 2]
    data = (tmp_path / "a.avro").read_bytes()
    for content in (data[:-3], b"nonsense"):
        (tmp_path / "b.avro").write_bytes(content)
        with pytest.raises(InvalidArgumentError) as caught:
            rows(tmp_path / "b.avro")
        assert caught.value.path.endswith("b.avro")
    orc.write_table(pa.table({"id": [1, 2], "s": ["a", None]}), tmp_path / "a.orc")
    assert rows(tmp_path / "a.orc") == ROWS
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingExtraError, match=r"lance-ops\[avro\]"):
        rows(tmp_path / "a.avro")


def test_a_dry_run_shows_types_and_casts_and_writes_nothing(tmp_path):
    (tmp_path / "a.csv").write_text("id,zip\n1,7\n")
    uri = tmp_path / "t.lance"
    shown = lo.append(uri, tmp_path / "a.csv", dry_run=True)
    assert (shown.mode, [(c.name, c.found, c.action) for c in shown.columns]) == (
        "create",
        [("id", "int64", "as it is"), ("zip", "int64", "as it is")],
    )
    assert not uri.exists()
    lo.write_dataset(
        pa.schema([("zip", pa.string()), ("id", pa.int64()), ("x", pa.int8())]).empty_table(), uri
    )
    shown = lo.append(uri, tmp_path / "a.csv", dry_run=True, fill_missing=True)
    assert [(c.name, c.written, c.action) for c in shown.columns] == [
        ("zip", "string", "read as the type of the dataset"),
        ("id", "int64", "as it is"),
        ("x", "int8", "filled with nulls"),
    ]
    assert "zip" in str(shown)
    assert shown.to_dict()["dry_run"] is True
    narrow = pa.table({"zip": ["a"], "id": pa.array([1], pa.int32())})
    assert [c.action for c in lo.append(uri, narrow, dry_run=True, fill_missing=True).columns][1] == "cast"
    with pytest.raises(SchemaMismatchError, match="x: missing"):
        lo.append(uri, tmp_path / "a.csv", dry_run=True)
    assert lo.dataset(uri).version == 1
