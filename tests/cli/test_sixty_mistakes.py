"""Sixty mistakes of newcomers: each message names the thing, says what to do, and is plain English.

Each mistake is judged alike: the exit code, no traceback, no names of Python or text of other libraries, the
thing that is wrong by name, and the way out. Nothing is written by any of them.
"""

import datetime as dt
import gzip
import re
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import lance_ops as lo
from lance_ops.cli import main

# Words of Python and of other libraries: no user of the command line types them.
FOREIGN = re.compile(
    r"\b[a-z]+(?:_[a-z]+)+(?:=|\(\))|=True|\[Errno|Traceback|\w+Error\b|\blance_ops\.|\bpyarrow\.|"
    r"^Parser Error|Catalog Error|Candidate functions|magic bytes.*Either|sqlalchemy|dlopen"
)


class Mistake(NamedTuple):
    """A command line, what its message names, and what it says to do."""

    arguments: list[str]
    names: str
    advises: str
    code: int = 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sixty")
    rows = range(20)
    table = pa.table(
        {
            "id": rows,
            "kind": list("ab") * 10,
            "price": [float(number) for number in rows],
            "day": [dt.date(2024, 5, 1) + dt.timedelta(days=number) for number in rows],
            "tags": [["x"]] * 20,
            "user": [{"name": "n"}] * 20,
            "v": pa.array([[1.0, 2.0]] * 20, pa.list_(pa.float32(), 2)),
        }
    )
    lo.append(str(path / "t.lance"), table)
    lo.create_index(str(path / "t.lance"), "id")
    lo.append(str(path / "u.lance"), table.select(["id", "kind"]))
    pacsv.write_csv(table.select(["id", "kind", "price", "day"]), path / "t.csv")
    pq.write_table(table, path / "t.parquet")
    (path / "t.parquet.csv").write_bytes((path / "t.parquet").read_bytes())
    files = {
        "bad.parquet": b"PAR1" + b"x" * 50,
        "zero.parquet": b"",
        "bad.avro": b"Obj\1zz",
        "bad.orc": b"ORCzz",
        "book.csv": b"PK\3\4zzzz",
        "packed.csv": gzip.compress(b"id\n1\n"),
        "cut.csv.gz": gzip.compress(bytes(range(256)) * 20)[:100],
        "not.csv.gz": b"id\n1\n",
        "head.csv": b"id,kind\n",
        "index.csv": b",id\n0,1\n",
        "comma.csv": b"id,\n1,\n",
        "twice.jsonl": b'{"id": 1, "id": 2}\n',
        "late.csv": b"id,kind\n" + b"1,a\n" * 20 + b"x,b\n",
        "notes.txt": b"hello\n",
        "fragments.json": b"hello",
        "latin.csv": "id,name\n1,é\n".encode("latin-1"),
        "policy.yaml": b"version: 1\nstorse: []\n",
        "list.yaml": b"- a\n",
    }
    for name, data in files.items():
        (path / name).write_bytes(data)
    (path / "folder").mkdir()
    return path


NEW = ["append", "new.lance"]

