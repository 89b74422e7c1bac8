"""Identity of a dataset: whether a path still has the dataset that was seen, by a listing of its manifests.

A manifest is written once. One of the same version with another size, time or ETag was overwritten, or
belongs to another dataset, and so does a history that ends before the version seen. The format has no dataset
id, so this is the only evidence; it costs no request, since that listing also finds the newest version.
"""

from collections.abc import Iterable

from lance_ops.storage import ObjectInfo, Store, lists_names
from lance_ops.table.manifest.listing import latest
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY, NamingScheme, manifest_path


def head_of(store: Store) -> str:
    """Return the mark of the newest manifest, by the listing that finds it.

    Raises:
        LanceOpsError: As `latest`.
    """
    location = latest(store)
    if lists_names(store):
        return _mark(location.version, store.info(location.path))
    return mark_in(store.list(VERSIONS_DIRECTORY), location.version)


def mark_in(infos: Iterable[ObjectInfo], version: int) -> str:
    """Return the mark of the manifest of a version: number, size, time and ETag; empty if missing."""
    paths = {manifest_path(version, scheme) for scheme in NamingScheme}
    return _mark(version, next((info for info in infos if info.path in paths), None))


def is_another(head: str | None, infos: Iterable[ObjectInfo], newest: int) -> bool:
    """Return whether manifests belong to another dataset than the one seen before.

    Args:
        head: Mark of its newest manifest then; None or empty if unknown.
        infos: Present manifests.
        newest: Present newest version.
    """
    if not head:
        return False
    version = int(head.partition(" ")[0])
    # Manifests removed by a cleanup are no evidence.
    return newest < version or mark_in(infos, version) not in ("", head)


def _mark(version: int, info: ObjectInfo | None) -> str:
    return "" if info is None else f"{version} {info.size} {info.modified.isoformat()} {info.mark}".rstrip()
