"""Folders: datasets below a folder, by listing folder after folder, many at once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from posixpath import join

from lance_ops.errors import NotFoundError
from lance_ops.fleet.policy.model import LEDGER_FOLDER
from lance_ops.storage import Store
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY

SUFFIX = ".lance"
_HIDDEN = ("_", ".")
_OF_A_DATASET = frozenset({VERSIONS_DIRECTORY, "data"})


def walk(
    store: Store,
    start: str,
    *,
    depth: int,
    threads: int,
    deadline: float | None = None,
    enters: Callable[[str], bool] = lambda _: True,
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
                    names = done.result()
                    if VERSIONS_DIRECTORY in names:
                        yield path
                        continue
                    for name in names:
                        below = join(path, name) if path else name
                        if name.startswith(_HIDDEN) or name == LEDGER_FOLDER:
                            continue
                        if name.endswith(SUFFIX):
                            yield below
                        elif level < depth and enters(below):
                            waiting[pool.submit(list_folders, store, below)] = (below, level + 1)
        finally:
            for future in waiting:
                future.cancel()


def list_folders(store: Store, path: str) -> list[str]:
    """Names of the folders in a folder; none where there is none."""
    try:
        return store.list_dirs(path)
    except NotFoundError:
        return []
