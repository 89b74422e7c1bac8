"""Discovery by listing folders, many at once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from posixpath import join

from lance_ops.errors import NotFoundError, PathEscapeError, PermissionDeniedError
from lance_ops.fleet.policy.model import LEDGER_FOLDER
from lance_ops.storage import Store
from lance_ops.storage.paths import validate_relative_path
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY

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
    """Yield the paths of datasets below a folder, in any order.

    A folder that ends in `.lance` or has manifests is a dataset, and is not searched. Names that begin with a
    dot or an underscore are skipped.

    Args:
        store: The store.
        start: The folder.
        depth: Maximum depth of folders.
        threads: Concurrent listings.
        deadline: `time.monotonic()` at which to stop.
        enters: Returns whether to list a folder.
        skips: Called with each folder that cannot be listed, and the error.
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
    """Return why a path cannot be used with any store; None if it can."""
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
    """Return the names of the folders in a folder; empty if it does not exist."""
    try:
        return store.list_dirs(path)
    except NotFoundError:
        return []
