"""Naming migration: a version stored under an old name after the others were renamed.

`migrate_manifest_paths` cannot stop writers that read the newest version before. Their version is then stored
beside versions with new names, and another writer may have made the same version under its new name. So after
storing a name of the first scheme, a writer checks for new names, and renames its version or withdraws it.
"""

from dataclasses import replace

from lance_ops.errors import AlreadyExistsError
from lance_ops.storage import Store
from lance_ops.storage.retry import unless_gone
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.naming import NamingScheme, manifest_path


def follow_renaming(store: Store, location: ManifestLocation, manifest: bytes) -> ManifestLocation | None:
    """Return the final location of a version that was stored just now.

    Args:
        store: Root of the dataset.
        location: Where it was stored.
        manifest: Its bytes.

    Returns:
        Its location; None when another writer made this version under the new name. Then it is removed.
    """
    if location.scheme is not NamingScheme.V1:
        return location
    below = manifest_path(location.version - 1, NamingScheme.V2)
    path = manifest_path(location.version, NamingScheme.V2)
    if not (store.exists(below) or store.exists(path)):
        return location
    try:
        store.put(path, manifest, if_absent=True)
    except AlreadyExistsError:
        found = unless_gone(store, path, lambda: store.read(path))
        if found is None or bytes(found) != manifest:
            store.delete(location.path)
            return None
    store.delete(location.path)
    return replace(location, path=path, scheme=NamingScheme.V2)
