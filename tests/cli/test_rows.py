"""update, merge-insert, add-columns and alter-column: what they do, print and refuse."""

import pyarrow as pa
import pytest

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json, parquet, people


@pytest.fixture
def uri(tmp_path):
    """Two fragments of 10 and 5 rows in two versions."""
    uri = str(tmp_path / "people.lance")
    for start, stop in ((0, 10), (10, 15)):
        lance_ops("append", uri, parquet(tmp_path / f"{start}.parquet", people(start, stop)))
    return uri


def names(uri, condition):
    return lo.dataset(uri).to_table(filter=condition)["name"].to_pylist()


def test_rows_are_updated_once_under_a_job_key(uri):
    arguments = ("update", uri, "--set", "score=score + 1", "--set", "name=upper(name)", "--where", "id < 3")
    lance_ops(*arguments, "--dry-run")
    assert lo.dataset(uri).version == 2
    for already in (False, True):
        done = lance_ops_json(*arguments, "--job-key", "k")
        assert (done["rows_updated"], done["already_committed"]) == (0 if already else 3, already)
    assert sorted(names(uri, "score IN (1, 1.5, 2) AND id < 3")) == ["NAME 0", "NAME 1", "NAME 2"]
    assert "column 'nope' not found" in lance_ops("update", uri, "--set", "nope=1", code=1).stderr
    assert (
        "use single quotes for a string: 'Zoe'"
        in lance_ops("update", uri, "--set", "name=Zoe", code=1).stderr
    )


def test_files_are_merged_by_a_key(uri, tmp_path):
    more = people(13, 18).set_column(1, "name", pa.array([f"new {n}" for n in range(13, 18)]))
    source = parquet(tmp_path / "more.parquet", more)
    lance_ops("merge-insert", uri, source, "--on", "id", "--dry-run")
    assert lo.dataset(uri).version == 2
    done = lance_ops_json("merge-insert", uri, source, "--on", "id")
    assert (done["rows_updated"], done["rows_inserted"]) == (2, 3)
    assert sorted(names(uri, "id >= 12")) == ["name 12", *(f"new {n}" for n in range(13, 18))]
    twice = parquet(tmp_path / "twice.parquet", pa.concat_tables([more, more]))
    assert "id" in lance_ops("merge-insert", uri, twice, "--on", "id", code=1).stderr
    assert lo.dataset(uri).count_rows() == 18


def test_columns_are_added_and_altered(uri):
    lance_ops("add-columns", uri, "--set", "half=id / 2.0")
    done = lance_ops_json("alter-column", uri, "id", "--type", "int16", "--name", "number", "--required")
    assert done["changes"] == ["id is named number", "id becomes int16", "id may not be null any more"]
    schema = lo.dataset(uri).schema
    assert schema.names == ["number", "name", "score", "half"]
    assert schema.field("number") == pa.field("number", pa.int16(), nullable=False)
    assert lo.dataset(uri).to_table(filter="number = 14")["half"].to_pylist() == [7.0]
    assert "(no file)" in lance_ops("alter-column", uri, "half", "--name", "h", "--dry-run").stdout
    assert "write for example int64" in lance_ops("alter-column", uri, "half", "--type", "int", code=2).stderr
    assert "no column" in lance_ops("alter-column", uri, "nope", "--name", "h", code=1).stderr


def test_columns_are_added_by_a_function_and_from_files(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made_here.py").write_text(
        "import pyarrow as pa\n"
        "def twice(batch):\n"
        "    return pa.record_batch([pa.array(batch['id'].to_numpy() * 2)], ['twice'])\n"
    )
    lance_ops("add-columns", uri, "--function", "made_here:twice", "--job-key", "k")
    lance_ops("add-columns", uri, "--from", parquet(tmp_path / "y.parquet", pa.table({"y": range(15)})))
    assert lo.dataset(uri).to_table(filter="id = 7").to_pylist()[0].items() >= {"twice": 14, "y": 7}.items()
    assert "cannot import" in lance_ops("add-columns", uri, "--function", "made_here:no", code=2).stderr
    lance_ops("add-columns", uri, "--set", "z=1", "--function", "made_here:twice", code=2)
