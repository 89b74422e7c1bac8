import os

import pyarrow as pa
import pytest

import lance_ops as lo
from tests.support.commands import csv, lance_ops, lance_ops_json, parquet, people


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "people.lance")


def ids(uri):
    return lo.dataset(uri).to_table(columns=["id"])["id"].to_pylist()


def test_the_first_append_creates_the_dataset_and_the_next_adds(uri, tmp_path):
    first = lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 10)))
    assert first.stdout.startswith("append: created with 10 rows in 1 fragment, ")
    assert "(version 1, " in first.stdout
    second = lance_ops("append", uri, csv(tmp_path / "b.csv", people(10, 15)))
    assert second.stdout.startswith("append: added 5 rows in 1 fragment, ")
    assert "(version 1 -> 2, " in second.stdout
    assert lo.dataset(uri).to_table().equals(people(0, 15))


def test_json_has_all_numbers_of_the_result(uri, tmp_path):
    source = parquet(tmp_path / "a.parquet", people(0, 10))
    values = lance_ops_json("append", uri, source, "--max-rows-per-file", 4)
    assert values["seconds"] > 0
    assert values["bytes_written"] > 0
    assert values.pop("transaction_uuid")
    assert values | {"seconds": 0, "bytes_written": 0} == {
        "operation": "append",
        "uri": uri,
        "read_version": None,
        "version": 1,
        "seconds": 0,
        "attempts": 1,
        "conflicts": [],
        "rebased_over": [],
        "already_committed": False,
        "mode": "create",
        "rows_added": 10,
        "rows_deleted": 0,
        "fragments_added": 3,
        "fragments_updated": 0,
        "fragments_removed": 0,
        "bytes_written": 0,
    }


def test_a_glob_a_folder_and_several_paths_name_the_same_rows(uri, tmp_path):
    for month in (1, 2, 3):
        parquet(tmp_path / "in" / f"{month}.parquet", people(month * 10, month * 10 + 5))
    folder = tmp_path / "in"
    wanted = [*range(10, 15), *range(20, 25), *range(30, 35)]
    lance_ops("append", uri, folder / "*.parquet")
    assert ids(uri) == wanted
    lance_ops("append", uri, folder, "--mode", "overwrite")
    assert ids(uri) == wanted
    paths = (folder / f"{number}.parquet" for number in (1, 2, 3))
    lance_ops("append", uri, *paths, "--mode", "overwrite")
    assert ids(uri) == wanted


def test_csv_columns_become_the_types_of_the_dataset(uri, tmp_path):
    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 2)))
    (tmp_path / "b.csv").write_text("name,score,id\nx,1,7\n")
    lance_ops("append", uri, tmp_path / "b.csv")
    assert lo.dataset(uri).to_table(filter="id = 7").to_pylist() == [{"id": 7, "name": "x", "score": 1.0}]


def test_create_refuses_a_dataset_that_is_there(uri, tmp_path):
    source = parquet(tmp_path / "a.parquet", people(0, 2))
    lance_ops("append", uri, source, "--mode", "create")
    result = lance_ops("append", uri, source, "--mode", "create", code=1)
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "error: the dataset already exists",
        f"  file: {uri}",
        "  hint: use mode 'append' or 'overwrite'",
    ]


def test_overwrite_replaces_the_schema_too(uri, tmp_path):
    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 2)))
    other = pa.table({"x": pa.array([1.5])})
    result = lance_ops("append", uri, parquet(tmp_path / "b.parquet", other), "--mode", "overwrite")
    assert "replaced all by 1 row" in result.stdout
    assert lo.dataset(uri).to_table().equals(other)


