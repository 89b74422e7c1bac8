"""Run the unit tests and a walk of every operation with the oldest allowed dependencies, and without pandas.

    python tools/lowest.py [arguments of pytest]

Installs the lower bounds of pyproject.toml into an environment of its own under `.cache`: those of the core,
and of the extras that do without pandas. Test tools and the official library have the versions of
`constraints.txt`. Needs a package index.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from throwaway_environment import make_environment

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".cache" / "lowest"

EXTRAS = ("geo", "objectstore", "text", "vector")
"""Extras of the environment. Spark and Dagster bring pandas along, or need it."""

LEFT_OUT = (
    "tests/answers/test_random_selects.py",  # DuckDB
    "tests/answers/test_select.py",
    "tests/answers/test_without_spark.py",
    "tests/cli/",  # Dagster, Spark, pandas
    "tests/dagster/",
    "tests/facade/test_mistakes.py",  # pandas
    "tests/index/vector/",
    "tests/spark/",
    # Dagster
    "tests/alerts/test_notifier.py::test_a_url_of_another_kind_in_the_environment_is_not_shown",
    "tests/alerts/test_notifier.py::test_the_url_may_be_in_the_environment_and_is_read_when_it_is_needed",
    "tests/encoding/library/test_library.py",  # the pinned numba
    "tests/encoding/kernels/test_oracles.py",  # old numpy prints its types otherwise
    "tests/fleet/report/test_report_page.py",  # a browser
    "tests/fleet/run/test_run_on_spark.py",
    "tests/maintenance/sources/test_kinds.py",  # DuckDB, Polars, fastavro
    # DuckDB
    "tests/maintenance/sources/test_odd_input.py::test_a_query_does_not_see_variables_of_the_library",
    "tests/maintenance/sources/test_odd_input.py::test_a_query_that_fails_in_the_middle_commits_nothing",
    "tests/maintenance/sources/test_pandas.py",
    "tests/maintenance/sources/test_pandas_ways.py",
    "tests/maintenance/sources/test_source.py",  # pandas, DuckDB
    "tests/maintenance/merge_insert/test_operation.py::test_any_kind_of_source_is_merged",  # pandas
    "tests/maintenance/test_tasks.py",  # Spark
    "tests/table/test_arrow_dataset.py",  # DuckDB
    # pandas
    "tests/table/test_dataset.py::test_rows_come_as_a_table_as_batches_as_a_frame_and_as_the_first_few",
    "tests/table/test_dataset_interop.py",  # pandas
    "tests/table/test_extension_values.py",  # pandas
    "tests/table/test_ordered_categories.py",  # pandas
    "tests/test_docstring_examples.py::test_the_example_of_a_function_runs[read_query]",  # DuckDB
    "tests/test_docstring_examples.py::test_the_example_of_a_function_runs[sql]",
    "tests/test_suite.py::test_lines_that_run_in_several_measurements_are_added_up",  # coverage
    "tests/testing/test_suites.py",  # Dagster
    "tests/test_public_api.py",  # Spark
)
"""Unit tests that need what the environment does not have."""

TEST_TOOLS = ("hypothesis", "packaging", "psutil", "pylance", "pytest", "pytest-xdist")
"""What the tests import beside the product. None of them depends on pandas."""


def lowest_release(declared: str) -> str:
    """Return the requirement that pins the lower bound of `declared`.

    Args:
        declared: A requirement with one `>=`, as in `pyproject.toml`.

    Raises:
        ValueError: There is no lower bound, or more than one.

    Example:
        >>> lowest_release("protobuf>=5.29,<7")
        'protobuf==5.29'
    """
    requirement = Requirement(declared)
    bounds = [bound.version for bound in requirement.specifier if bound.operator in {">=", "=="}]
    if len(bounds) != 1:
        raise ValueError(f"{declared}: expected one lower bound, got {len(bounds)}")
    return f"{requirement.name}=={bounds[0]}"


def pinned_tools(constraints: Iterable[str]) -> list[str]:
    """Return the lines of `constraints.txt` that pin the test tools.

    Args:
        constraints: Lines of the file.
    """
    pins = [line.strip() for line in constraints if line.strip() and not line.startswith("#")]
    return [pin for pin in pins if canonicalize_name(Requirement(pin).name) in TEST_TOOLS]


def lowest_environment() -> Path:
    """Install what is missing or outdated; return the interpreter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][name] for name in EXTRAS)
    declared = [*project["dependencies"], *chain(*extras)]
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    return make_environment(ENVIRONMENT, [*map(lowest_release, declared), *pinned_tools(constraints)])


def variables() -> dict[str, str]:
    """Return the variables that the tests run with."""
    return os.environ | {
        "HYPOTHESIS_PROFILE": "quick",
        # Compiled loops of another numba must not replace those that the project's own environment keeps.
        "NUMBA_CACHE_DIR": str(ENVIRONMENT.with_name("lowest-kernels")),
        "RUST_LOG": "off",
    }


def main(arguments: Sequence[str]) -> int:
    """Run the tests in the environment; return the exit code of pytest."""
    python = lowest_environment()
    left_out = [f"--deselect={path}" if "::" in path else f"--ignore={path}" for path in LEFT_OUT]
    command = [str(python), "-m", "pytest", "-q", "-m", "unit", "-n", "auto", *left_out, *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
