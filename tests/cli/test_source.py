"""Input of commands: standard input, options of text, queries, dry runs, progress and interrupts."""

import pytest
from click.testing import CliRunner

import lance_ops as lo
from lance_ops.cli import main
from lance_ops.cli.command import running
from lance_ops.maintenance.progress import ProgressEvent
from tests.support.commands import lance_ops, lance_ops_json


def piped(*arguments, data, code=0):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=data)
    assert result.exit_code == code, result.output
    return result


def test_standard_input_under_a_job_key_is_written_once(tmp_path):
    uri = tmp_path / "t.lance"
    for said in ("created with 1 row", "already committed as version 1"):
        found = piped("append", uri, "-", "--job-key", "k", data='{"id": 1}\n')
        assert said in found.stdout
    failed = piped("append", uri, "-", "--format", "jsonl", data='{"id": 2}\n{"id"', code=1)
    assert "line 2" in failed.stderr
    assert "standard input" in failed.stderr
    assert lo.dataset(uri).version == 1


def test_options_of_text_and_a_dry_run(tmp_path):
    (tmp_path / "a.csv").write_bytes("id;zip;n\u00e4me\n1;01234;-\n".encode("latin-1"))
    uri = tmp_path / "t.lance"
    options = ["--delimiter", ";", "--encoding", "latin-1", "--column-type", "zip=string", "--null", "-"]
    options += ["--column-type", "n\u00e4me=string"]
    shown = lance_ops("append", uri, tmp_path / "a.csv", *options, "--dry-run")
    assert "nothing was written" in shown.stdout
    assert not uri.exists()
    values = lance_ops_json("append", uri, tmp_path / "a.csv", *options, "--dry-run")
    assert [(item["name"], item["written"]) for item in values["columns"]][:2] == [
        ("id", "int64"),
        ("zip", "string"),
    ]
    lance_ops("append", uri, tmp_path / "a.csv", *options)
    assert lo.dataset(uri).to_table().to_pylist() == [{"id": 1, "zip": "01234", "n\u00e4me": None}]


def test_a_query_and_another_table_are_input_of_append_replace_and_merge_insert(tmp_path):
    first, second = tmp_path / "first.lance", tmp_path / "second.lance"
    lance_ops("append", first, "--query", "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(id, s)")
    lance_ops("append", second, first, "--source-columns", "id,s", "--source-filter", "id > 1")
    lance_ops("merge-insert", second, first, "--on", "id")
    lance_ops("replace", second, "id = 2", "--query", "SELECT 2 AS id, 'new' AS s")
    assert sorted(row["s"] for row in lo.dataset(second).to_table().to_pylist()) == ["a", "new"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "or use --query"),
        (["a.csv", "--query", "SELECT 1"], "either SOURCE or --query"),
        (["a.csv", "--database", "x.db"], "--database requires --query"),
        (["--query", "SELECT 1", "--format", "csv"], "--format is for files"),
        (["a.csv", "--source-version", "1"], "for one Lance table"),
    ],
)
def test_options_that_exclude_each_other_are_named(tmp_path, arguments, said):
    assert said in lance_ops("append", tmp_path / "t.lance", *arguments, code=2).stderr


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "nothing was committed"),
        (["committing"], "during a commit"),
        (["committing", "committed"], "1 commit made so far"),
    ],
)
def test_an_interrupt_says_what_was_committed(messages, said):
    def interrupted():
        with running(None) as run:
            for message in messages:
                run["progress"](ProgressEvent("append", 0, 1, message))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=said):
        interrupted()
