"""Queries and statements run where Spark is not installed; what requires it says so."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo

_HIDDEN = """
import importlib.util
import sys

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("pyspark", "py4j") else found(name, *rest)
sys.modules["pyspark"] = sys.modules["py4j"] = None
"""


def without_spark(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _HIDDEN + code, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lo.append(tmp_path / "t.lance", pa.table({"id": range(10)}))
    return tmp_path


def test_a_query_and_a_statement_run_without_spark(folder: Path) -> None:
    code = """
import lance_ops as lo
print(lo.sql("SELECT count(*) AS n FROM t.lance")["n"].to_pylist())
print(lo.sql("DELETE FROM t.lance WHERE id > 6").to_pylist())
from lance_ops.cli.main import main
main()
"""
    done = without_spark(code, "sql", "SELECT max(id) AS most FROM t.lance", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[10]", "[{'num_affected_rows': 3}]"]
    assert done.stdout.split()[-2:] == ["most", "6"]


@pytest.mark.parametrize(
    "name",
    [
        "SparkRunner",
        "build_session",
        "session.build_session",
        "runner.SparkRunner",
        "datasource.register",
        "submitted.program.main",
    ],
)
def test_a_name_of_spark_names_the_extra(folder: Path, name: str) -> None:
    module, _, last = f"lance_ops.spark.{name}".rpartition(".")
    done = without_spark(f"from {module} import {last}", cwd=folder)
    assert "MissingExtraError" in done.stderr
    assert "lance-ops[spark]" in done.stderr


def test_tasks_on_spark_name_the_extra(folder: Path) -> None:
    code = "from lance_ops.cli.main import main; main()"
    done = without_spark(code, "compact", "t.lance", "--spark", "local[1]", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("error: Spark is not installed")
