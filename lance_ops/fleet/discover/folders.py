"""Folders: datasets below a folder, by listing folder after folder, many at once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from posixpath import join

from lance_ops.errors import NotFoundError, PathEscapeError, PermissionDeniedError
from lance_ops.fleet.policy.model import LEDGER_FOLDER
from lance_ops.storage import Store
from lance_ops.storage.paths import validate_relative_path
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY

SUFFIX = ".lance"
_HIDDEN = ("_", ".")


def walk(
    store: Store,
    start: str,
    *,
    depth: int,
    threads: int,
    deadline: float | None = None,
    enters: Callable[[str], bool] = lambda _: True,
    skips: Callable[[str, str], None] = lambda _, __: None,
) -> Iterator[str]:
    """Paths of datasets below a folder, in any order.

    What ends in `.lance` is taken for a dataset by its name, what has manifests is one, and nothing is looked
    for inside of one. Names that begin with a dot or an underscore are passed over.

    Args:
        store: The store.
        start: The folder.
        depth: Folders are listed so many levels deep.
        threads: Listings at once.
        deadline: `time.monotonic()` at which to stop.
        enters: Whether a folder is worth a look.
        skips: Told of each folder that cannot be looked into, and why; the others are.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="lance-discover") as pool:
        waiting: dict[Future[list[str]], tuple[str, int]] = {
            pool.submit(list_folders, store, start): (start, 0)
        }
        try:
            while waiting and (deadline is None or time.monotonic() < deadline):
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                for done in wait(waiting, timeout=left, return_when=FIRST_COMPLETED).done:
                    path, level = waiting.pop(done)
                    try:
                        names = done.result()
                    except PermissionDeniedError as error:
                        if not level:
                            raise
                        skips(path, error.message)
                        continue
                    if VERSIONS_DIRECTORY in names:
                        yield path
                        continue
                    for name in names:
                        below = join(path, name) if path else name
                        if name.startswith(_HIDDEN) or name == LEDGER_FOLDER:
                            continue
                        if (why := unusable(below)) is not None:
                            skips(below, why)
                        elif name.endswith(SUFFIX):
                            yield below
                        elif level < depth and enters(below):
                            waiting[pool.submit(list_folders, store, below)] = (below, level + 1)
        finally:
            for future in waiting:
                future.cancel()


def unusable(path: str) -> str | None:
    """Why no store takes a path that one of them named; None when it does."""
    try:
        if path:
            validate_relative_path(path)
        path.encode()
    except PathEscapeError as error:
        return error.message
    except UnicodeEncodeError:
        return "its name is not UTF-8, so no table can hold it"
    return None


def list_folders(store: Store, path: str) -> list[str]:
    """Names of the folders in a folder; none where there is none."""
    try:
        return store.list_dirs(path)
    except NotFoundError:
        return []
