"""show, schema, head, count, export, diff, sql: answers for people, for programs and in files."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.table.dataset import Dataset
from tests.support.commands import lance_ops, lance_ops_json


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("answers") / "t.lance")
    lo.append(path, pa.table({"id": range(30), "kind": list("abc") * 10}))
    lo.delete(path, "id < 3")
    lo.create_index(path, "id")
    lo.create_tag(path, "loaded", 1)
    return path


def test_one_screen_shows_a_dataset(uri):
    shown = lance_ops("show", uri).stdout
    for part in ("at version 3", "kind    string", "rows      27 (3 deleted", "id_idx", "loaded = 1"):
        assert part in shown
    assert lance_ops("info", uri, "--version", "loaded").stdout.startswith(f"{uri} at version 1")
    assert lance_ops_json("show", uri)["health"]["rows"] == 27


def test_schema_head_and_count(uri):
    assert lance_ops("schema", uri).stdout.splitlines()[1].split() == ["id", "int64", "yes"]
    assert lance_ops_json("schema", uri)["columns"][1]["type"] == "string"
    assert len(lance_ops("head", uri).stdout.splitlines()) == 11
    assert lance_ops("head", uri, "-n", 1, "--columns", "id").stdout.split() == ["id", "3"]
    assert lance_ops_json("head", uri, "-n", 1)["rows"] == [{"id": 3, "kind": "a"}]
    assert lance_ops("count", uri).stdout == "27\n"
    assert lance_ops("count", uri, "--version", 1, "--filter", "kind = 'a'").stdout == "10\n"
    assert lance_ops_json("count", uri)["rows"] == 27


def test_a_query_writes_all_of_its_rows_to_a_file(uri, tmp_path):
    said = lance_ops("query", uri, "--filter", "id > 4", "-o", tmp_path / "a.parquet").stdout
    assert said.startswith("query: 25 rows written to ")
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 25
    error = lance_ops("query", uri, "-o", tmp_path / "a.parquet", code=1).stderr
    assert "option: --overwrite" in error
    assert "hint: choose another name, or pass --overwrite" in error
    shown = lance_ops_json("query", uri, "--limit", 2, "-o", tmp_path / "a.parquet", "--overwrite")
    assert (shown["rows"], shown["format"], shown["lost_types"]) == (2, "parquet", [])


def test_an_export_is_a_file_or_standard_output(uri, tmp_path):
    done = lance_ops_json("export", uri, tmp_path / "rows.csv.gz", "--columns", "id", "--limit", 2)
    assert (done["rows"], done["format"], done["version"]) == (2, "csv", 3)
    assert lance_ops("export", uri, "-", "--format", "csv", "--limit", 1).stdout == '"id","kind"\n3,"a"\n'
    assert "--format csv" in lance_ops("export", uri, "-", code=1).stderr
    assert "cannot tell the format" in lance_ops("export", uri, tmp_path / "rows", code=1).stderr


def test_a_diff_shows_columns_counts_and_rows(uri):
    shown = lance_ops("diff", uri, "loaded").stdout
    assert "0 inserted, 0 updated, 3 deleted (30 -> 27 rows)" in shown
    assert shown.splitlines()[-1].split() == ["2", "c", "delete", "null"]
    found = lance_ops_json("diff", uri, 1, 2, "--limit", 1)
    assert (found["deleted"], len(found["changes"])) == (3, 1)
    assert "no difference" in lance_ops("diff", uri, 2, 3).stdout


def test_a_select_is_answered_without_spark(uri, tmp_path):
    shown = lance_ops("sql", f"SELECT kind, count(*) AS n FROM `{uri}` GROUP BY kind ORDER BY kind").stdout
    assert [line.split() for line in shown.splitlines()] == [
        ["kind", "n"],
        ["a", "9"],
        ["b", "9"],
        ["c", "9"],
    ]
    lance_ops("sql", "SELECT id FROM t", "--table", f"t={uri}", "-o", tmp_path / "ids.jsonl")
    assert len((tmp_path / "ids.jsonl").read_text().splitlines()) == 27
    assert "Filters" in lance_ops("sql", f"EXPLAIN SELECT id FROM `{uri}` WHERE id = 4").stdout


def test_other_names_run_a_command_or_name_it(uri):
    assert "Delete" in lance_ops("versions", uri).stdout
    assert lance_ops("log", uri, "--limit", 1).stdout
    assert "Use merge-insert" in lance_ops("upsert", uri, code=2).stderr
    assert "Did you mean 'head'" in lance_ops("hed", uri, code=2).stderr


def test_quiet_and_verbose_change_what_is_said(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    uri = tmp_path / "t.lance"
    assert lance_ops("append", uri, tmp_path / "a.parquet", "-q").output == ""
    assert lance_ops("-q", "append", uri, tmp_path / "a.parquet").output == ""
    assert lance_ops("count", uri, "-q").output == "2\n"
    assert json.loads(lance_ops("append", uri, tmp_path / "a.parquet", "-q", "--json").stdout)["version"] == 3
    assert "append: " in lance_ops("append", uri, tmp_path / "a.parquet", "-v").stderr
    assert "Traceback" in lance_ops("query", uri, "-v", "--filter", "nope = 1", code=1).stderr


def test_an_interrupt_ends_with_130_and_one_line(uri, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Dataset, "open", interrupted)
    for command in (["count", uri], ["query", uri, "--json"], ["sql", f"SELECT 1 FROM `{uri}`"]):
        done = lance_ops(*command, code=130)
        assert done.stdout == ""
        assert done.stderr.startswith("interrupted: ")
        assert len(done.stderr.splitlines()) == 1
