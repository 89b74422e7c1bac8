"""The suite's own support: its lists of files, the order of its tests, where they write."""

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import coverage_share
from tests.support.scratch import memory_folder
from tests.support.side_by_side import (
    APART,
    LONG_SECONDS,
    TOGETHER,
    keep_seconds,
    kept_seconds,
    process_count,
    start_order,
    unit_of,
    why_stranger,
)
from tests.support.unit import NOT_UNIT

ROOT = Path(__file__).resolve().parents[1]
OF_UNITS = [unit for unit in kept_seconds() if unit not in TOGETHER]


@pytest.mark.parametrize("path", sorted({*NOT_UNIT, *chain(*TOGETHER.values()), *APART, *OF_UNITS}))
def test_every_file_and_folder_of_the_lists_is_there(path):
    assert (ROOT / path).exists()
    assert (ROOT / path).is_dir() == path.endswith("/")


def test_what_shares_a_session_is_one_unit_and_every_other_file_its_own():
    assert unit_of("tests/spark/test_types.py::test_a[1]") == unit_of(
        "tests/demo/test_definitions.py::test_b"
    )
    assert unit_of("tests/spark/programs/test_a.py::test_a") == "tests/spark/programs/test_a.py"
    assert unit_of("tests/pb/test_modules.py::TestA::test_b[a::b]") == "tests/pb/test_modules.py"


def test_long_units_start_first_and_tests_of_a_unit_keep_their_order():
    names = ["tests/a.py::z", "tests/spark/a.py::b", "tests/a.py::y", "tests/c.py::c", "tests/spark/a.py::a"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    ordered = start_order(items, {"tests/c.py": 90.0, "the Spark session": 30.0})
    assert [item.nodeid for item in ordered] == [names[number] for number in (3, 1, 4, 0, 2)]


def test_seconds_of_long_units_are_kept_and_those_of_units_that_did_not_run(tmp_path):
    kept = tmp_path / "seconds.json"
    reports = [
        SimpleNamespace(nodeid=name, duration=LONG_SECONDS * share)
        for name, share in (("tests/a.py::a", 0.75), ("tests/a.py::b", 0.5), ("tests/b.py::a", 0.5))
    ]
    keep_seconds(reports, kept)
    keep_seconds([SimpleNamespace(nodeid="tests/c.py::a", duration=40.0)], kept)
    assert json.loads(kept.read_text()) == {"tests/c.py": 40.0, "tests/a.py": 6.0}
    keep_seconds([SimpleNamespace(nodeid="tests/c.py::a", duration=1.0)], kept)
    assert json.loads(kept.read_text()) == {"tests/a.py": 6.0}


def test_one_process_more_than_cores_runs_what_waits():
    assert [process_count(cores, quick=False) for cores in (1, 2, 16)] == [2, 3, 4]
    assert [process_count(cores, quick=True) for cores in (1, 2, 16)] == [1, 2, 4]


def test_a_test_of_a_group_in_a_foreign_file_is_named():
    def item(nodeid, fixtures=(), marks=()):
        markers = [SimpleNamespace(name=name) for name in marks]
        return SimpleNamespace(nodeid=nodeid, fixturenames=fixtures, iter_markers=lambda: markers)

    assert "the Spark session" in why_stranger(item("tests/spark/programs/test_a.py::a", ["spark"]))
    assert "the browser" in why_stranger(item("tests/cli/test_help.py::a", marks=["ui"]))
    assert why_stranger(item("tests/spark/programs/test_a.py::a", marks=["spark"])) is None
    assert why_stranger(item("tests/spark/test_a.py::a", ["spark"], ["spark"])) is None


def test_tests_write_into_memory_only_where_there_is_enough_of_it(tmp_path):
    assert memory_folder(tmp_path / "absent") is None
    assert memory_folder(tmp_path, enough=1 << 60) is None
    assert memory_folder(tmp_path, enough=0) == tmp_path


def test_the_number_of_covered_lines_is_stated_and_compared(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("- Unit tests run 70 % of the lines of `lance_ops`, and more.\n")
    assert coverage_share.settle(70.9, page, write=False) is None
    assert "run 68.4 % of the lines, and page.md says 70 %" in coverage_share.settle(68.4, page, write=False)
    assert "run 71.5 % of the lines" in coverage_share.settle(71.5, page, write=False)
    assert coverage_share.settle(82.6, page, write=True) is None
    assert page.read_text() == "- Unit tests run 83 % of the lines of `lance_ops`, and more.\n"
    page.write_text("nothing")
    assert "does not say" in coverage_share.settle(70.0, page, write=True)
    assert coverage_share.settle(0, write=False) is not None


def test_lines_that_run_in_several_measurements_are_added_up(tmp_path):
    module = tmp_path / "package" / "measured_lines.py"
    module.parent.mkdir()
    module.with_name("__init__.py").touch()
    module.write_text("".join(f"def {name}():\n    return 1\n" for name in "abcd"))
    code = """
import sys
from pathlib import Path
from tests.support.coverage_share import measuring
found = measuring(Path(sys.argv[1]), Path(sys.argv[2]))
found.start()
from package import measured_lines
getattr(measured_lines, sys.argv[3])()
found.stop()
found.save()
"""
    folder = tmp_path / "lines"
    folder.mkdir()
    for name in ("a", "b"):
        command = [sys.executable, "-c", code, str(folder), str(module.parent), name]
        path = os.pathsep.join([str(ROOT), str(tmp_path)])
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
    assert coverage_share.measured(folder, module.parent) == 75
