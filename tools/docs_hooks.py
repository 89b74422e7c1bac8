"""What MkDocs calls when it builds the site: tables from the code, pages from the root, a check of names."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools import docs_reference

ROOT = Path(__file__).parent.parent

FROM_ROOT = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "benchmarks.md": "benchmarks/README.md",
    "benchmarks-columns.md": "benchmarks/COLUMNS.md",
}
"""Pages of the site that lie elsewhere in the repository, where people look for them."""

API_PAGES = {
    "api/lance_ops.md": "lance_ops",
    "api/dagster.md": "lance_ops.dagster",
    "api/fleet.md": "lance_ops.fleet",
    "api/spark.md": "lance_ops.spark",
    "api/errors.md": "lance_ops.errors",
    "api/testing.md": "lance_ops.testing",
}
"""Pages on which every public name of a module has to stand."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of `docs/`."""
    for page, source in FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        # Links that are right in the repository, made right for the site.
        text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
        for other, path in FROM_ROOT.items():
            if Path(path).parent == Path(source).parent:
                text = re.sub(rf"\]\({re.escape(Path(path).name)}(?=[#)])", f"]({other}", text)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Carry out the directives of a page, and check that pages of the API are complete."""
    try:
        expanded = docs_reference.expand(markdown)
        missing = unlisted(page.file.src_uri, expanded)
    except LookupError as error:
        raise PluginError(f"docs/{page.file.src_uri}: {error}") from error
    if missing:
        raise PluginError(f"docs/{page.file.src_uri}: {'; '.join(missing)}")
    return expanded


def unlisted(page: str, markdown: str) -> list[str]:
    """What a page of the API lacks: public names that are not on it, or that have no docstring."""
    module_name = API_PAGES.get(page)
    if module_name is None:
        return []
    module = docs_reference.find(module_name)
    names = docs_reference.public_names(module)
    listed = set(re.findall(rf"^::: {re.escape(module_name)}\.(\w+)$", markdown, re.MULTILINE))
    missing = [f"add `::: {module_name}.{name}`" for name in names if name not in listed]
    missing += [
        f"{module_name}.{name} has no docstring" for name in names if not getattr(module, name).__doc__
    ]
    return missing
