"""The wheel in an environment with what it asks for and nothing else: command line, API, errors."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tools.throwaway_environment import make_environment

ROOT = Path(__file__).resolve().parents[2]
LARGEST_WHEEL = 3_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=300,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Runs the interpreter of an environment with the dependencies of the core and the wheel on its path."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    made = make_environment(
        ROOT / ".cache" / "core", [*declared, "--constraint", str(ROOT / "constraints.txt")]
    )
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(folder)], check=True, timeout=300)

    def run(*arguments, check=True):
        return subprocess.run(
            [str(made), *arguments],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(folder)},
            check=check,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def test_the_wheel_is_small_and_has_the_package_alone(wheel):
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.stat().st_size < LARGEST_WHEEL
    assert "lance_ops/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"lance_ops"}


def test_the_core_does_its_work_without_dagster_spark_and_pandas(python, tmp_path):
    absent = (
        "import importlib.util as u, sys; sys.exit(any(map(u.find_spec, ('dagster', 'pyspark', 'pandas'))))"
    )
    python("-c", absent)
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), tmp_path / "rows.parquet")
    uri = str(tmp_path / "t.lance")
    command = ("-m", "lance_ops")
    for arguments in (
        ("append", uri, str(tmp_path / "rows.parquet")),
        ("append", uri, str(tmp_path / "rows.parquet")),
        ("merge-insert", uri, str(tmp_path / "rows.parquet"), "--on", "id", "--when-matched", "delete"),
        ("append", uri, str(tmp_path / "rows.parquet")),
        ("index", uri, "id"),
        ("compact", uri),
        ("cleanup", uri, "--older-than", "0s", "--retain", "1"),
        ("fsck", uri),
    ):
        python(*command, *arguments)
    told = json.loads(python(*command, "query", uri, "--filter", "id > 1", "--json").stdout)
    assert [row["id"] for row in told["rows"]] == [2, 3]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import lance_ops.dagster", "pip install 'lance-ops[dagster]'"),
        ("from lance_ops.spark import SparkRunner", "pip install 'lance-ops[spark]'"),
        ("import lance_ops as lo; lo.dataset('s3://bucket/t.lance')", "pip install 'lance-ops[s3]'"),
        ("import lance_ops as lo; lo.dataset('gs://bucket/t.lance')", "pip install 'lance-ops[gcs]'"),
        ("from lance_ops.cli.main import main; main(['ui'])", "pip install 'lance-ops[dagster]'"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(python, code, says):
    done = python("-c", code, check=False)
    assert done.returncode != 0
    assert says in done.stderr