def test_every_mismatch_is_listed_and_nothing_written(uri, tmp_path):
    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 2)))
    bad = people(2, 4).drop(["score"]).append_column("age", pa.array([1, 2]))
    source = parquet(tmp_path / "bad.parquet", bad)
    text = lance_ops("append", uri, source, code=1).stderr
    assert text.splitlines()[:3] == [
        f"error: {source} does not fit the dataset",
        "  - score: missing, the dataset has it as double; --fill-missing writes nulls",
        "  - age: column not found in the dataset (int64 in the data)",
    ]
    assert lo.dataset(uri).version == 1
    assert len(list((tmp_path / "people.lance" / "data").iterdir())) == 1


def test_an_error_in_json_goes_to_standard_error_with_its_type(uri, tmp_path):
    import json

    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 2)))
    source = parquet(tmp_path / "bad.parquet", people(2, 4).drop(["score"]))
    result = lance_ops("append", uri, source, "--json", code=1)
    assert result.stdout == ""
    error = json.loads(result.stderr)
    assert error["error"] == "SchemaMismatchError"
    assert error["mismatches"] == ["score: missing, the dataset has it as double; fill_missing writes nulls"]
    assert error["path"] == uri


def test_missing_nullable_columns_are_filled_when_asked(uri, tmp_path):
    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 2)))
    lance_ops("append", uri, parquet(tmp_path / "b.parquet", people(2, 3).drop(["score"])), "--fill-missing")
    assert lo.dataset(uri).to_table()["score"].to_pylist() == [0.0, 0.5, None]


def test_a_job_key_makes_a_repetition_harmless(uri, tmp_path):
    source = parquet(tmp_path / "a.parquet", people(0, 3))
    lance_ops("append", uri, source, "--job-key", "january")
    again = lance_ops("append", uri, source, "--job-key", "january")
    assert again.stdout == "append: this job was already committed as version 1\n"
    assert lance_ops_json("append", uri, source, "--job-key", "january")["already_committed"] is True
    assert ids(uri) == [0, 1, 2]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nothing.parquet", "no such input file"),
        ("no*.parquet", "no input file matches"),
        ("notes.txt", "notes.txt"),
    ],
)
def test_input_that_is_not_there_or_not_known_is_one_clear_error(source, message, uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    result = lance_ops("append", uri, source, code=1)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not os.path.exists(uri)


def test_a_storage_version_that_cannot_be_written_is_refused(uri, tmp_path):
    source = parquet(tmp_path / "a.parquet", people(0, 3))
    text = lance_ops("append", uri, source, "--data-storage-version", "7.5", code=1).stderr
    assert "storage version 7.5 is not supported" in text
    assert "what can be written: 2.0" in text
    assert not os.path.exists(uri)


def test_rows_of_a_new_dataset_keep_their_ids_when_asked(uri, tmp_path):
    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 3)), "--stable-row-ids")
    assert lo.dataset(uri).manifest.uses_stable_row_ids


@pytest.mark.filterwarnings("default::lance_ops.errors.SuspiciousInputWarning")
def test_a_suspicious_input_is_one_line_on_standard_error(uri, tmp_path):
    (tmp_path / "a.csv").write_text("id;name\n1;x\n")
    result = lance_ops("append", uri, tmp_path / "a.csv")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"warning: {tmp_path}/a.csv is read as a single column, 'id;name'")
    assert ".py" not in line


def test_columns_of_folders_are_appended_and_a_dataset_without_them_is_told_the_command(uri, tmp_path):
    source = parquet(tmp_path / "day=2024-05-01" / "a.parquet", people(0, 3))
    lance_ops("append", uri, source.parent)
    assert lo.dataset(uri).count_rows("day = DATE '2024-05-01'") == 3
    lance_ops("drop-columns", uri, "day")
    assert "CAST(NULL AS DATE)" in lance_ops("append", uri, source.parent, code=1).stderr


def test_a_file_where_the_dataset_should_be_is_named(tmp_path):
    source = csv(tmp_path / "a.csv", people(0, 2))
    assert "a part of this path is a file" in lance_ops("append", source, source, code=1).stderr
