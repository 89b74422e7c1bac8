"""What the pages name is there: files, modules, make targets, invariants."""

import ast
import dataclasses
import re
from collections.abc import Iterator

import pytest

from lance_ops.dagster import keys
from lance_ops.dagster.checks.catalog import CHECKS, page_name
from lance_ops.maintenance.fsck import operation as fsck
from lance_ops.maintenance.health import measure as health
from tests.maintenance.test_store_calls import BOUNDS
from tests.support.docs import AT_ROOT, DOCS, PAGES, ROOT
from tools.docs_reference import fill, find

TEXTS = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [*PAGES, *AT_ROOT]
    if page.name != "old-peers.md"
}

_TAGS_OF_RUNS = {keys.DATASET_TAG, keys.DOWNSTREAM_TAG, keys.TRIGGER_TAG}
_PATH = re.compile(r"`((?:lance_ops|tests|tools|benchmarks|docs|protos|examples)/[\w./-]*)`")
_NAME = re.compile(r"`(lance_ops(?:\.\w+)+)`")
_TARGET = re.compile(r"(?:`|^\$ )make ([a-z][a-z-]*)|^make ([a-z][a-z-]*) +#", re.MULTILINE)
_CITED = re.compile(r"\binvariants? ((?:\d+)(?:(?:, | and )\d+)*)")


@pytest.mark.parametrize("name", TEXTS)
def test_every_path_that_a_page_names_exists(name):
    named = set(_PATH.findall(TEXTS[name])) - _TAGS_OF_RUNS
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_every_module_and_name_that_a_page_names_exists(name):
    for dotted in _NAME.findall(TEXTS[name]):
        # The names of a table panel, a logger or a property begin so, too.
        if not dotted.endswith(
            (".lance", ".alerts", ".auto_cleanup", ".clone", ".estimate", ".max_field_id")
        ):
            find(dotted)


@pytest.mark.parametrize("name", TEXTS)
def test_tables_from_the_code_are_as_the_code_is(name):
    """`make docs` fills them in."""
    assert fill(TEXTS[name]) == TEXTS[name]


@pytest.mark.parametrize("name", TEXTS)
def test_every_make_target_that_a_page_names_exists(name):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {quoted or listed for quoted, listed in _TARGET.findall(TEXTS[name])}
    assert named <= targets


def test_every_invariant_that_the_code_cites_is_on_the_page_of_the_architecture():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    stated = re.findall(r"^### (\d+)\. .+ \{ #invariant-(\d+) \}$", page, re.MULTILINE)
    assert stated == [(str(number), str(number)) for number in range(1, len(stated) + 1)]
    cited = set()
    for folder in ("lance_ops", "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            for numbers in _CITED.findall(file.read_text(encoding="utf-8")):
                cited.update(re.findall(r"\d+", numbers))
    assert cited
    assert cited <= {number for number, _ in stated}


def _first_cells(page: str, heading: str) -> set[str]:
    """What stands in backticks in the first column of the tables below a heading."""
    section = TEXTS[page].partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("heading", ["Table config", "Column metadata", "Storage options"])
def test_every_option_of_the_configuration_is_in_the_code(heading):
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "lance_ops").rglob("*.py"))
    options = _first_cells("docs/configuration.md", heading)
    assert options
    for option in options:
        # Keys are put together from a prefix and a name.
        assert (
            f'"{re.split(r"[.:]", option.removeprefix("aws_"))[-1]}"' in source or f'"{option}"' in source
        ), option


def test_every_environment_variable_of_the_configuration_is_read():
    files = [*(ROOT / "lance_ops").rglob("*.py"), ROOT / "definitions.py"]
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    variables = _first_cells("docs/configuration.md", "Environment variables")
    assert "LANCE_OPS_CACHE_BYTES" in variables
    assert [name for name in sorted(variables) if not re.search(rf"""["'`]{name}["'`]""", source)] == []


