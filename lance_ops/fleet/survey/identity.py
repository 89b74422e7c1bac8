"""Identity: whether a path still has the dataset that was seen there, told by a listing of its manifests.

A manifest is written once. One of the same version with another size, time or ETag was overwritten, or
belongs to another dataset, and so does a history that ends before the version that was seen. The format names
no dataset, so that this is all that tells; it costs no request, since that listing finds the newest version.
"""

from collections.abc import Iterable

from lance_ops.storage import ObjectInfo, Store, lists_names
from lance_ops.table.manifest.listing import latest
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY, NamingScheme, manifest_path


def head_of(store: Store) -> str:
    """Mark of the newest manifest, by a listing that is needed to find it.

    Raises:
        LanceOpsError: As `latest`.
    """
    location = latest(store)
    if lists_names(store):
        return _mark(location.version, store.info(location.path))
    return mark_in(store.list(VERSIONS_DIRECTORY), location.version)


def mark_in(infos: Iterable[ObjectInfo], version: int) -> str:
    """Mark of the manifest of a version: number, size, time and ETag; empty where there is none."""
    paths = {manifest_path(version, scheme) for scheme in NamingScheme}
    return _mark(version, next((info for info in infos if info.path in paths), None))


def is_another(head: str | None, infos: Iterable[ObjectInfo], newest: int) -> bool:
    """Whether manifests belong to another dataset than the one that was seen.

    Args:
        head: Mark of its newest manifest then; None or empty when nobody knows.
        infos: Manifests that are there now.
        newest: Newest version now.
    """
    if not head:
        return False
    version = int(head.partition(" ")[0])
    # What a cleanup removed since tells nothing.
    return newest < version or mark_in(infos, version) not in ("", head)


def _mark(version: int, info: ObjectInfo | None) -> str:
    return "" if info is None else f"{version} {info.size} {info.modified.isoformat()} {info.mark}".rstrip()
