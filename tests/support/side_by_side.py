"""Which tests share a process when the suite runs in several (pytest-xdist), and which of them start first.

What is dear is started once, and what takes long starts early: no process is alone with it at the end.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# The files and folders whose tests stay together, by what they share. Every other file is a unit of its own.
TOGETHER = {
    "the Spark session": (
        "tests/spark/",
        "tests/demo/test_definitions.py",
        "tests/fleet/run/test_run_on_spark.py",
    ),
    "the object servers": (
        "tests/storage/test_object_servers.py",
        "tests/storage/external/test_killed_writers.py",
        "tests/storage/external/test_manifest_stores.py",
        "tests/safety/test_object_servers.py",
    ),
    "the browser": ("tests/fleet/report/test_report_page.py", "tests/ui/"),
}
# What lies in a folder of a group and shares nothing: its tests start programs with sessions of their own.
APART = ("tests/spark/programs/",)
# Fixtures, and markers, that only tests of a group may bear.
_FIXTURES = {
    "spark": "the Spark session",
    "seaweed": "the object servers",
    "moto": "the object servers",
    "dynamo": "the object servers",
    "manifest_options": "the object servers",
    "azurite": "the object servers",
}
_MARKERS = {"azurite": "the object servers", "ui": "the browser"}

KEPT = Path(__file__).with_name("seconds.json")
"""Seconds that units took when somebody last measured them, those of the long ones only."""
LONG_SECONDS = 5.0
_MOST_PROCESSES = 4


def unit_of(nodeid: str) -> str:
    """Name the tests that run in the same process as this one: a group of `TOGETHER`, or its file."""
    file = nodeid.partition("::")[0]
    if file.startswith(APART):
        return file
    return next((name for name, paths in TOGETHER.items() if file.startswith(paths)), file)


def kept_seconds() -> Mapping[str, float]:
    """The seconds of long units, as they were measured."""
    seconds: dict[str, float] = json.loads(KEPT.read_text(encoding="utf-8"))
    return seconds


def start_order(items: Sequence[pytest.Item], seconds: Mapping[str, float]) -> list[pytest.Item]:
    """Order tests by when their units start, the longest first; tests of a unit keep their order."""
    return sorted(items, key=lambda item: -seconds.get(unit_of(item.nodeid), 0.0))


def keep_seconds(reports: Iterable[pytest.TestReport], path: Path = KEPT) -> None:
    """Keep how long units took in this run; those that it left out keep what they have."""
    measured: Counter[str] = Counter()
    for report in reports:
        measured[unit_of(report.nodeid)] += report.duration
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = {unit: seconds for unit, seconds in known.items() if unit not in measured}
    known |= {unit: float(round(seconds)) for unit, seconds in measured.items() if seconds >= LONG_SECONDS}
    ordered = dict(sorted(known.items(), key=lambda item: (-item[1], item[0])))
    path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def process_count(cores: int, *, quick: bool) -> int:
    """Say how many processes use the cores well.

    Many tests wait for programs that they started, or for the next look of a daemon: one process more than
    there are cores works meanwhile. Those of `make check` do not wait, and each process collects all of them.
    """
    return min(cores if quick else cores + 1, _MOST_PROCESSES)


def why_stranger(item: pytest.Item) -> str | None:
    """Say what is wrong where a test uses what belongs to a group that its file is not in."""
    owners = {_FIXTURES[name] for name in _FIXTURES.keys() & set(getattr(item, "fixturenames", ()))}
    owners |= {_MARKERS[name] for name in _MARKERS.keys() & {mark.name for mark in item.iter_markers()}}
    owners -= {unit_of(item.nodeid)}
    return f"uses {' and '.join(sorted(owners))}: name its file in {__name__}.TOGETHER" if owners else None


class UnitScheduling(LoadScopeScheduling):
    """Gives each process the next unit of `unit_of` when it has nearly done its last."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget units that are done: all that a process was ever given is counted after each test."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        unit = unit_of(self.registered_collections[node][item_index])
        if all(units[unit].values()):
            del units[unit]
