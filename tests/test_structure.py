"""The shape of the package: a module is one concept and fits on some screens, a room has few of them."""

from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "lance_ops"
MOST_LINES = 600
MOST_MODULES = 24

# What is generated follows its sources.
ROOMS = sorted(
    {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE / "pb"},
    key=lambda room: room.relative_to(PACKAGE).as_posix(),
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE.parent).as_posix())
def test_a_room_has_few_modules_of_one_concept_each(room: Path) -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in room.glob("*.py")}
    if room == PACKAGE:
        # The list of the public names, which is as long as there are names.
        del lines["__init__.py"]
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}, "split by concepts"
    assert len(lines.keys() - {"__init__.py"}) <= MOST_MODULES, "give some of them a room of their own"
