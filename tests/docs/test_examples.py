"""The examples of the documentation run as they stand, those of a page in turn in an empty folder."""

from pathlib import Path

import pytest

from tests.support.docs import DOCS, PAGES, examples, script
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
