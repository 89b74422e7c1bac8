"""The Dagster instance of the demo: the one that `make ui` shows, emptied."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

SETTINGS = "dagster.yaml"

_FALLBACK = """\
telemetry: {enabled: false}
nux: {enabled: false}
"""


@contextmanager
def fresh_instance(folder: Path) -> Iterator[dg.DagsterInstance]:
    """An instance without a past, in `dagster_home` of the project, or below `folder` where there is none.

    A dataset that was made anew has its version 1 again, which an instance that remembers the old one would
    not publish.
    """
    home = Path("dagster_home").resolve()
    if not (home / SETTINGS).is_file():
        home = (folder / "dagster_home").resolve()
        home.mkdir(parents=True, exist_ok=True)
        (home / SETTINGS).write_text(_FALLBACK, encoding="utf-8")
    for item in home.iterdir():
        if item.is_dir():
            shutil.rmtree(item)
        elif item.name not in (SETTINGS, ".gitignore"):
            item.unlink()
    os.environ["DAGSTER_HOME"] = str(home)
    with dg.DagsterInstance.get() as instance:
        yield instance
