"""Commands on an object store, on a terminal, and on Spark."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.support.commands import lance_ops, lance_ops_json, parquet, people
from tests.support.fake_s3 import FakeS3
from tests.support.spark import run_script


def test_storage_options_reach_the_store(tmp_path):
    source = parquet(tmp_path / "a.parquet", people(0, 5))
    with FakeS3() as s3:
        options = [
            part for key, value in s3.options.items() for part in ("--storage-option", f"{key}={value}")
        ]
        uri = "s3://bucket/people.lance"
        assert lance_ops_json("append", uri, source, *options)["rows_added"] == 5
        lance_ops("delete", uri, "id = 3", *options)
        lance_ops("compact", uri, *options)
        lance_ops("cleanup", uri, "--older-than", "0s", *options)
        assert lance_ops_json("health", uri, *options)["rows"] == 4
        assert lance_ops_json("fsck", uri, "--deep", *options)["ok"]
        assert "Rewrite" in lance_ops("history", uri, *options).stdout


def _on_a_terminal(arguments, *, stdout_too, columns=100):
    """Run the command with standard error (and output) on a terminal; returns what each showed."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    with subprocess.Popen(
        [sys.executable, "-c", "from lance_ops.cli import main; main()", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=follower if stdout_too else subprocess.PIPE,
        stderr=follower,
        env=environment,
    ) as process:
        os.close(follower)
        shown = b""
        # A terminal whose last writer is gone answers with an error instead of an end.
        try:
            while part := os.read(leader, 65536):
                shown += part
        except OSError:
            pass
        output = b"" if process.stdout is None else process.stdout.read()
    os.close(leader)
    assert process.returncode == 0, shown
    return output.decode(), shown.decode()


def test_bars_on_the_terminal_leave_json_on_standard_output_alone(tmp_path):
    source = parquet(tmp_path / "a.parquet", people(0, 5))
    output, shown = _on_a_terminal(["append", tmp_path / "people.lance", source, "--json"], stdout_too=False)
    assert json.loads(output)["rows_added"] == 5
    assert "append" in shown


def test_a_table_on_a_terminal_folds_only_its_last_column(tmp_path):
    uri = tmp_path / "people.lance"
    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 5)))
    lance_ops("delete", uri, "id = 1 OR id = 2 OR name = 'a name that nobody has, and that is much too long'")
    _, shown = _on_a_terminal(["history", uri], stdout_too=True)
    assert "version" in shown
    assert "Overwrite with 5 rows in 1 fragment" in shown
    assert "much too long" not in shown.splitlines()[2]


@pytest.mark.spark
def test_spark_runs_the_tasks(tmp_path):
    uri = tmp_path / "people.lance"
    for start in (0, 10, 20):
        lance_ops("append", uri, parquet(tmp_path / f"{start}.parquet", people(start, start + 10)))
    done = run_script(
        f"""
        from tests.support.commands import lance_ops, lance_ops_json
        from lance_ops.spark.session import find_running_session

        uri = {str(uri)!r}
        assert lance_ops_json("delete", uri, "id % 10 = 3", "--spark", "local[2]")["rows_deleted"] == 3
        assert find_running_session() is None
        print(lance_ops("compact", uri, "--spark", "local[2]").stdout)
        """,
        cwd=os.getcwd(),
    )
    assert "3 fragments -> 1, 27 rows" in done.stdout
