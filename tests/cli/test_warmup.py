"""Compiling ahead, and what a fresh process finds afterwards."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_ops.encoding import kernels
from lance_ops.encoding.kernels import loops
from lance_ops.encoding.library import build
from tests.support.commands import lance_ops, lance_ops_json


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Numba's loops, as where there is no library; where one is asked for is noted, and nothing is built."""
    asked: list[Path] = []
    monkeypatch.setattr(build, "build_library", lambda _, path: asked.append(path))
    monkeypatch.setattr(loops, "open_library", lambda: None)
    loops.forget_library()
    yield asked
    monkeypatch.undo()
    loops.forget_library()


def test_a_library_is_built_where_there_is_none(
    no_library: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "names", lambda: ["steps"])
    lance_ops_json("warmup")
    assert no_library == [build.writable_path()]


def test_a_library_that_cannot_be_built_is_no_error(
    no_library: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise build.BuildError("no C compiler on PATH")

    monkeypatch.setattr(build, "build_library", fail)
    monkeypatch.setattr(kernels, "names", lambda: ["steps"])
    assert lance_ops_json("warmup")["note"] == "no C compiler on PATH"
    assert "no loop library was built: no C compiler on PATH" in lance_ops("warmup").stdout


def test_every_technique_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "build_library", lambda *_: None)
    values = lance_ops_json("warmup")
    assert values["kernels"]
    assert [one["technique"] for one in values["techniques"]] == kernels.names()
    assert {one["error"] for one in values["techniques"]} == {None}
    assert "compiled loops: " in lance_ops("warmup").stdout


def test_where_nothing_can_compile_the_hint_names_the_extra(
    no_library: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "is_compilable", lambda: False)
    assert "pip install 'lance-ops[compiler]'" in lance_ops("warmup", code=1).stdout


def test_loops_that_cannot_be_compiled_are_an_error(
    no_library: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise RuntimeError(f"no cache for {name}")

    monkeypatch.setattr(kernels, "load", fail)
    assert "RuntimeError: no cache for bits.bitpacking" in lance_ops("warmup", code=1).stdout


# As where there is no library, and nothing to build one with.
_NUMBA = """
from lance_ops.encoding import kernels
from lance_ops.encoding.library import build
def fail(*_): raise build.BuildError("no compiler")
build.build_library = fail
from lance_ops.encoding.kernels import loops
loops.compile_with_numba()
"""

_USE = """
from lance_ops.encoding.kernels.steps import rises_by
from lance_ops.encoding.kernels.bits import byte_stream_split, rle
import numpy as np
assert rises_by(numbers=np.arange(0, 80, 8), step=8)
from lance_ops.encoding import kernels
kernels.load("lz4")
"""

_WARM = """
from lance_ops.encoding import kernels
kernels.names = lambda: ["bits.rle"]
from lance_ops.cli.main import main
main(["warmup"], standalone_mode=False)
"""


def test_whoever_waits_for_a_compiler_is_told_once_and_nobody_else_is(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def told(code: str) -> str:
        arguments = [sys.executable, "-c", _NUMBA + code]
        return subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stderr

    own = "import numba\n@numba.njit('i8(i8)')\ndef f(x): return x\nassert f(1) == 1\n"
    first = told(_USE)
    assert first.count("lance-ops warmup") == 1
    assert "a minute" in first
    assert told(_USE) == ""
    assert told("from lance_ops.encoding import kernels\nassert kernels.available()\n" + own) == ""
    assert told(_WARM) == ""
