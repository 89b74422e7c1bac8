"""What the command says about itself, and about calls that make no sense."""

import subprocess
import sys

import click
import pytest

from lance_ops.cli import main
from lance_ops.cli.options import SecondsType, SizeType
from tests.support.commands import lance_ops

COMMANDS = list(main.commands)


def test_the_commands_come_in_the_order_of_a_table_s_life():
    listed = [
        line.split()[0] for line in lance_ops("--help").stdout.partition("Commands:")[2].splitlines() if line
    ]
    assert listed == COMMANDS
    assert listed[:6] == ["append", "replace", "merge-insert", "update", "delete", "truncate"]
    columns = ["add-columns", "merge", "replace-columns", "alter-column", "drop-columns"]
    upkeep = ["maintain", "compact", "compact-columns", "compact-wal", "index", "cleanup", "undo-cleanup"]
    assert listed[6:18] == [*columns, *upkeep]
    assert listed[18:25] == ["tag", "branch", "restore", "clone", "history", "health", "indices"]


def test_the_list_of_commands_cuts_no_sentence_off():
    listing = lance_ops("--help").stdout.partition("Commands:")[2]
    assert "..." not in listing


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_every_option_has_a_help_text(command):
    text = lance_ops(command, "--help").stdout
    assert text.startswith(f"Usage: main {command}")
    assert main.commands[command].help
    for parameter in main.commands[command].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{command} --{parameter.name}"


@pytest.mark.parametrize(
    "command", [name for name in COMMANDS if name not in {"alerts", "fleet", "warmup", "demo", "ui"}]
)
def test_every_command_on_a_dataset_takes_json_and_storage_options(command):
    options = {option for parameter in main.commands[command].params for option in parameter.opts}
    assert {"--json", "--storage-option"} <= options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Usage:"),
        (["prune", "t"], "No such command 'prune'. Use cleanup"),
        (["frobnicate", "t"], "No such command"),
        (["append", "t"], "Missing argument 'SOURCE...'"),
        (["append", "t", "x.parquet", "--mode", "merge"], "'merge' is not one of"),
        (["append", "t", "x.parquet", "--max-rows-per-file", "0"], "must be at least 1, got 0"),
        (["delete", "t"], "Missing argument 'PREDICATE'"),
        (["delete", "t", "a", "--max-fraction", "2"], "must be from 0 to 1, got 2.0"),
        (["compact", "t", "--deletions-threshold", "-1"], "must be from 0 to 1, got -1.0"),
        (["index", "t", "--drop"], "--drop requires --name and no COLUMN"),
        (["index", "t", "id", "--drop", "--name", "x"], "--drop requires --name and no COLUMN"),
        (
            ["index", "t", "--drop", "--name", "x", "--dry-run"],
            "--drop can be combined with --name and --job-key",
        ),
        (["index", "t", "--replace"], "--replace requires COLUMN"),
        (["index", "t", "--kind", "BITMAP"], "--kind needs COLUMN"),
        (["index", "t", "id", "--rebuild"], "--rebuild cannot be used with COLUMN"),
        (["cleanup", "t", "--older-than", "5 parsecs"], "write for example 30m, 12h, 14d or 2w"),
        (["cleanup", "t", "--older-than", "99999999999w"], "is too long"),
        (["cleanup", "t", "--retain", "0"], "must be at least 1, got 0"),
        (["compact", "t", "--target-rows", "many"], "'many' is not a whole number"),
        (["compact", "t", "--target-bytes", "10 parsecs"], "write for example 10MB, 64MiB"),
        (["compact", "t", "--target-bytes", "0"], "must be at least 1 byte"),
        (["compact", "t", "--budget-seconds", "soon"], "write for example 30s, 10m or 2h"),
        (["compact", "t", "--budget-seconds", "0"], "must be more than 0, got 0"),
        (["cleanup", "t", "--all"], "--all requires --dry-run"),
        (["history", "t", "--limit", "0"], "must be at least 1, got 0"),
        (["history", "t", "--storage-option", "endpoint"], "not of the form KEY=VALUE"),
        (["history", "t", "--storage-option", "=x"], "not of the form KEY=VALUE"),
    ],
)
def test_a_call_that_makes_no_sense_ends_with_code_2_and_the_reason(
    arguments, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert message in lance_ops(*arguments, code=2).output
    assert not list(tmp_path.iterdir())


def test_the_version_is_that_of_the_package():
    assert lance_ops("--version").stdout.rstrip().endswith("0.1.0")


def test_help_answers_without_loading_arrow_spark_or_dagster():
    heavy = ("pyarrow", "numpy", "pyspark", "dagster", "pydantic", "sqlglot")
    code = f"import sys, lance_ops.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_option_in_bytes_or_seconds_takes_units():
    for command in main.commands.values():
        for parameter in command.params:
            name = str(parameter.name)
            if "bytes" in name:
                assert isinstance(parameter.type, SizeType), f"{command.name} --{name}"
            elif name.endswith("_seconds"):
                assert isinstance(parameter.type, SecondsType), f"{command.name} --{name}"


@pytest.mark.parametrize(
    ("text", "size"), [("10MB", 10**7), ("64MiB", 64 << 20), ("1.5 kB", 1500), ("12", 12)]
)
def test_sizes_have_units(text, size):
    assert SizeType().convert(text, None, None) == size


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("1.5h", 5400), ("0.25", 0.25)])
def test_durations_have_units(text, seconds):
    assert SecondsType().convert(text, None, None) == seconds
