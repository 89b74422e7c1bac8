"""The examples of the documentation run as they stand, those of a page in turn in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs import DOCS, PAGES, ROOT, examples, script
from tests.support.spark import run_script

WITH_EXAMPLES = [page for page in PAGES if examples(page)]


def _parameter(page: Path):
    uses_spark = "lance_ops.spark" in script(page) or "--spark" in script(page)
    name = page.relative_to(DOCS).as_posix()
    return pytest.param(page, id=name, marks=[pytest.mark.spark] if uses_spark else [])


def test_the_guides_have_examples():
    names = {page.name for page in WITH_EXAMPLES}
    assert names >= {"index.md", "dagster.md", "spark.md", "filters.md", "operations.md"}


@pytest.mark.parametrize("page", [_parameter(page) for page in WITH_EXAMPLES])
def test_the_examples_of_a_page_run_as_they_stand(tmp_path, page):
    run_script(script(page), cwd=tmp_path)


def test_the_first_definitions_of_pages_and_the_examples_are_loaded_by_dagster(tmp_path):
    """All in one command: each of its starts takes seconds."""
    files = [ROOT / "examples" / "spark_job" / "definitions.py"]
    for page in (DOCS / "dagster.md", DOCS / "dagster-ui.md", ROOT / "README.md"):
        code = next(sample.code for sample in examples(page) if "build_lance_definitions" in sample.code)
        files.append(tmp_path / f"sample_{page.stem.replace('-', '_')}.py")
        files[-1].write_text(code, encoding="utf-8")
    (tmp_path / "dagster.yaml").write_text("code_servers: {local_startup_timeout: 600}\n", encoding="utf-8")
    arguments = [argument for file in files for argument in ("-f", str(file))]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "dagster", "definitions", "validate", *arguments],
        cwd=tmp_path,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert told.count("Validation successful for code location") == len(files), told
