"""The site builds strictly, names everything that is public, and fetches nothing."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.docs import ROOT
from tools.docs_hooks import API_PAGES, unlisted
from tools.docs_reference import find, public_names


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder


@pytest.mark.parametrize(("page", "module"), list(API_PAGES.items()))
def test_every_public_name_has_a_place_with_its_docstring(site, page, module):
    html = (site / page).with_suffix(".html").read_text(encoding="utf-8")
    for name in public_names(find(module)):
        place = html.partition(f'id="{module}.{name}"')[2]
        assert place, f"{module}.{name} is not on the page"
        body = place.partition('<div class="doc doc-contents')[2].partition("</div>")[0]
        assert "<p>" in body, f"{module}.{name} has no docstring"


def test_a_public_name_that_is_not_on_its_page_fails_the_build():
    assert "add `::: lance_ops.append`" in unlisted("api/lance_ops.md", "::: lance_ops.compact\n")


def test_readers_fetch_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        fetched = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"'](?:https?:)?//[^\"']*", html
        )
        assert fetched == [], page.name
