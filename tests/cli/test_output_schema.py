"""The documented JSON schema describes what --json prints."""

import json

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.cli import main
from tests.support.commands import lance_ops, lance_ops_json
from tools.output_schema import SCHEMA, output_schema, text

DEFINITIONS = output_schema()["$defs"]


def test_the_file_is_made_from_the_results():
    assert SCHEMA.read_text(encoding="utf-8") == text(), "run python -m tools.output_schema"


def test_each_definition_is_of_a_command():
    names = {name.split()[0] for name in DEFINITIONS} - {"--dry-run", "error"}
    assert names <= set(main.commands)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("schema")
    pq.write_table(pa.table({"id": range(10), "kind": list("ab") * 5}), path / "a.parquet")
    lo.append(str(path / "t.lance"), pq.read_table(path / "a.parquet"))
    return path


CALLS = {
    "append": "append t.lance a.parquet",
    "update": "update t.lance --set id=id+1 --where id=3",
    "delete": "delete t.lance id=2",
    "merge-insert": "merge-insert t.lance a.parquet --on id --on-duplicates first",
    "replace": "replace t.lance id<1 a.parquet --allow-empty",
    "index": "index t.lance id",
    "add-columns": "add-columns t.lance --set n=id*2",
    "alter-column": "alter-column t.lance n --name m",
    "drop-columns": "drop-columns t.lance m",
    "restore": "restore t.lance 2",
    "compact": "compact t.lance",
    "cleanup": "cleanup t.lance --retain 50",
    "maintain": "maintain t.lance",
    "fsck": "fsck t.lance",
    "show": "show t.lance",
    "schema": "schema t.lance",
    "head": "head t.lance",
    "count": "count t.lance",
    "query": "query t.lance",
    "query --output": "query t.lance -o q.csv",
    "query --explain": "query t.lance --explain",
    "changes": "changes t.lance --since 1 --until 2",
    "diff": "diff t.lance 1 2",
    "export": "export t.lance e.csv",
    "sql": "sql SELECT/**/id/**/FROM/**/t.lance",
    "sql --output": "sql SELECT/**/id/**/FROM/**/t.lance -o s.jsonl",
    "history": "history t.lance",
    "health": "health t.lance",
    "indices": "indices t.lance",
    "tag": "tag t.lance one",
    "branch": "branch t.lance side",
    "clone": "clone t.lance c.lance",
    "--dry-run": "delete t.lance id=5 --dry-run",
    "truncate": "truncate t.lance",
}


def test_every_output_fits_its_definition(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name, call in CALLS.items():
        arguments = call.split()
        if name == "replace":
            # Its rows must match the condition.
            pq.write_table(pa.table({"id": [0], "kind": ["z"]}), "zero.parquet")
            arguments[3] = "zero.parquet"
        printed = lance_ops_json(*arguments)
        jsonschema.validate(printed, DEFINITIONS[name])
        known = DEFINITIONS[name].get("properties", printed)
        assert printed.keys() <= known.keys(), name
    assert DEFINITIONS.keys() - CALLS.keys() == {"error", "migrate-paths", "migrate-store", "replace-columns"}


def test_an_error_fits_its_definition(folder):
    done = lance_ops("count", folder / "nothing.lance", "--json", code=1)
    jsonschema.validate(json.loads(done.stderr), DEFINITIONS["error"])
