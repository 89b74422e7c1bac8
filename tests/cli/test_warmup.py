"""Compiling ahead, and what a fresh process finds afterwards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lance_ops.encoding import kernels
from tests.support.commands import lance_ops, lance_ops_json

_COUNT = """
import json
from lance_ops.encoding import kernels
hits = misses = 0
for name in kernels.names():
    for value in vars(kernels.load(name)).values():
        if hasattr(value, "stats"):
            hits += sum(value.stats.cache_hits.values())
            misses += sum(value.stats.cache_misses.values())
print(json.dumps([hits, misses]))
"""


def test_a_fresh_process_compiles_nothing_afterwards() -> None:
    lance_ops("warmup")
    found = subprocess.run([sys.executable, "-c", _COUNT], capture_output=True, text=True, check=True)
    hits, misses = json.loads(found.stdout)
    assert hits > 0
    assert misses == 0


def test_every_technique_is_told() -> None:
    lance_ops("warmup")
    values = lance_ops_json("warmup")
    assert values["kernels"]
    assert [one["technique"] for one in values["techniques"]] == kernels.names()
    assert {one["error"] for one in values["techniques"]} == {None}
    assert "compiled loops: " in lance_ops("warmup").stdout


def test_without_kernels_numpy_does_the_work() -> None:
    with kernels.disabled():
        assert "numpy is used" in lance_ops("warmup").stdout
        assert lance_ops_json("warmup")["techniques"] == []


def test_loops_that_cannot_be_compiled_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise RuntimeError(f"no cache for {name}")

    monkeypatch.setattr(kernels, "load", fail)
    assert "RuntimeError: no cache for bits.bitpacking" in lance_ops("warmup", code=1).stdout


_USE = """
from lance_ops.encoding.kernels.fronts.steps import rises_by
from lance_ops.encoding.kernels.fronts.bits import byte_stream_split, rle
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
        arguments = [sys.executable, "-c", code]
        return subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stderr

    own = "import numba\n@numba.njit('i8(i8)')\ndef f(x): return x\nassert f(1) == 1\n"
    first = told(_USE)
    assert first.count("lance-ops warmup") == 1
    assert "a minute" in first
    assert told(_USE) == ""
    assert told("from lance_ops.encoding import kernels\nassert kernels.available()\n" + own) == ""
    assert told(_WARM) == ""
