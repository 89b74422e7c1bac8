"""delete, compact, index and cleanup: what they print, and that a dry run changes nothing."""

import json
from datetime import timedelta

import pytest

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json, parquet, people


@pytest.fixture
def uri(tmp_path):
    """Three fragments of 40, 30 and 10 rows in three versions."""
    uri = str(tmp_path / "people.lance")
    for start, stop in ((0, 40), (40, 70), (70, 80)):
        lance_ops("append", uri, parquet(tmp_path / f"{start}.parquet", people(start, stop)))
    return uri


def newest(uri):
    return lo.dataset(uri).version


def test_a_dry_run_of_delete_says_how_many_rows_of_which_fragments(uri):
    text = lance_ops("delete", uri, "id >= 60", "--dry-run").stdout
    head, *table = text.splitlines()
    assert head == f"delete 'id >= 60' at version 3 of {uri}: 20 rows of 80 (25.0%)"
    assert [line.split() for line in table] == [
        ["fragment", "live", "rows", "matches", "then"],
        ["1", "30", "10", "keeps", "20"],
        ["2", "10", "10", "is", "emptied"],
    ]
    assert newest(uri) == 3


def test_a_dry_run_of_delete_in_json(uri):
    values = lance_ops_json("delete", uri, "id >= 60", "--dry-run")
    assert values == {
        "operation": "delete",
        "dry_run": True,
        "uri": uri,
        "read_version": 3,
        "predicate": "id >= 60",
        "columns": ["id"],
        "fragments_searched": 3,
        "total_rows": 80,
        "rows_matched": 20,
        "fragments": [
            {"fragment": 1, "live_rows": 30, "rows_matched": 10, "removed": False},
            {"fragment": 2, "live_rows": 10, "rows_matched": 10, "removed": True},
        ],
    }


def test_columns_are_dropped_from_the_newest_version_only(uri):
    names = lo.dataset(uri).schema.names
    done = lance_ops_json("drop-columns", uri, *names[1:])
    assert (done["operation"], done["read_version"], done["version"]) == ("drop_columns", 3, 4)
    assert lo.dataset(uri).schema.names == names[:1]
    assert lo.dataset(uri, 3).schema.names == names
    assert "cannot drop" in lance_ops("drop-columns", uri, names[0], code=1).stderr


def test_delete_deletes_once(uri):
    first = lance_ops("delete", uri, "id >= 60").stdout
    assert first.startswith("delete: deleted 20 rows: 1 fragment updated, 1 removed (version 3 -> 4, ")
    second = lance_ops("delete", uri, "id >= 60").stdout
    assert second.startswith("delete: no rows match (version 4, ")
    assert lance_ops_json("delete", uri, "id = 0")["rows_deleted"] == 1
    assert lo.dataset(uri).count_rows() == 59


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ("id <", "an operand is missing"),
        ("idd < 3", "did you mean `id`?"),
        ("name > 3 +", "character"),
        ("", ""),
    ],
)
def test_a_predicate_that_is_none_is_explained(predicate, message, uri):
    result = lance_ops("delete", uri, predicate, code=1)
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert newest(uri) == 3


def test_too_great_a_share_is_not_deleted(uri):
    text = lance_ops("delete", uri, "id > 1", "--max-fraction", "0.5", code=1).stderr
    assert "78 of 80 rows match" in text
    assert "  option: --max-fraction" in text
    assert newest(uri) == 3


def test_a_job_key_makes_a_second_delete_harmless(uri):
    lance_ops("delete", uri, "id < 10", "--job-key", "trim")
    lance_ops("append", uri, parquet_of(uri, people(0, 5)))
    assert "already committed" in lance_ops("delete", uri, "id < 10", "--job-key", "trim").stdout
    assert lo.dataset(uri).count_rows("id < 10") == 5


def parquet_of(uri, table):
    from pathlib import Path

    return parquet(Path(uri).parent / "more.parquet", table)


