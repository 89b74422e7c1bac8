"""Mistakes in Python: wrong names, types and values end in typed errors with the argument and the fix."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError

T, NEW = "t.lance", "new.lance"
ROWS = pa.table({"id": [7]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mistakes")
    vectors = pa.array([[1.0, 2.0]] * 20, pa.list_(pa.float32(), 2))
    lo.append(path / T, pa.table({"id": range(20), "kind": list("ab") * 10, "v": vectors}))
    (path / "t.csv").write_text("id,kind\n1,a\n")
    return path


def ds() -> Any:
    return lo.dataset(T)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "rows of an int": (lambda: lo.append(T, 5), "a list of dicts"),
    "a misspelt argument": (lambda: lo.append(T, ROWS, jobkey="x"), "did you mean 'job_key'"),
    "a misspelt version": (lambda: lo.dataset(T, verison=1), "did you mean 'version'"),
    "an unknown mode": (lambda: lo.write_dataset(ROWS, NEW, mode="upsert"), "one of create, append"),
    "a dataset that is there": (lambda: lo.write_dataset(ROWS, T), "use mode 'append' or 'overwrite'"),
    "no path": (lambda: lo.dataset(None), "uri must be a URI or path"),
    "a dataset that is not there": (lambda: lo.dataset("tt.lance"), "did you mean"),
    "a file of a similar name": (lambda: lo.append(NEW, "t.cvs"), "did you mean 't.csv'"),
    "no similar file": (lambda: lo.append(NEW, "nope.csv"), "working directory"),
    "a schema as text": (lambda: lo.write_dataset([{"a": 1}], NEW, schema="a int"), "an Arrow schema"),
    "a schema without a column": (
        lambda: lo.write_dataset(pa.table({"a": [1], "b": [2]}), NEW, schema=pa.schema([("a", pa.int64())])),
        "columns that the schema lacks: b",
    ),
    "a type of Python": (lambda: lo.read_files("t.csv", column_types={"id": int}), "'int64', 'string'"),
    "a misspelt option of files": (lambda: lo.read_files("t.csv", delimeter=";"), "did you mean 'delimiter'"),
    "nulls as text": (lambda: lo.read_files("t.csv", null_values="NA"), "a list of texts"),
    "columns as text": (lambda: ds().to_table(columns="id"), "columns=['id']"),
    "an unknown column": (lambda: ds().to_table(columns=["idd"]), "columns are: id, kind, v"),
    "a filter as a list": (lambda: ds().to_table(filter=[("id", ">", 1)]), "pyarrow.compute.field('id') > 1"),
    "a filter as a function": (lambda: ds().to_table(filter=lambda row: row), 'write "id > 1"'),
    "a column of an expression": (lambda: ds().to_table(filter=pc.field("idd") > 1), "columns: id, kind"),
    "a limit as text": (lambda: ds().to_table(limit="5"), "limit must be a number of rows"),
    "a row that is not there": (lambda: ds().take([99]), "no live row has offset 99"),
    "no predicate": (lambda: lo.delete(T, ""), "write 'true' to delete every row"),
    "a value that is no SQL": (lambda: lo.update(T, {"id": 1}), "SQL of column 'id'"),
    "text without quotes": (lambda: lo.update(T, {"kind": "hello"}), "single quotes for a string: 'hello'"),
    "an unknown key": (lambda: lo.merge_insert(T, ROWS, on="nope"), "it has id, kind, v"),
    "a builder without clauses": (lambda: ds().merge_insert("id").execute(ROWS), "when_matched_update_all()"),
    "an unknown kind of index": (lambda: lo.create_index(T, "id", "BTRE"), "known kinds: BTREE"),
    "a misspelt parameter": (lambda: lo.create_index(T, "v", "IVF_PQ", num_partition=2), "'num_partitions'"),
    "partitions as text": (
        lambda: lo.create_index(T, "v", "IVF_PQ", num_partitions="many"),
        "num_partitions must be a whole number from 1 to 1,048,576, got 'many'",
    ),
    "a vector of another length": (
        lambda: ds().to_table(nearest={"column": "v", "q": [1.0]}),
        "q has 1 numbers, the vectors of the column have 2",
    ),
    "a policy as text": (lambda: lo.maintain(T, policy="p.yaml"), "must be a MaintenancePolicy"),
    "options of a store as text": (
        lambda: lo.dataset("s3://b/t", storage_options="x"),
        "storage_options must be",
    ),
    "an unknown option of a store": (
        lambda: lo.dataset("s3://b/t", storage_options={"aws_regin": "x"}),
        "did you mean 'aws_region'",
    ),
    "a frame of several types": (lambda: lo.append(NEW, pd.DataFrame({"a": [1, "x"]})), "frame.astype"),
    "an export into the dataset": (lambda: lo.export(T, f"{T}/data/a.csv"), "inside of the dataset"),
    "an empty name of a table": (lambda: lo.sql("SELECT * FROM t.parquet"), "FROM 't.parquet'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_a_typed_error_with_the_fix(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    monkeypatch.chdir(folder)
    call, told = MISTAKES[mistake]
    with pytest.raises(LanceOpsError) as caught:
        call()
    assert told in str(caught.value)
    assert ds().version == 1
    assert not Path(NEW, "_versions").exists()


def test_a_statement_names_a_dataset_without_quotes_and_below_a_root(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for statement, root in (
        ("SELECT count(*) AS n FROM t.lance", None),
        ("SELECT count(*) AS n FROM t.lance", "."),
        ("SELECT count(*) AS n FROM t", "."),
    ):
        assert lo.sql(statement, root=root)["n"].to_pylist() == [20]
    assert lo.sql("DELETE FROM t.lance WHERE id > 100").to_pylist() == [{"num_affected_rows": 0}]
