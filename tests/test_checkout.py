"""A checkout on PYTHONPATH, without an installation, reads and writes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import lance_ops
from lance_ops.table.commit.apply import writer_version

ROOT = Path(lance_ops.__file__).parent

# What an installation leaves in site-packages is out of sight, and everything else is not.
_WRITE = """
import importlib.metadata as metadata
found = metadata.distribution
def hidden(name):
    if name.replace("_", "-") == "lance-ops":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.distribution = hidden
metadata.Distribution.from_name = staticmethod(hidden)
import sys
import lance_ops as lo
assert lo.__file__.startswith(sys.argv[1]), lo.__file__
import pyarrow as pa
lo.append(sys.argv[2], pa.table({"x": [1, 2]}))
lo.append(sys.argv[2], pa.table({"x": [3]}), job_key="k")
lo.compact(sys.argv[2])
from lance_ops.cli.main import main
main(["--version"])
"""


def test_a_copy_of_the_package_writes_without_metadata_of_an_installation(tmp_path):
    shutil.copytree(ROOT, tmp_path / "lance_ops", ignore=shutil.ignore_patterns("__pycache__"))
    uri = str(tmp_path / "t.lance")
    command = [sys.executable, "-c", _WRITE, str(tmp_path), uri]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert lance_ops.__version__ in done.stdout
    dataset = lance_ops.dataset(uri)
    assert sorted(dataset.to_table()["x"].to_pylist()) == [1, 2, 3]
    assert dataset.manifest.writer_version == writer_version()


def test_there_is_one_source_of_the_version():
    own = writer_version().build_metadata
    assert own is not None
    assert own.removeprefix("lance-ops.")[:5] == lance_ops.__version__[:5]
