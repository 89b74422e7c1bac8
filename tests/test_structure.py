"""The shape of the package: modules are one concept each, neither long nor fragments; folders have few."""

import ast
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "lance_ops"
MOST_LINES = 600
MOST_MODULES = 24
LEAST_LINES = 40

# Modules of fewer lines with a single importer, by package: may only shrink, by a merge into the importer.
SHORT_MODULES = {
    "airflow": 1,
    "cli": 1,
    "dagster": 2,
    "encoding": 16,
    "file": 1,
    "fleet": 1,
    "index": 1,
    "root": 2,
    "testing": 2,
}

# Files that break a rule of ruff on the size of functions, the compiled loops apart: may only shrink.
LONG_FUNCTIONS = 4
SIZE_RULES = {"C901", "PLR0915", "PLR0917"}

# What is generated follows its sources.
FOLDERS = sorted(
    {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE / "pb"},
    key=lambda folder: folder.relative_to(PACKAGE).as_posix(),
)


@cache
def modules() -> dict[str, Path]:
    """Modules of the package by their full names; packages themselves are none."""
    paths = (path for folder in FOLDERS for path in folder.glob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in paths}


def imported_names(path: Path) -> set[str]:
    """Modules of the package that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names} & modules().keys()
            found |= names or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules().keys()


def test_no_short_module_has_a_single_importer():
    importers = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for name in imported_names(path):
            importers[name].add(path)
    short = defaultdict(list)
    for name, path in modules().items():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines < LEAST_LINES and len(importers[name] - {path}) == 1:
            parts = name.split(".")
            short[parts[1] if len(parts) > 2 else "root"].append(name)
    grown = {package: names for package, names in short.items() if len(names) > SHORT_MODULES.get(package, 0)}
    assert grown == {}, "merge them into their importers"


def test_exceptions_from_the_rules_on_the_size_of_functions_only_shrink():
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    ignores = settings["tool"]["ruff"]["lint"]["per-file-ignores"]
    exceptions = {
        file for file, rules in ignores.items() if file.startswith("lance_ops/") and SIZE_RULES & {*rules}
    }
    assert len(exceptions - {"lance_ops/encoding/kernels/*"}) == LONG_FUNCTIONS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(PACKAGE.parent).as_posix())
def test_a_folder_has_few_modules_of_one_concept_each(folder: Path) -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in folder.glob("*.py")}
    if folder == PACKAGE:
        # The list of the public names, which is as long as there are names.
        del lines["__init__.py"]
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}, "split by concepts"
    assert len(lines.keys() - {"__init__.py"}) <= MOST_MODULES, "give some of them a folder of their own"
