import ast
import re
from pathlib import Path

import dagster as dg
import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    *(ROOT / "lance_ops" / "dagster").rglob("*.py"),
    *(ROOT / "examples" / "demo").rglob("*.py"),
    ROOT / "definitions.py",
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_public_names_of_dagster_are_used(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            # Its public module of what components are made of has names that `dagster` itself lacks.
            public = node.module == "dagster.components"
            assert public or not (node.module or "").startswith("dagster"), ast.unparse(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name.split(".")[0] != "dagster" or (alias.name, alias.asname) == (
                    "dagster",
                    "dg",
                )
        # Dagster answers unknown attributes at run time, so no type checker finds these.
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "dg":
            assert hasattr(dg, node.attr), node.attr


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "tests", "tools"])
def test_nothing_names_private_modules_of_dagster(folder):
    private = re.compile(r"(?<![\w.])dagster(?:_\w+)?(?:\.\w+)*\._[a-z]")
    found = [path for path in (ROOT / folder).rglob("*.py") if private.search(path.read_text())]
    assert not found


def test_the_code_location_is_short():
    assert len((ROOT / "definitions.py").read_text().splitlines()) < 40