MISTAKES = {
    "where for filter": Mistake(["count", "t.lance", "--where", "id > 1"], "--where", "'--filter'", 2),
    "filter for where": Mistake(
        ["update", "t.lance", "--set", "id=1", "--filter", "id=1"], "--filter", "'--where'", 2
    ),
    "filter of a delete": Mistake(
        ["delete", "t.lance", "--where", "id = 1"], "--where", "delete URI PREDICATE", 2
    ),
    "rows of head": Mistake(["head", "t.lance", "--rows", "3"], "--rows", "'--limit'", 2),
    "bare number of head": Mistake(["head", "t.lance", "3"], "(3)", "--limit 3", 2),
    "bare condition": Mistake(["query", "t.lance", "id > 1"], "(id > 1)", "--filter 'id > 1'", 2),
    "bare file of query": Mistake(["query", "t.lance", "out.csv"], "(out.csv)", "--output out.csv", 2),
    "two datasets": Mistake(["schema", "t.lance", "u.lance"], "(u.lance)", "lance-ops schema URI", 2),
    "out for a file": Mistake(["export", "t.lance", "--out", "x.csv"], "--out", "export URI FILE", 2),
    "separator": Mistake([*NEW, "t.csv", "--sep", ";"], "--sep", "'--delimiter'", 2),
    "underscores in an option": Mistake([*NEW, "t.csv", "--dry_run"], "--dry_run", "'--dry-run'", 2),
    "British command": Mistake(["optimise", "t.lance"], "optimise", "maintain", 2),
    "format without a file": Mistake(["query", "t.lance", "--format", "csv"], "--format", "--output FILE", 2),
    "kind of nothing": Mistake(["sql", "SELECT 1", "--overwrite"], "--overwrite", "--output FILE", 2),
    "size without unit": Mistake(["compact", "t.lance", "--target-bytes", "10XB"], "10XB", "10MB", 2),
    "age without unit": Mistake(["cleanup", "t.lance", "--older-than", "14"], "'14'", "14d", 2),
    "output in the dataset": Mistake(
        ["query", "t.lance", "-o", "t.lance/x.csv"], "t.lance/x.csv is inside of the dataset", "outside"
    ),
    "export in the dataset": Mistake(
        ["export", "t.lance", "u.lance/data/x.csv"], "inside of the dataset", "outside of it"
    ),
    "folder in a dataset": Mistake(["query", "t.lance/data"], "inside of a dataset", "t.lance'"),
    "file in a dataset": Mistake(["show", "t.lance/_versions/1.manifest"], "inside of a dataset", "t.lance'"),
    "text file as a dataset": Mistake(["query", "notes.txt"], "the path is a file", "append creates"),
    "empty address": Mistake(["query", ""], "not a URI or path", "s3://bucket/folder"),
    "quote in a string": Mistake(["query", "t.lance", "--filter", "kind = 'it's'"], "not closed", "twice"),
    "two statements": Mistake(
        ["query", "t.lance", "--filter", "id > 1; DROP TABLE t"], "id > 1", "without ;"
    ),
    "aggregate": Mistake(["query", "t.lance", "--filter", "count(*) > 1"], "COUNT", "SELECT"),
    "field of a struct": Mistake(["query", "t.lance", "--filter", "user.nam = 'n'"], "'nam'", "`name`"),
    "day that there is not": Mistake(
        ["query", "t.lance", "--filter", "day > '2024-13-45'"], "2024-13-45", "a day of the calendar"
    ),
    "version zero": Mistake(["query", "t.lance", "--version", "0"], "version 0", "newest version is 2"),
    "input that is not there": Mistake([*NEW, "t.parqet"], "t.parqet", "did you mean 't."),
    "input far away": Mistake([*NEW, "nowhere/nope.csv"], "nowhere/nope.csv", "working directory"),
    "glob without matches": Mistake([*NEW, "nope/*.csv"], "nope/*.csv", "check the pattern"),
    "damaged Parquet": Mistake([*NEW, "bad.parquet"], "bad.parquet", "write the file again"),
    "empty Parquet": Mistake([*NEW, "zero.parquet"], "zero.parquet", "write the file again"),
    "damaged Avro": Mistake([*NEW, "bad.avro"], "not an Avro file", "write the file again"),
    "damaged ORC": Mistake([*NEW, "bad.orc"], "bad.orc", "write the file again"),
    "Parquet as CSV": Mistake([*NEW, "t.parquet.csv"], "a Parquet file", "--format parquet"),
    "CSV as Parquet": Mistake([*NEW, "t.csv", "--format", "parquet"], "t.csv", "--format csv"),
    "workbook": Mistake([*NEW, "book.csv"], "a workbook of Excel", "save it as CSV"),
    "packed without the name": Mistake([*NEW, "packed.csv"], "compressed by gzip", "format"),
    "cut off gzip": Mistake([*NEW, "cut.csv.gz"], "ends early", "write the file again"),
    "plain text as gzip": Mistake([*NEW, "not.csv.gz"], "not compressed as its name says", "rename it"),
    "unknown format": Mistake([*NEW, "notes.txt"], "notes.txt", "such as --format csv"),
    "header alone": Mistake([*NEW, "head.csv"], "id: it has no values", "--column-type name=string"),
    "index of pandas": Mistake([*NEW, "index.csv"], "column 1 of the header has no name", "name it"),
    "comma at the end": Mistake([*NEW, "comma.csv"], "column 2 of the header", "remove the delimiter"),
    "key twice": Mistake([*NEW, "twice.jsonl"], "line 1: an object has the column 'id' twice", "remove one"),
    "wrong value": Mistake(["append", "u.lance", "late.csv"], "line 22: 'x'", "--null 'x'"),
    "wrong encoding": Mistake([*NEW, "latin.csv"], "latin.csv", "--encoding latin-1"),
    "type of no column": Mistake([*NEW, "t.csv", "--column-type", "nope=int64"], "'nope'", "id, kind, price"),
    "type that there is not": Mistake([*NEW, "t.csv", "--column-type", "id=integer"], "'integer'", "int64"),
    "table of no database": Mistake([*NEW, "--query", "SELECT * FROM nope"], "nope", "FROM 'events.parquet'"),
    "query that does not parse": Mistake([*NEW, "--query", "SELEC 1"], "SELEC", "near SELEC 1"),
    "failing query": Mistake(
        [*NEW, "--query", "SELECT CASE WHEN range = 200000 THEN 'x' ELSE '1' END::INT a FROM range(200001)"],
        "'x'",
        "near",
    ),
    "kind of database": Mistake(
        [*NEW, "--query", "SELECT 1", "--database", "postgress://h/x"],
        "'postgress'",
        "postgresql://user@host",
    ),
    "option of a store": Mistake(
        ["append", "s3://b/t.lance", "t.csv", "--storage-option", "aws_regin=x"],
        "'aws_regin'",
        "did you mean 'aws_region'",
    ),
    "key of the source": Mistake(["merge-insert", "t.lance", "t.csv", "--on", "tags"], "'tags'", "it has id"),
    "nothing to alter": Mistake(["alter-column", "t.lance", "kind"], "nothing would change", "--type"),
    "name of another column": Mistake(
        ["alter-column", "t.lance", "kind", "--name", "id"], "'id'", "another name"
    ),
    "parameter of an index": Mistake(
        ["index", "t.lance", "v", "--kind", "IVF_PQ", "--param", "num_partitions=abc"],
        "got 'abc'",
        "leave it out",
    ),
    "file in SQL": Mistake(["sql", "SELECT * FROM t.csv"], "t.csv", "FROM 't.csv'"),
    "types in SQL": Mistake(["sql", "SELECT price + kind FROM t.lance"], "'+(DOUBLE, VARCHAR)'", "CAST("),
    "dataset that there is not, in SQL": Mistake(
        ["sql", "OPTIMIZE nope.lance"], "nope.lance", "append creates"
    ),
    "fragments of text": Mistake(
        ["commit", "t.lance", "fragments.json"], "line 1, character 1", "write-fragments"
    ),
    "folder as a policy": Mistake(["fleet", "plan", "--policy", "folder"], "is a folder", "name of the file"),
    "data as a policy": Mistake(
        ["fleet", "plan", "--policy", "t.parquet"], "not text in UTF-8", "a YAML file"
    ),
    "key of a policy": Mistake(
        ["fleet", "lint", "--policy", "policy.yaml"], "unknown key 'storse'", "is stores meant"
    ),
    "list as a policy": Mistake(["fleet", "plan", "--policy", "list.yaml"], "line 1", "names and values"),
    "fleet of nothing": Mistake(["fleet", "adopt", "folder"], "folder", "the folder or bucket above"),
}


def test_there_are_sixty_mistakes_and_more() -> None:
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_has_a_name_and_a_way_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    monkeypatch.chdir(folder)
    before = {item.name for item in folder.iterdir()}
    arguments, names, advises, code = MISTAKES[mistake]
    result = CliRunner().invoke(main, arguments, prog_name="lance-ops")
    assert isinstance(result.exception, SystemExit), result.exception
    text = " ".join(result.stderr.split())
    assert result.exit_code == code, text
    assert names in text
    assert advises in text
    assert FOREIGN.search(result.stderr) is None, text
    assert not result.stdout
    assert {item.name for item in folder.iterdir()} - before <= {"new.lance"}
    assert not list((folder / "new.lance").glob("_versions/*"))
