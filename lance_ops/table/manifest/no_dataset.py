"""Missing dataset: what is at the URI instead, and what the caller probably meant."""

import contextlib
import os
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from lance_ops.errors import DatasetNotFoundError
from lance_ops.storage import Store

_SUFFIX = ".lance"
_VERSIONS = "_versions"
_CREATE = "append() creates a dataset from files or data"
_MOST_LOOKED_AT = 1000
_MOST_NAMED = 5


def no_dataset(store: Store) -> DatasetNotFoundError:
    """Return the error for a URI without a dataset; only local folders are looked at, without a request.

    Args:
        store: Store bound to the URI.
    """
    why, hint = "there is no manifest", f"check the URI; {_CREATE}"
    if hasattr(store, "local_path"):
        with contextlib.suppress(OSError):
            why, hint = _look(Path(store.uri))
    return DatasetNotFoundError(f"no dataset here: {why}", path=store.uri, hint=hint)


def _look(path: Path) -> tuple[str, str]:
    around = next((folder for folder in path.parents if (folder / _VERSIONS).is_dir()), None)
    if around is not None:
        return "the path is inside of a dataset", f"use {str(around)!r}"
    if path.is_file():
        return "the path is a file, expected the folder of a dataset", f"check the path; {_CREATE}"
    if not path.is_dir():
        others = {name.removesuffix(_SUFFIX): name for name in _names(path.parent)}
        close = get_close_matches(path.name.removesuffix(_SUFFIX), others, 1)
        hint = (
            f"did you mean {str(path.parent / others[close[0]])!r}?"
            if close
            else f"check the path; {_CREATE}"
        )
        return "there is no such folder", hint
    inside = list(islice((name for name in _names(path) if (path / name / _VERSIONS).is_dir()), _MOST_NAMED))
    if inside:
        return "the folder has no manifest", f"it contains the datasets {', '.join(sorted(inside))}"
    return "the folder has no manifest", f"check the path; {_CREATE}"


def _names(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, _MOST_LOOKED_AT) if entry.is_dir()]
