"""The tested set of versions that every installation is pinned to."""

import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def read_requirements() -> list[str]:
    """All direct dependencies and those of extras, but for Airflow, which has an environment of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (wanted for name, wanted in project["optional-dependencies"].items() if name != "airflow")
    found = [*project["dependencies"], *chain(*extras)]
    return [requirement for requirement in found if Requirement(requirement).name != project["name"]]


@pytest.mark.parametrize("requirement", read_requirements())
def test_every_dependency_is_pinned_within_its_range(requirement: str) -> None:
    wanted = Requirement(requirement)
    pins = [
        pin
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
        if canonicalize_name((pin := Requirement(line)).name) == canonicalize_name(wanted.name)
    ]
    assert pins, f"run `make constraints`: {wanted.name} is not pinned"
    for pin in pins:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert wanted.specifier.contains(exact.version), f"run `make constraints`: {pin} is outside {wanted}"
