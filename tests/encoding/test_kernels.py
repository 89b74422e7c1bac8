"""How kernels are found, switched off, and kept on disk."""

import os
import subprocess
import sys

import pytest

from lance_ops.encoding import kernels

_ASK = "from lance_ops.encoding import kernels; print(kernels.available())"


def _ask(**environment: str) -> str:
    environment = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(
        [sys.executable, "-c", _ASK], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_every_technique_loads() -> None:
    assert [name for name, loaded in kernels.compile_all() if not loaded] == []


def test_nothing_is_loaded_while_kernels_are_disabled() -> None:
    with kernels.disabled():
        assert not kernels.available()
        assert [name for name, loaded in kernels.compile_all() if loaded] == []
    assert kernels.available()


@pytest.mark.parametrize("word", ["off", "OFF", "0"])
def test_the_environment_switches_kernels_off(word: str) -> None:
    assert _ask(LANCE_OPS_KERNELS=word) == "False"


def test_kernels_need_the_compiler_of_numba() -> None:
    assert _ask(NUMBA_DISABLE_JIT="1") == "False"
