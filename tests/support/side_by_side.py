"""Which tests share a process when the suite runs in several (pytest-xdist): what is dear is started once."""

from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadScopeScheduling

# The files and folders whose tests stay together, by what they share, in the order in which they start: the
# longest first, so that no process is left alone with one of them at the end. Every other file is a unit of
# its own.
TOGETHER = {
    "the Spark session": (
        "tests/spark/",
        "tests/demo/",
        "tests/cli/test_stores.py",
        "tests/docs/test_examples.py",
        "tests/fleet/run/test_run_on_spark.py",
        "tests/test_readme.py",
    ),
    "the object servers": ("tests/storage/test_object_servers.py", "tests/safety/test_object_servers.py"),
    "the browser": ("tests/fleet/report/test_report_page.py", "tests/ui/"),
}
# Fixtures and markers that only tests of a group may bear.
_OWNERS = {
    "spark": "the Spark session",
    "seaweed": "the object servers",
    "moto": "the object servers",
    "azurite": "the object servers",
    "ui": "the browser",
}


def unit_of(nodeid: str) -> str:
    """Name the tests that run in the same process as this one: a group of `TOGETHER`, or its file."""
    file = nodeid.partition("::")[0]
    return next((name for name, paths in TOGETHER.items() if file.startswith(paths)), file)


def start_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Order tests by when their units start; tests of a unit keep their order."""
    first = list(TOGETHER)
    return sorted(
        items, key=lambda item: first.index(unit) if (unit := unit_of(item.nodeid)) in first else len(first)
    )


def why_stranger(item: pytest.Item) -> str | None:
    """Say what is wrong where a test uses what belongs to a group that its file is not in."""
    used = {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}
    owners = {_OWNERS[name] for name in used & _OWNERS.keys()} - {unit_of(item.nodeid)}
    return f"uses {' and '.join(sorted(owners))}: name its file in {__name__}.TOGETHER" if owners else None


class UnitScheduling(LoadScopeScheduling):
    """Gives each process the next unit of `unit_of` when it has nearly done its last."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