def test_the_runbook_explains_every_check_finding_and_measure():
    text = TEXTS["docs/operations.md"]
    rows = {
        name
        for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    measures = {item.name for item in dataclasses.fields(health.DatasetHealth)} - {"version"}
    assert {*map(page_name, CHECKS), *fsck.CHECKS, "rows_match", *measures} <= rows


def test_the_guide_of_spark_lists_every_option_of_the_format():
    source = (ROOT / "lance_ops" / "spark" / "options.py").read_text(encoding="utf-8")
    options = set(re.findall(r"take\(\"(\w+)\"", source))
    assert options
    listed = set(re.findall(r"^\| `(\w+)` \|", TEXTS["docs/spark.md"], re.MULTILINE))
    # Spark's own are written as Spark writes them.
    assert options <= {name.lower() for name in listed}


def test_the_guide_of_spark_names_every_option_of_streams():
    source = (ROOT / "lance_ops" / "spark" / "streaming" / "options.py").read_text(encoding="utf-8")
    options = set(re.findall(r"take\(\"(\w+)\"", source))
    assert "startingVersion" in options
    named = set(re.findall(r"`(\w+)`", TEXTS["docs/spark.md"]))
    ours = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in options}
    assert [name for name in sorted(options) if not {name, ours[name]} & named] == []


def test_the_page_of_the_architecture_names_every_room():
    named = set(re.findall(r"^\| `(lance_ops/[\w/]+)` \|", TEXTS["docs/architecture.md"], re.MULTILINE))
    rooms = {
        package.parent.relative_to(ROOT).as_posix()
        for package in (ROOT / "lance_ops").rglob("__init__.py")
        if package.parent.parent != ROOT and "testing" not in package.parts
    }
    assert rooms - named == set()


def test_the_store_calls_on_the_page_of_the_architecture_are_those_that_are_tested():
    section = TEXTS["docs/architecture.md"].partition("{ #store-calls }")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w ]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", section, re.MULTILINE)
    assert {name: tuple(map(int, numbers)) for name, *numbers in rows} == {
        name: manifests for name, (_, manifests, _) in BOUNDS.items()
    }


def test_terms_of_the_glossary_are_there_once_and_in_order():
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    for section in page.split("\n## ")[1:]:
        terms = [
            term for term in re.findall(r"^\| (.+?) \|", section, re.MULTILINE) if term not in {"term", "---"}
        ]
        assert terms == sorted(set(terms), key=lambda term: term.lower().replace("-", " "))


def test_samples_of_pages_use_public_names_only():
    """Imports of Python samples, and names that the text for users has in backticks."""
    modules = {
        "lance_ops",
        *re.findall(r"^\| `(lance_ops[\w.]+)` \|", TEXTS["docs/api/lance_ops.md"], re.MULTILINE),
    }
    wrong = []
    for page, text in TEXTS.items():
        used = set()
        for sample in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            used |= set(_used_names(sample))
        if page not in OF_THE_INSIDE:
            used |= {name for name in _CALLED.findall(text) if name not in modules}
        wrong += [f"{page}: {name}" for name in sorted(used) if not _is_public(name, modules)]
    assert wrong == []


# What they describe lies behind the public names.
OF_THE_INSIDE = {
    "docs/architecture.md",
    "docs/format.md",
    "docs/glossary.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
}
_CALLED = re.compile(r"`(lance_ops(?:\.\w+)*\.\w+)\(")


def _used_names(sample: str) -> Iterator[str]:
    """Names of lance_ops that a sample imports or uses by their module, as dotted paths."""
    known = {}
    for node in ast.walk(ast.parse(sample)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lance_ops":
            yield from (f"{node.module}.{item.name}" for item in node.names)
        elif isinstance(node, ast.Import):
            known |= {item.asname or item.name: item.name for item in node.names if "lance_ops" in item.name}
    # A page imports it once.
    known.setdefault("lo", "lance_ops")
    for node in ast.walk(ast.parse(sample)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            yield f"{known[node.value.id]}.{node.attr}"


def _is_public(name: str, modules: set[str]) -> bool:
    home, _, last = name.rpartition(".")
    if name in modules:
        return True
    return home in modules and last in getattr(find(home), "__all__", vars(find(home)))
