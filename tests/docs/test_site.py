"""The site builds strictly, names everything that is public, and fetches nothing."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.docs import ROOT
from tools.docs_hooks import API_PAGES, unlisted
from tools.docs_reference import find, public_names

BUILD = "-m mkdocs build --strict"


def build(root, folder):
    return subprocess.run(
        [sys.executable, *BUILD.split(), "--site-dir", str(folder)],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder


def test_a_dead_link_fails_the_build(tmp_path):
    # Quietly built, warnings are not counted: the command that make runs is the one that is tried.
    assert f"{BUILD}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    page = tmp_path / "docs" / "index.md"
    page.parent.mkdir()
    page.write_text("[there](index.md)\n")
    assert build(tmp_path, tmp_path / "site").returncode == 0
    page.write_text("[gone](nowhere.md)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


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
