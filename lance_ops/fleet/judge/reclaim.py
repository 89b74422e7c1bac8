"""Estimate of reclaimable bytes of a cleanup, from listings and one old manifest.

A file is removed when neither the newest version nor the oldest retained one uses it, and it is older than
the latter. Versions in between only add younger files; files of a restored version are used by the newest. So
six requests replace reading every manifest; tags, which retain more, are ignored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lance_ops.storage import ObjectInfo
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    ManifestLocation,
    is_detached,
    manifests_among,
)
from lance_ops.table.manifest.model import Manifest

_FOLDERS = ("data", "_deletions", "_indices", "_transactions")


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """Estimated effect of a cleanup.

    Attributes:
        bytes: Bytes freed.
        files: Files removed, manifests included.
        versions: Versions removed.
        all_versions: Versions before.
    """

    bytes: int = 0
    files: int = 0
    versions: int = 0
    all_versions: int = 0


def reclaimable(
    dataset: Dataset, *, older_than: timedelta, retain_versions: int, now: datetime
) -> Reclaimable:
    """Estimate the effect of a cleanup of a dataset.

    Args:
        dataset: Its newest version.
        older_than: Minimum age of removed versions.
        retain_versions: Number of newest versions to keep.
        now: The time, aware.
    """
    infos = {info.path: info for info in dataset.store.list(VERSIONS_DIRECTORY)}
    locations = sorted(
        (item for item in manifests_among(dataset.store, infos.values()) if not is_detached(item.version)),
        key=lambda item: item.version,
    )
    going = [item for item in locations[:-retain_versions] if now - infos[item.path].modified >= older_than]
    if not going:
        return Reclaimable(all_versions=len(locations))
    kept = _first_kept(locations, going)
    oldest = dataset.manifest if kept.version == dataset.version else read_manifest(dataset.store, kept)
    named = _files_of(dataset.manifest) | _files_of(oldest)
    since = infos[kept.path].modified
    folders = [list(dataset.store.list(folder)) for folder in _FOLDERS]
    victims = [info for found in folders for info in found if _is_removable(info, named, since)]
    victims += [infos[item.path] for item in going]
    return Reclaimable(sum(info.size for info in victims), len(victims), len(going), len(locations))


def _first_kept(locations: Sequence[ManifestLocation], going: Iterable[ManifestLocation]) -> ManifestLocation:
    gone = {item.version for item in going}
    return next(item for item in locations if item.version not in gone)


def _is_removable(info: ObjectInfo, named: set[str], since: datetime) -> bool:
    if info.modified > since or info.path in named:
        return False
    # Index segments are folders, listed in a manifest by UUID.
    folder = "/".join(info.path.split("/")[:2])
    return folder not in named if info.path.startswith("_indices/") else True


def _files_of(manifest: Manifest) -> set[str]:
    found = {f"data/{file.path}" for fragment in manifest.fragments for file in fragment.all_files}
    found |= {
        fragment.deletion_file.path(fragment.id)
        for fragment in manifest.fragments
        if fragment.deletion_file is not None
    }
    found |= {f"_indices/{segment.uuid}" for segment in manifest.indices}
    if manifest.transaction_file:
        found.add(f"_transactions/{manifest.transaction_file}")
    return found
