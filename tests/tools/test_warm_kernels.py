"""Kernels are compiled before processes start that need them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_without_kernels_there_is_nothing_to_compile(tmp_path: Path) -> None:
    variables = {"LANCE_OPS_KERNELS": "off", "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, str(ROOT / "tools" / "warm_kernels.py")]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "kept").exists()