def test_compact_plans_and_compacts(uri):
    lance_ops("delete", uri, "id < 10")
    plan = lance_ops("compact", uri, "--dry-run").stdout.splitlines()
    assert plan[0].startswith(f"compact {uri} at version 4: 3 fragments -> 1, 70 rows and ")
    assert plan[1].startswith("expected: ")
    head = ["fragments", "becomes", "live", "rows", "deleted", "size", "takes", "scan", "method", "because"]
    assert plan[2].split() == head
    assert newest(uri) == 4
    values = lance_ops_json("compact", uri, "--dry-run")
    assert (values["source_fragments"], values["live_rows"], values["deleted_rows"]) == (3, 70, 10)
    assert values["groups"][0]["fragments"] == [0, 1, 2]
    done = lance_ops("compact", uri).stdout
    assert done.startswith("compact: 3 fragments -> 1, 70 rows, ")
    assert "10 deleted rows purged" in done
    assert lance_ops("compact", uri).stdout.startswith("compact: nothing to compact (version 6, ")
    assert lo.dataset(uri).to_table().equals(people(10, 80))


def test_options_of_compact_reach_the_plan(uri):
    values = lance_ops_json("compact", uri, "--target-rows", 35, "--max-source-fragments", 2, "--dry-run")
    assert [group["fragments"] for group in values["groups"]] == [[1, 2]]
    assert lance_ops_json("compact", uri, "--max-source-bytes", 1, "--dry-run")["groups"] == []


def test_index_builds_refreshes_rebuilds_and_drops(uri, tmp_path):
    plan = lance_ops("index", uri, "id", "--dry-run").stdout.splitlines()
    assert plan[0] == "index at version 3:"
    assert plan[2].split() == ["id_idx", "BTREE", "id", "3", "80", "0", "new"]
    assert lance_ops_json("index", uri, "id", "--dry-run")["segments"][0]["fragments"] == [0, 1, 2]
    assert newest(uri) == 3
    assert "id_idx: read 80 rows, wrote 1 segment of" in lance_ops("index", uri, "id").stdout
    assert lance_ops("index", uri).stdout.startswith("index: every index covers all rows (version 4, ")
    lance_ops("append", uri, parquet(tmp_path / "more.parquet", people(80, 100)))
    values = lance_ops_json("index", uri, "--dry-run")
    assert values["coverage_before"] == 0.8
    assert (values["segments"][0]["rows"], len(values["segments"][0]["segments_merged"])) == (20, 1)
    assert "read 20 rows" in lance_ops("index", uri, "--name", "id_idx").stdout
    assert "read 100 rows" in lance_ops("index", uri, "--rebuild").stdout
    assert "read 100 rows" in lance_ops("index", uri, "id", "--replace").stdout
    assert lance_ops("index", uri, "--drop", "--name", "id_idx").stdout.startswith("index: dropped id_idx (")
    assert lo.dataset(uri).indices == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "hint: columns are: id, name, score"),
        (["name", "--kind", "quadtree"], "hint: known kinds: BTREE"),
        (["score", "--name", "id_idx"], "index 'id_idx' already exists"),
        (["--name", "score_idx"], "hint: indices: id_idx"),
        (["--drop", "--name", "score_idx"], "hint: indices: id_idx"),
    ],
)
def test_index_explains_what_it_cannot_do(arguments, message, uri):
    lance_ops("index", uri, "id")
    assert message in lance_ops("index", uri, *arguments, code=1).stderr
    assert newest(uri) == 4


def test_a_dry_run_of_cleanup_names_every_file_and_why(uri):
    lance_ops("compact", uri)
    text = lance_ops("cleanup", uri, "--older-than", "0s", "--dry-run").stdout
    assert text.startswith(f"cleanup of {uri} at version 5: 4 versions of 5 and 11 files of 15 to remove, ")
    assert text.count("used only by expired versions, last by version 4") == 4
    assert text.count("at least 0 s old") == 4
    assert "version 5: newest version" in text
    values = lance_ops_json("cleanup", uri, "--retain", 2, "--dry-run")
    assert [version["expired"] for version in values["versions"]] == [True, True, True, False, False]
    assert {file["reason"] for file in values["files"] if file["kind"] == "data"} == {
        "used by version 4",
        "used by version 5",
    }
    assert newest(uri) == 5
    assert len(lo.dataset(uri).versions()) == 5


