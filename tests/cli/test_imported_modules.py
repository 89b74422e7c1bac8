"""Commands import what they use: neither pandas nor a compiler, and as few modules of ours as they can."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.encoding import kernels

_COUNT = """
import json, sys
from lance_ops.cli.main import main
try:
    main(sys.argv[1:], prog_name="lance-ops")
finally:
    own = sum(name.split(".")[0] == "lance_ops" for name in sys.modules)
    heavy = [name for name in ("pandas", "numba", "llvmlite", "pyspark", "dagster") if name in sys.modules]
    print(json.dumps([own, heavy]), file=sys.stderr)
"""

COMMANDS = {
    "append": (["append", "URI", "ROWS"], 470),
    "merge-insert": (["merge-insert", "URI", "ROWS", "--on", "id"], 540),
    "delete": (["delete", "URI", "id % 50 = 7 AND kind <> 'c'"], 460),
    "compact": (["compact", "URI"], 560),
    "index": (["index", "URI", "id"], 550),
    "cleanup": (["cleanup", "URI", "--retain", "1"], 320),
    "history": (["history", "URI"], 270),
    "health": (["health", "URI"], 460),
    "fsck": (["fsck", "URI"], 460),
    "tag": (["tag", "URI", "first"], 325),
}
"""Arguments, and how many modules of lance_ops the command may import."""


def rows(first: int) -> pa.Table:
    rng = np.random.default_rng(first)
    return pa.table(
        {
            "id": np.arange(first, first + 2000),
            "value": rng.random(2000),
            "kind": pa.array(["a", "b", "c", "d"] * 500),
            "text": [f"event {number} of {number % 97}" for number in range(2000)],
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    for part in range(3):
        lo.write_dataset(rows(2000 * part), str(folder / "t.lance"), mode="append")
    pq.write_table(rows(4000), folder / "rows.parquet")
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_what_it_uses(lake: Path, tmp_path: Path, name: str) -> None:
    arguments, most = COMMANDS[name]
    shutil.copytree(lake / "t.lance", tmp_path / "t.lance")
    given = {"URI": str(tmp_path / "t.lance"), "ROWS": str(lake / "rows.parquet")}
    command = [sys.executable, "-c", _COUNT, *(given.get(item, item) for item in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    own, heavy = json.loads(done.stderr.splitlines()[-1])
    # Without a library of these sources, numba compiles the loops.
    allowed = set() if kernels.has_library() else {"numba", "llvmlite"}
    assert set(heavy) <= allowed
    assert own <= most
