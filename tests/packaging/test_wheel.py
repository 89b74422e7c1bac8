"""The wheel in an environment with what it asks for and nothing else: command line, API, errors."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.encoding.library.build import find_compiler
from lance_ops.encoding.library.sources import is_supported
from tools.throwaway_environment import core_environment

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
    made = core_environment()
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


def test_the_wheel_has_the_compiled_loops_and_needs_no_compiler(wheel, python):

    if not is_supported() or find_compiler() is None:
        pytest.skip("wheels that are built here have no library")
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    code = (
        "import sys; from lance_ops.encoding import kernels; assert kernels.has_library();"
        "assert not {'numba', 'llvmlite'} & set(sys.modules); print(len(kernels.names()))"
    )
    assert int(python("-c", code).stdout) > 30


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


DOORS = {
    "import lance_ops.dagster": "dagster",
    "from lance_ops.dagster import build_lance_definitions": "dagster",
    "import lance_ops.airflow.hook": "airflow",
    "import lance_ops.airflow.operators": "airflow",
    "import lance_ops.airflow.triggers": "airflow",
    "from lance_ops.spark import SparkRunner": "spark",
    "from lance_ops.spark import build_session; build_session()": "spark",
    "from lance_ops.spark.session import build_session": "spark",
    "from lance_ops.spark.runner import SparkRunner": "spark",
    "from lance_ops.spark.submitted.program import main": "spark",
    "import lance_ops as lo; lo.sql('SELECT 1')": "duckdb",
    "lo.dataset(uri).to_pandas()": "pandas",
    "lo.create_index(uri, 'v', 'IVF_FLAT', parameters={'num_partitions': 2})": "vector",
    "lo.create_index(uri, 's', 'INVERTED')": "text",
    "lo.dataset(uri).to_table(filter=\"st_contains(st_geomfromtext('POINT(1 1)'), p)\")": "geo",
}
"""By what is done in a core alone: the extra that an error has to name."""
PREPARED = """
import json, os, sys, pyarrow as pa, lance_ops as lo
from lance_ops.errors import LanceOpsError
uri = sys.argv[1]
point = pa.StructArray.from_arrays(
    [pa.array([1.0]), pa.array([2.0])],
    fields=[pa.field("x", pa.float64(), nullable=False), pa.field("y", pa.float64(), nullable=False)],
)
schema = pa.schema(
    [
        pa.field("v", pa.list_(pa.float32(), 2)),
        pa.field("s", pa.string()),
        pa.field("p", point.type, metadata={"ARROW:extension:name": "geoarrow.point"}),
    ]
)
columns = [pa.array([[1.0, 2.0]], schema.field("v").type), pa.array(["word"]), point]
lo.write_dataset(pa.concat_tables([pa.Table.from_arrays(columns, schema=schema)] * 600), uri)
for code in sys.argv[2:]:
    # Each in a process that has tried none of the others.
    if not os.fork():
        try:
            exec(code)
        except LanceOpsError as error:
            told = f"{type(error).__name__} {isinstance(error, ModuleNotFoundError)} {error}"
            print(json.dumps([code, told]), flush=True)
        os._exit(0)
    os.wait()
"""
SUITES = "from lance_ops.testing import StoreConformance"


@pytest.fixture(scope="module")
def told(python, tmp_path_factory):
    """What each door says, by the code that tries it."""
    uri = tmp_path_factory.mktemp("doors") / "t.lance"
    return dict(map(json.loads, python("-c", PREPARED, str(uri), *DOORS, SUITES).stdout.splitlines()))


@pytest.mark.parametrize("code", DOORS)
def test_every_door_to_what_is_not_installed_ends_in_a_typed_error_that_names_the_extra(told, code):
    assert told[code].startswith("MissingExtraError True ")
    assert f"pip install 'lance-ops[{DOORS[code]}]'" in told[code]


def test_suites_of_tests_say_that_they_need_pytest(told):
    assert told[SUITES].startswith("MissingExtraError True ")
    assert "pip install pytest" in told[SUITES]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import lance_ops as lo; lo.dataset('s3://bucket/t.lance')", "pip install 'lance-ops[s3]'"),
        ("import lance_ops as lo; lo.dataset('gs://bucket/t.lance')", "pip install 'lance-ops[gcs]'"),
        ("from lance_ops.cli.main import main; main(['ui'])", "pip install 'lance-ops[dagster]'"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(python, code, says):
    done = python("-c", code, check=False)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("compact", "URI", "--spark", "local[1]"),
        ("index", "URI", "id", "--spark", "local[1]"),
        ("append", "URI", "ROWS", "--spark", "local[1]"),
        ("sql", "SELECT 1", "--spark", "local[1]"),
    ],
)
def test_the_command_line_says_in_one_line_what_is_not_installed(python, tmp_path, arguments):
    rows, uri = tmp_path / "rows.parquet", tmp_path / "t.lance"
    pq.write_table(pa.table({"id": [1, 2, 3]}), rows)
    lo.append(str(uri), pa.table({"id": [1, 2, 3]}))
    given = {"URI": str(uri), "ROWS": str(rows)}
    done = python("-m", "lance_ops", *(given.get(item, item) for item in arguments), check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "pip install 'lance-ops[spark]'" in " ".join(done.stderr.split())
