import subprocess
import sys

import pytest

import lance_ops as lo


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_the_package_loads_nothing_else():
    loaded = run("import sys, lance_ops; print('\\n'.join(m for m in sys.modules))").split()
    assert not {"pyarrow", "numpy", "google.protobuf", "pyspark", "dagster"} & set(loaded)


def test_no_public_name_brings_in_spark_or_dagster():
    code = "import sys, lance_ops as lo; [getattr(lo, n) for n in lo.__all__]; print('\\n'.join(sys.modules))"
    loaded = set(run(code).split())
    assert "pyarrow" in loaded
    assert not {"pyspark", "dagster", "lance"} & loaded


@pytest.mark.parametrize("name", lo.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(lo, name)
    assert name in dir(lo)
    assert value.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = lo.no_such_thing
