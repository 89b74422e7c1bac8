"""The `lance-ops` command in this process, and input files for it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from click.testing import CliRunner, Result

from lance_ops.cli import main


def lance_ops(*arguments: object, code: int = 0) -> Result:
    """Run a command and demand its exit code; an exception that is no exit fails the test."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def lance_ops_json(*arguments: object, code: int = 0) -> dict[str, Any]:
    """Run a command with --json; its standard output is one object and nothing else."""
    result = lance_ops(*arguments, "--json", code=code)
    value = json.loads(result.stdout)
    assert isinstance(value, dict)
    assert result.stdout.count("\n") == 1
    return value


def people(start: int, stop: int) -> pa.Table:
    """Columns id (int64), name (string) and score (double)."""
    ids = range(start, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"name {n}" for n in ids],
            "score": pa.array([n / 2 for n in ids], pa.float64()),
        }
    )


def parquet(path: Path, table: pa.Table) -> Path:
    """Write a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def csv(path: Path, table: pa.Table) -> Path:
    """Write a CSV file."""
    pacsv.write_csv(table, path)
    return path
