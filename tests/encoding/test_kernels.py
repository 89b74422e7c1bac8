"""How loops are found, and what happens where there are none."""

import os
import subprocess
import sys

import pytest

from lance_ops.encoding import kernels
from lance_ops.encoding.kernels import loops


def test_every_technique_loads() -> None:
    for name in kernels.names():
        assert kernels.load(name).__name__.endswith(name)


@pytest.mark.parametrize("module", ["steps", "values.utf8", "fsst.encode"])
def test_without_loops_an_import_names_the_extra(module: str) -> None:
    code = f"""
import lance_ops.errors
try:
    import lance_ops.encoding.kernels.{module}
except lance_ops.errors.MissingExtraError as error:
    print(error)
"""
    environment = {"PATH": os.environ["PATH"], "NUMBA_DISABLE_JIT": "1", "NUMBA_BOUNDSCHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "pip install 'lance-ops[compiler]'" in done.stdout


def test_loops_that_check_bounds_are_those_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    loops.forget_library()
    try:
        assert not kernels.has_library()
    finally:
        monkeypatch.undo()
        loops.forget_library()
