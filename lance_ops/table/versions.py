"""Which versions a dataset has, and where their manifests lie."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from lance_ops.errors import (
    CorruptManifestError,
    DatasetNotFoundError,
    StorageError,
    UnsupportedError,
    VersionNotFoundError,
)
from lance_ops.storage import Store
from lance_ops.table.naming import (
    VERSIONS_DIRECTORY,
    NamingScheme,
    is_detached,
    manifest_path,
    parse_manifest_name,
)

HINT_PATH = f"{VERSIONS_DIRECTORY}/latest_version_hint.json"
_LAST_V2_PATH = manifest_path(0, NamingScheme.V2)


@dataclass(frozen=True, slots=True)
class ManifestLocation:
    """Where the manifest of a version lies.

    Attributes:
        version: Version number.
        path: Relative to the root of the dataset.
        size: Bytes; None when nobody asked for it yet.
        scheme: Naming scheme of the dataset; a detached manifest says nothing about it and counts as V2.
    """

    version: int
    path: str
    size: int | None = None
    scheme: NamingScheme = NamingScheme.V2


def iter_manifests(store: Store) -> Iterator[ManifestLocation]:
    """All manifests in the order of the listing, detached ones included.

    Raises:
        CorruptManifestError: Both naming schemes occur, so that two files may claim one version.
    """
    found: NamingScheme | None = None
    for location, scheme in _scan(store, None):
        if scheme is not None:
            if found is not None and found is not scheme:
                raise _mixture(store)
            found = scheme
        yield location


def list_versions(store: Store) -> list[ManifestLocation]:
    """All versions of the history, oldest first; empty when there is no dataset.

    Raises:
        CorruptManifestError: Both naming schemes occur.
    """
    locations = [location for location in iter_manifests(store) if not is_detached(location.version)]
    return sorted(locations, key=lambda location: location.version)


def latest(store: Store) -> ManifestLocation:
    """The newest version, by listing.

    The hint file is not asked: a writer may have died before it updated the hint, and when cleanup has
    removed the versions just after the hinted one, probing upwards from it would stop at an old version.

    Raises:
        DatasetNotFoundError: There is no manifest.
        CorruptManifestError: Both naming schemes occur.
    """
    newest: ManifestLocation | None = None
    for location, scheme in _scan(store, None):
        if scheme is NamingScheme.V2:
            if newest is not None:
                raise _mixture(store)
            # Newest first, so the rest need not be listed. V1 names sort before all V2 names or after them.
            if any(other is NamingScheme.V1 for _, other in _scan(store, _LAST_V2_PATH)):
                raise _mixture(store)
            return location
        if scheme is NamingScheme.V1 and (newest is None or location.version > newest.version):
            newest = location
    if newest is None:
        raise DatasetNotFoundError("no dataset here: there is no manifest", path=store.uri)
    return newest


def _scan(store: Store, start_after: str | None) -> Iterator[tuple[ManifestLocation, NamingScheme | None]]:
    for info in store.list(VERSIONS_DIRECTORY, start_after=start_after):
        parsed = parse_manifest_name(info.path.removeprefix(f"{VERSIONS_DIRECTORY}/"))
        if parsed is not None:
            version, scheme = parsed
            yield ManifestLocation(version, info.path, info.size, scheme or NamingScheme.V2), scheme


def _mixture(store: Store) -> CorruptManifestError:
    return CorruptManifestError(
        "manifests of both naming schemes lie side by side",
        path=f"{store.uri}/{VERSIONS_DIRECTORY}",
        hint="finish the migration with the peer's migrate_manifest_paths_v2",
    )


def locate(store: Store, version: int) -> ManifestLocation:
    """The manifest of one version, which may be detached, without a listing as a rule.

    Raises:
        VersionNotFoundError: The dataset exists, but not in this version.
        DatasetNotFoundError: There is no manifest at all.
        InvalidArgumentError: The number cannot be a version.
    """
    for scheme in (NamingScheme.V2, NamingScheme.V1):
        path = manifest_path(version, scheme)
        if store.exists(path):
            return ManifestLocation(version, path, None, scheme)
    newest = latest(store)
    raise VersionNotFoundError(
        f"there is no version {version}",
        path=store.uri,
        hint=f"the newest version is {newest.version}; cleanup may have removed this one",
    )


def write_hint(store: Store, version: int) -> None:
    """Tell readers of stores with unordered listings where to look first; failure does no harm."""
    with contextlib.suppress(StorageError, UnsupportedError):
        hint = json.dumps({"version": version}, separators=(",", ":")).encode()
        # Readers check it against what is there, so a lost or torn one only costs them a listing.
        store.put(HINT_PATH, hint, durable="never")
