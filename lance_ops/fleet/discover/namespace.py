"""Directory namespace of lance-namespace: tables by the folder listing, and by its `__manifest` table.

A table of the first form is a folder `<name>.lance` with no marker that it is reserved or was deregistered;
one of the second is a row of the Lance table `__manifest`, which says where it lies, also those of nested
namespaces.
"""

from collections.abc import Iterator
from posixpath import join, normpath

from lance_ops.errors import DatasetNotFoundError
from lance_ops.fleet.discover.folders import SUFFIX, list_folders
from lance_ops.storage import Store
from lance_ops.storage.paths import is_address
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY

MANIFEST = "__manifest"
_MARKERS = (".lance-reserved", ".lance-deregistered")


def list_tables(store: Store, root: str) -> Iterator[str]:
    """Return the paths of the tables of a namespace.

    Args:
        store: The store.
        root: Folder of the namespace.

    Raises:
        LanceOpsError: Its table `__manifest` cannot be read.
    """
    told = set(_tables_of_manifest(store, root))
    yield from sorted(told)
    for name in list_folders(store, root):
        path = join(root, name) if root else name
        if path in told or not name.endswith(SUFFIX):
            continue
        if not any(store.exists(f"{path}/{marker}") for marker in _MARKERS):
            yield path


def _tables_of_manifest(store: Store, root: str) -> Iterator[str]:
    """Return the tables with data in the table `__manifest`."""
    path = join(root, MANIFEST) if root else MANIFEST
    try:
        table = Dataset.open(store.child(path)).to_table(
            columns=["object_type", "location"], filter="object_type = 'table'"
        )
    except DatasetNotFoundError:
        return
    for location in table["location"].to_pylist():
        # A location elsewhere belongs to another store.
        if not location or is_address(location) or location.startswith("/"):
            continue
        found = normpath(join(root, location) if root else location)
        # A declared table without data has no manifest either.
        if not found.startswith("..") and VERSIONS_DIRECTORY in list_folders(store, found):
            yield found