def test_a_long_list_of_files_is_cut_unless_all_are_wanted(uri, tmp_path):
    source = parquet(tmp_path / "row.parquet", people(0, 1))
    for _ in range(20):
        lance_ops("append", uri, source)
    short = lance_ops("cleanup", uri, "--older-than", "0s", "--dry-run").stdout
    assert "... and 4 more" in short
    whole = lance_ops("cleanup", uri, "--older-than", "0s", "--dry-run", "--all").stdout
    assert "more" not in whole
    assert len(whole.splitlines()) == len(short.splitlines()) + 3


def test_cleanup_removes_what_the_plan_says(uri):
    lance_ops("compact", uri)
    result = lance_ops("cleanup", uri, "--older-than", "0s").stdout
    assert result.startswith("cleanup: removed 4 versions and 7 files, ")
    assert "1 version kept (version 5, " in result
    values = lance_ops_json("cleanup", uri, "--older-than", "0s")
    assert (values["versions_removed"], values["bytes_removed"]) == (0, 0)
    assert lo.dataset(uri).to_table().equals(people(0, 80))


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("1.5h", timedelta(minutes=90)),
        (" 14D ", timedelta(days=14)),
        ("2w", timedelta(days=14)),
    ],
)
def test_ages(text, age):
    from lance_ops.cli.options import DurationType

    assert DurationType().convert(text, None, None) == age


def test_young_versions_and_tags_stay(uri):
    from lance_ops.table.history.refs import create_tag

    create_tag(lo.dataset(uri).store, "keep", 1)
    values = lance_ops_json("cleanup", uri, "--older-than", "1h", "--dry-run")
    assert values["versions_expired"] == 0
    assert values["versions"][1]["reason"] == "younger than 1 h"
    reasons = {
        version["version"]: version["reason"]
        for version in lance_ops_json("cleanup", uri, "--retain", 1, "--dry-run")["versions"]
    }
    assert reasons == {
        1: "named by tag keep",
        2: "not one of the newest 1",
        3: "newest version",
    }


@pytest.mark.parametrize(
    "arguments",
    [["delete", "id = 1"], ["compact"], ["index", "id"], ["cleanup"], ["history"], ["health"], ["fsck"]],
)
def test_no_dataset_is_the_same_error_everywhere(arguments, tmp_path):
    missing = str(tmp_path / "nowhere.lance")
    command, *rest = arguments
    text = lance_ops(command, missing, *rest, code=1)
    assert text.stdout == ""
    assert text.stderr.startswith("error: no dataset here")
    error = json.loads(lance_ops(command, missing, *rest, "--json", code=1).stderr)
    assert (error["error"], error["path"]) == ("DatasetNotFoundError", missing)
    assert not (tmp_path / "nowhere.lance").exists()


def test_replace_puts_the_rows_of_files_in_the_place_of_others(uri, tmp_path):
    source = parquet(tmp_path / "new.parquet", people(60, 75))
    text = lance_ops("replace", uri, "id >= 60", source, "--dry-run").stdout
    assert "20 rows of 80 (25.0%)" in text
    assert newest(uri) == 3
    text = lance_ops("replace", uri, "id >= 60", source).stdout
    assert text.startswith("append: replaced 20 rows by 15 rows in 1 fragment")
    assert lo.dataset(uri).count_rows() == 75
    text = lance_ops("replace", uri, "id < 5", source, code=1).stderr
    assert "do not match the predicate" in text
    assert newest(uri) == 4


def test_job_keys_outlive_cleanup_and_compaction(uri):
    one = lo.dataset(uri).to_table().slice(0, 1)
    for key in "ab":
        lo.append(uri, one, job_key=key)
    lance_ops("compact", uri)
    # An option of earlier commits, which has no effect any more.
    lance_ops("cleanup", uri, "--retain", 1, "--job-keys", "0s")
    for key in "ab":
        assert lo.append(uri, one, job_key=key).already_committed
