"""The walks on the page of the architecture pass the files that they name, in their order."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.docs import DOCS
from tests.support.spark import run_script

LOOP = "lance_ops/encoding/kernels/bits/bitpacking.py"

_PREPARE = """
import json
import sys
import threading
from pathlib import Path

import pyarrow as pa

import lance_ops as lo

root = Path(lo.__file__).parent.parent
rows = pa.table({"id": range(1000), "kind": ["a", "b"] * 500})
for _ in range(2):
    lo.append("t.lance", rows)
lo.delete("t.lance", "id = 5")
lo.create_index("t.lance", "id")
for name in lo.__all__:
    getattr(lo, name)
entered = {}
line = []


def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(f"{root}/lance_ops/"):
        entered[Path(code.co_filename).relative_to(root).as_posix()] = None
        if not line and code.co_filename.endswith("{LOOP}"):
            line.extend(reversed(list(callers(frame))))


def callers(frame):
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(f"{root}/lance_ops/"):
            yield Path(name).relative_to(root).as_posix()
        frame = frame.f_back


threading.setprofile(note)
sys.setprofile(note)
""".replace("{LOOP}", LOOP)

_REPORT = """
sys.setprofile(None)
Path("entered.json").write_text(json.dumps(list(entered)))
Path("line.json").write_text(json.dumps(list(dict.fromkeys(line))))
"""

TRIPS = {
    "append": 'lo.append("t.lance", rows)',
    "scan": """lo.dataset("t.lance").to_table(["id"], "kind = 'a'")""",
    "compaction": 'assert lo.compact("t.lance").changed',
}


def _walk(name: str) -> list[str]:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    section = page.partition(f"{{ #walk-{name} }}")[2].partition("\n## ")[0].partition("\n### ")[0]
    return re.findall(r"^\| `(lance_ops/.+?)` \|", section, re.MULTILINE)


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes each trip once; gives the folder with what it noted."""

    @cache
    def make(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        run_script("\n".join([_PREPARE, TRIPS[name], _REPORT]), cwd=folder)
        return folder

    return make


@pytest.mark.parametrize("name", TRIPS)
def test_a_walk_passes_the_files_that_the_page_names_in_their_order(trips: Callable[[str], Path], name: str):
    entered = json.loads((trips(name) / "entered.json").read_text())
    named = _walk(name)
    assert len(named) > 5
    assert [file for file in named if file not in entered] == []
    assert sorted(named, key=entered.index) == named


def test_the_line_of_calls_of_a_scan_is_the_one_on_the_page_and_short(trips: Callable[[str], Path]):
    line = json.loads((trips("scan") / "line.json").read_text())
    # Every call of a public function passes the decorator that checks its arguments.
    assert line.pop(0) == "lance_ops/errors.py"
    assert line == _walk("line")
    assert line[-1] == LOOP
    assert len(line) <= 12


# Files that a trip enters in a process that has made it before: a reader has to open each of them. May only
# shrink. Goals: append 90, delete 120, compaction 140, cleanup 40, idle tick 15, idle fleet run 120.
MOST_FILES = {
    "append": 121,
    "delete": 130,
    "scan": 105,
    "scan by index": 122,
    "compaction": 198,
    "cleanup": 64,
    "idle tick": 25,
    "idle fleet run": 193,
}

_COUNT = """
import json
import os
import shutil
import sys
import threading
from pathlib import Path

import dagster as dg
import pyarrow as pa

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, SensorOptions, build_manifest_sensor
from lance_ops.fleet.run.operation import run_fleet
from tests.support.dagster import Daemon
from tests.support.fleets import policy

root = Path(lo.__file__).parent.parent
rows = pa.table({"id": range(1000), "kind": ["a", "b"] * 500})
for _ in range(2):
    lo.append("t.lance", rows)
lo.delete("t.lance", "id = 5")
lo.create_index("t.lance", "id")
os.mkdir("fleet")
shutil.copytree("t.lance", "fleet/t.lance")
rules = policy(Path("fleet"), default="{max_small_fragments: 9}")
instance = dg.DagsterInstance.ephemeral()
daemon = Daemon(build_manifest_sensor([LanceDatasetRef("t", os.path.abspath("fleet/t.lance"))]), instance)
trips = {
    "append": lambda uri: lo.append(uri, rows),
    "delete": lambda uri: lo.delete(uri, "id = 7"),
    "scan": lambda uri: lo.dataset(uri).to_table(["id"], "kind = 'a'"),
    "scan by index": lambda uri: lo.dataset(uri).to_table(["kind"], "id = 8"),
    "compaction": lambda uri: lo.compact(uri),
    "cleanup": lambda uri: lo.cleanup(uri, retain_versions=1),
    "idle tick": lambda uri: daemon.tick(),
    "idle fleet run": lambda uri: run_fleet(rules),
}


def counted(trip, uri):
    entered = set()

    def note(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and frame.f_code.co_name != "<module>" and name.startswith(f"{root}/lance_ops/"):
            entered.add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    trip(uri)
    sys.setprofile(None)
    threading.setprofile(None)
    return len(entered)


counts = {}
for name, trip in trips.items():
    for number in range(2):
        shutil.copytree("t.lance", f"{name}{number}.lance")
        counts[name] = counted(trip, f"{name}{number}.lance")
Path("counts.json").write_text(json.dumps(counts))
"""


def test_trips_enter_few_files(tmp_path: Path):
    run_script(_COUNT, cwd=tmp_path)
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts.keys() == MOST_FILES.keys()
    assert {name: count for name, count in counts.items() if count > MOST_FILES[name]} == {}
