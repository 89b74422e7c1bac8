"""The requirements of the environment with the oldest allowed dependencies."""

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

from lowest import EXTRAS, LEFT_OUT, TEST_TOOLS, lowest_release, pinned_tools  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = [
    *PROJECT["dependencies"],
    *(requirement for extra in EXTRAS for requirement in PROJECT["optional-dependencies"][extra]),
]


@pytest.mark.parametrize("declared", DECLARED)
def test_every_dependency_has_a_lowest_release_within_its_range(declared: str) -> None:
    pinned = Requirement(lowest_release(declared))
    (exact,) = pinned.specifier
    assert exact.operator == "=="
    assert Requirement(declared).specifier.contains(exact.version)


@pytest.mark.parametrize("declared", ["a", "a<3", "a>=1,>=2"])
def test_a_range_without_exactly_one_lower_bound_is_refused(declared: str) -> None:
    with pytest.raises(ValueError, match="one lower bound"):
        lowest_release(declared)


def test_every_test_tool_is_pinned_once() -> None:
    pins = pinned_tools((ROOT / "constraints.txt").read_text().splitlines())
    assert sorted(Requirement(pin).name for pin in pins) == sorted(TEST_TOOLS)


@pytest.mark.parametrize("path", LEFT_OUT)
def test_what_is_left_out_exists(path: str) -> None:
    module, _, name = path.partition("::")
    assert (ROOT / module).is_dir() if module.endswith("/") else (ROOT / module).is_file()
    # Of a test with parameters one case may be left out.
    assert not name or f"def {name.partition('[')[0]}(" in (ROOT / module).read_text()
