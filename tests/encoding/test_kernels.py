"""How kernels are found, switched off, and kept on disk."""

import os
import subprocess
import sys

import pytest

from lance_ops.encoding import kernels


def test_every_technique_loads() -> None:
    assert [name for name, loaded in kernels.compile_all() if not loaded] == []


def test_nothing_is_loaded_while_kernels_are_disabled() -> None:
    with kernels.disabled():
        assert not kernels.available()
        assert [name for name, loaded in kernels.compile_all() if loaded] == []
    assert kernels.available()


def test_loops_that_numba_does_not_compile_are_not_used() -> None:
    code = (
        "from lance_ops.encoding import kernels\nwith kernels.library_ignored(): print(kernels.available())"
    )
    environment = {"PATH": os.environ["PATH"], "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_loops_that_check_bounds_are_those_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    kernels.forget_library()
    try:
        assert not kernels.has_library()
    finally:
        monkeypatch.undo()
        kernels.forget_library()
