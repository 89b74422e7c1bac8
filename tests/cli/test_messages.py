"""Messages of mistakes: each names the thing and what to do, in the words of the command line."""

import datetime as dt
import re
import shutil

import click
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.cli import main
from lance_ops.cli.spelling import Spelling
from tests.support.commands import lance_ops

# Words of Python, of other libraries and of tests.
FOREIGN = re.compile(
    r"\b[a-z]+(?:_[a-z]+)+(?:=|\(\))|=True|\[Errno|Traceback|Expecting \)|Protocol not known|\bpeer\b"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("mistakes")
    rows = range(20)
    table = pa.table(
        {
            "id": rows,
            "kind": list("ab") * 10,
            "d": [dt.date(2024, 5, 1) + dt.timedelta(days=number) for number in rows],
            "Order ID": rows,
            "v": pa.array([[float(number), 1.0] for number in rows], pa.list_(pa.float32(), 2)),
        }
    )
    lo.append(str(path / "t.lance"), table)
    lo.create_index(str(path / "t.lance"), "id")
    lo.create_tag(str(path / "t.lance"), "one", 1)
    pacsv.write_csv(table.drop(["v"]), path / "t.csv")
    pq.write_table(pa.table({"id": ["x"], "other": [1]}), path / "other.parquet")
    shutil.copytree(path / "t.lance", path / "empty.lance")
    for manifest in (path / "empty.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"")
    return path


MISTAKES = {
    "wrong column in a filter": (["query", "t.lance", "--filter", "knd = 'a'"], "did you mean `kind`?"),
    "wrong column in --columns": (["query", "t.lance", "--columns", "knd"], "columns are: id, kind"),
    "unknown function": (["query", "t.lance", "--filter", "nofunc(id) = 1"], "lists the functions"),
    "column in double quotes": (
        ["query", "t.lance", "--filter", '"Order ID" = 1'],
        "write `Order ID` for the column",
    ),
    "text without quotes": (["query", "t.lance", "--filter", "kind = a"], "single quotes for a string: 'a'"),
    "number for a text": (["query", "t.lance", "--filter", "kind = 1"], "write the constant in quotes"),
    "date without quotes": (["query", "t.lance", "--filter", "d > 2024-05-01"], "write DATE 'YYYY-MM-DD'"),
    "text for a number": (["query", "t.lance", "--filter", "id = 'abc'"], "write the number without quotes"),
    "dangling AND": (["query", "t.lance", "--filter", "id > 1 AND"], "add what follows AND"),
    "subquery": (
        ["query", "t.lance", "--filter", "id IN (SELECT id FROM t)"],
        "subqueries are not supported",
    ),
    "SELECT as a filter": (["query", "t.lance", "--filter", "SELECT * FROM t"], "a single condition"),
    "no such dataset": (["query", "tt.lance"], "did you mean 't.lance'?"),
    "nothing of a name like this": (["count", "nothing.lance"], "lance-ops append creates a dataset"),
    "a file": (["query", "t.csv"], "the path is a file, expected the folder of a dataset"),
    "a folder of datasets": (["show", "."], "it contains the datasets empty.lance, t.lance"),
    "unknown version": (["query", "t.lance", "--version", "99"], "the newest version is 2"),
    "unknown tag": (["diff", "t.lance", "two"], "its tags: one"),
    "versions in the wrong order": (["diff", "t.lance", "2", "1"], "give the older version first"),
    "words without an index": (["query", "t.lance", "--match", "x"], "INVERTED index with lance-ops index"),
    "nearest without JSON": (["query", "t.lance", "--nearest", "{bad"], "put it in single quotes"),
    "nearest without column": (["query", "t.lance", "--nearest", "{}"], 'as in {"column": "v"'),
    "nearest on a number": (
        ["query", "t.lance", "--nearest", '{"column": "id", "q": [1]}'],
        "expected vectors",
    ),
    "nearest of another length": (
        ["query", "t.lance", "--nearest", '{"column": "v", "q": [1]}'],
        "q has 1 numbers",
    ),
    "unknown index kind": (["index", "t.lance", "id", "--kind", "FOO"], "known kinds: BTREE"),
    "index of a name": (
        ["index", "t.lance", "id"],
        "pass --replace to rebuild it, or refresh it with lance-ops index",
    ),
    "unknown index": (["index", "t.lance", "--name", "nope"], "indices: id_idx"),
    "drop of an unknown column": (["drop-columns", "t.lance", "nope"], "columns are: id"),
    "type that does not fit": (
        ["alter-column", "t.lance", "kind", "--type", "int64"],
        "change or null such values",
    ),
    "text into a number": (["update", "t.lance", "--set", "id='x'"], "a number without quotes"),
    "set of an unknown column": (["update", "t.lance", "--set", "nope = 1"], "column 'nope' not found"),
    "set of text without quotes": (
        ["update", "t.lance", "--set", "kind = zz"],
        "single quotes for a string: 'zz'",
    ),
    "merge without a key": (["merge-insert", "t.lance", "t.csv"], "--on id"),
    "data without columns": (["append", "t.lance", "other.parquet"], "--fill-missing writes nulls"),
    "data again as new": (
        ["append", "t.lance", "t.csv", "--mode", "create"],
        "use mode 'append' or 'overwrite'",
    ),
    "unknown scheme": (["query", "foo://bar/x"], "unknown scheme foo://"),
    "empty manifest": (["query", "empty.lance"], "the file is truncated: it has 0 bytes"),
    "tag of a name": (["tag", "t.lance", "one"], "move it with --move"),
    "unknown format": (["export", "t.lance", "x.xlsx"], "or pass --format csv"),
    "unknown table": (["sql", "SELECT * FROM nope"], "--table NAME=URI, or --root FOLDER"),
    "unknown column in SQL": (["sql", "SELECT nope FROM t.lance"], 'column "nope" not found'),
    "no policy": (["fleet", "plan", "--policy", "nosuch.yaml"], "lance-ops fleet adopt ROOT writes one"),
    "comma at the end": (["query", "t.lance", "--columns", "id,"], "no comma at the end"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_what_to_do(folder, monkeypatch, mistake):
    monkeypatch.chdir(folder)
    arguments, told = MISTAKES[mistake]
    text = lance_ops(*arguments, code=1).stderr.replace(f"{folder}/", "")
    assert text.startswith("error: ")
    assert told in text
    assert "  hint: " in text or "writes nulls" in text
    assert FOREIGN.search(text) is None


@pytest.mark.parametrize(
    ("command", "text", "spelled"),
    [
        ("append", "fill_missing writes nulls", "--fill-missing writes nulls"),
        ("append", "pass fill_missing=True", "pass --fill-missing"),
        ("append", 'mode="overwrite" replaces it', "--mode overwrite replaces it"),
        ("cleanup", "older_than or retain_versions", "--older-than or --retain"),
        ("compact", "target_rows_per_fragment must be at least 1", "--target-rows must be at least 1"),
        ("compact", "resume=False starts over", "--no-resume starts over"),
        ("query", "refresh it with optimize_indices()", "refresh it with lance-ops index URI"),
        ("query", "no column fill_missing", "no column fill_missing"),
        ("query", "`older_than` and 'fast_search' are names", "`older_than` and 'fast_search' are names"),
        ("query", "the file data/fast_search.lance", "the file data/fast_search.lance"),
    ],
)
def test_arguments_of_python_are_spelled_as_options_of_the_command(command, text, spelled):
    spelling = Spelling.of(main.commands[command], frozenset(main.commands))
    assert spelling.of_text(text) == spelled


def test_fields_are_options_arguments_or_columns():
    spelling = Spelling.of(main.commands["delete"])
    assert spelling.of_field("max_fraction") == ("option", "--max-fraction")
    assert spelling.of_field("predicate") == ("argument", "PREDICATE")
    assert spelling.of_field("price") == ("field", "price")
    assert Spelling.of(click.Command("x")).of_text("fill_missing=True") == "fill_missing=True"
