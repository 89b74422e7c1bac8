"""Listing of manifests: the versions of a dataset and their locations."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from heapq import nsmallest

from lance_ops.errors import (
    CorruptManifestError,
    StorageError,
    UnsupportedError,
    VersionNotFoundError,
)
from lance_ops.storage import ObjectInfo, Store, lists_names
from lance_ops.storage.manifest_names import DETACHED as DETACHED
from lance_ops.storage.manifest_names import DETACHED_BIT as DETACHED_BIT
from lance_ops.storage.manifest_names import VERSIONS_DIRECTORY as VERSIONS_DIRECTORY
from lance_ops.storage.manifest_names import NamingScheme as NamingScheme
from lance_ops.storage.manifest_names import is_detached as is_detached
from lance_ops.storage.manifest_names import manifest_name as manifest_name
from lance_ops.storage.manifest_names import manifest_path as manifest_path
from lance_ops.storage.manifest_names import newest_staged as newest_staged
from lance_ops.storage.manifest_names import parse_manifest_name as parse_manifest_name
from lance_ops.storage.manifest_names import staged_version as staged_version
from lance_ops.storage.retry import is_named, unless_gone
from lance_ops.table.manifest.no_dataset import no_dataset

HINT_PATH = f"{VERSIONS_DIRECTORY}/latest_version_hint.json"
_LAST_V2_PATH = manifest_path(0, NamingScheme.V2)
# As many as one page of all stores has, minus some files that are not manifests.
_ONE_PAGE = 900
_V2_LENGTH = len(manifest_name(0, NamingScheme.V2))

# Datasets in which this process has searched for V1 names beside V2 names and found none.
_V2_ONLY: set[str] = set()
_MOST_REMEMBERED = 10_000
_LISTED: "ContextVar[dict[str, list[ManifestLocation]] | None]" = ContextVar("_LISTED", default=None)
MOMENT = 10.0
"""Seconds for which a listing of the newest version is reused."""

_NEED_NO_HINT = frozenset(
    {"s3", "s3+ddb", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs"}
)


@dataclass(frozen=True, slots=True)
class ManifestLocation:
    """Location of the manifest of a version.

    Attributes:
        version: Version number.
        path: Relative to the root of the dataset.
        size: Bytes; None if not known yet.
        scheme: Naming scheme of the dataset; a detached manifest counts as V2.
        newest_at: Monotonic time of this process at which this was the newest version, by a listing or our
            own commit; None if unknown.
        mark: `ObjectInfo.mark` of the listing; None when no listing showed it.
        staged: Name of a staged manifest of a later version in the listing; see `staged_version`.
    """

    version: int
    path: str
    size: int | None = None
    scheme: NamingScheme = NamingScheme.V2
    newest_at: float | None = field(default=None, compare=False)
    mark: str | None = field(default=None, compare=False)
    staged: str | None = field(default=None, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        # Clocks of other processes are not comparable.
        return (ManifestLocation, (self.version, self.path, self.size, self.scheme))


def iter_manifests(store: Store) -> Iterator[ManifestLocation]:
    """Yield all manifests in listing order, detached ones included.

    Raises:
        CorruptManifestError: Both naming schemes occur, so that two files may claim one version.
    """
    return manifests_among(store, store.list(VERSIONS_DIRECTORY))


def all_manifests(store: Store) -> list[ManifestLocation]:
    """Return all manifests for a deletion, from two listings, because one may miss a name."""
    found = {location.path: location for _ in range(2) for location in iter_manifests(store)}
    return list(found.values())


def manifests_among(store: Store, infos: Iterable[ObjectInfo]) -> Iterator[ManifestLocation]:
    """Yield manifests of an existing listing of their folder; see `iter_manifests`."""
    found: NamingScheme | None = None
    for location, scheme in _parse(infos):
        if scheme is not None:
            if found is not None and found is not scheme:
                raise _mixture(store)
            found = scheme
        yield location


def list_detached(store: Store) -> list[ManifestLocation]:
    """List all versions outside of the history, by number."""
    locations = [location for location in iter_manifests(store) if is_detached(location.version)]
    return sorted(locations, key=lambda location: location.version)


def list_versions(store: Store) -> list[ManifestLocation]:
    """List all versions of the history, oldest first; empty when there is no dataset.

    Raises:
        CorruptManifestError: Both naming schemes occur.
    """
    known = _LISTED.get()
    if known is None:
        return _list_versions(store)
    if store.uri not in known:
        known[store.uri] = _list_versions(store)
    return list(known[store.uri])


def newest_versions(store: Store, limit: int | None) -> list[ManifestLocation]:
    """List the newest versions of the history, newest first, and little more.

    Args:
        store: Root of the dataset.
        limit: Maximum number; all when None.
    """
    if limit is None or limit <= 0:
        return list_versions(store)[::-1][:limit]
    if lists_names(store):
        names = store.list_names(VERSIONS_DIRECTORY)
        # Those of V2 have one length; names of detached versions begin with a letter.
        newest = nsmallest(limit, (name for name in names if len(name) == _V2_LENGTH and name < DETACHED))
        parsed = [parse_manifest_name(name) for name in newest]
        numbers = [one[0] for one in parsed if one is not None and one[1] is NamingScheme.V2]
        if numbers and len(numbers) == len(newest):
            return [ManifestLocation(number, manifest_path(number, NamingScheme.V2)) for number in numbers]
    found: list[ManifestLocation] = []
    for location in iter_manifests(store):
        if is_detached(location.version):
            continue
        found.append(location)
        # Names of V2 begin with the newest version.
        if location.scheme is NamingScheme.V2 and len(found) == limit:
            return found
    return sorted(found, key=lambda location: location.version, reverse=True)[:limit]


def _list_versions(store: Store) -> list[ManifestLocation]:
    locations = [location for location in iter_manifests(store) if not is_detached(location.version)]
    return sorted(locations, key=lambda location: location.version)


@contextlib.contextmanager
def listed_once() -> Iterator[None]:
    """Within the block and this thread, `list_versions` lists each dataset once.

    For code that needs the versions of a dataset many times, and does not commit.
    """
    token = _LISTED.set({})
    try:
        yield
    finally:
        _LISTED.reset(token)


def latest(store: Store) -> ManifestLocation:
    """Return the newest version, by listing.

    The hint file is not used: a writer may have died before updating it, and if cleanup has removed the
    versions just after the hinted one, probing upwards would stop at an old version.

    Raises:
        DatasetNotFoundError: There is no manifest.
        CorruptManifestError: Both naming schemes occur.
    """
    # Taken before the listing: it may be stale from then on.
    now = time.monotonic()
    if lists_names(store):
        version, scheme, staged = _latest_of_names(store, store.list_names(VERSIONS_DIRECTORY))
        found = ManifestLocation(version, manifest_path(version, scheme), scheme=scheme, staged=staged)
    else:
        found = _latest_of_listing(store)
    return replace(found, newest_at=now)


def mark_of(store: Store, location: ManifestLocation) -> str | None:
    """Return a mark that distinguishes a manifest from an earlier one of the same name, in 16 characters.

    Costs no request to a store that was listed. None if the store has no such mark, or the manifest was
    removed.
    """
    mark = location.mark
    if mark is None and lists_names(store):
        info = store.info(location.path)
        mark = None if info is None else info.mark
    return blake2b(mark.encode(), digest_size=8).hexdigest() if mark else None


def was_newest_within(location: ManifestLocation, seconds: float) -> bool:
    """Return whether a version was the newest one so many seconds ago, or later."""
    return location.newest_at is not None and time.monotonic() - location.newest_at <= seconds


def is_still_newest(store: Store, location: ManifestLocation) -> bool:
    """Return whether a version that was the newest one just now has no successor; cheaper than a listing.

    Only for writers that check again after their put: meanwhile others may have committed the next version
    and more, and a cleanup may have removed it.
    """
    return was_newest_within(location, MOMENT) and not store.exists(
        manifest_path(location.version + 1, location.scheme)
    )


def _latest_of_listing(store: Store) -> ManifestLocation:
    """Return the newest version, and the staged manifest of a later one, if listed."""
    names: list[str] = []

    def seen(infos: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
        for info in infos:
            names.append(info.path)
            yield info

    location = _latest_of_infos(store, seen(store.list(VERSIONS_DIRECTORY)))
    return replace(location, staged=newest_staged(names, location.version))


def _latest_of_infos(store: Store, infos: Iterable[ObjectInfo]) -> ManifestLocation:
    newest: ManifestLocation | None = None
    found = _parse(infos)
    for location, scheme in found:
        if scheme is NamingScheme.V2:
            if newest is not None:
                raise _mixture(store)
            # Newest first, so the rest need not be listed. V1 names sort before all V2 names or after them.
            # No writer creates them again once there are V2 names, so one check is enough.
            if store.uri not in _V2_ONLY:
                if any(other is NamingScheme.V1 for _, other in _names_after(store, found)):
                    raise _mixture(store)
                _remember_v2(store.uri)
            return location
        if scheme is NamingScheme.V1 and (newest is None or location.version > newest.version):
            newest = location
    if newest is None:
        raise no_dataset(store)
    return newest


def _names_after(
    store: Store, listing: Iterator[tuple[ManifestLocation, NamingScheme | None]]
) -> Iterator[tuple[ManifestLocation, NamingScheme | None]]:
    """Return the names after the V2 names of a listing, if they are on one page; else list them."""
    for seen, item in enumerate(listing, 1):
        yield item
        if seen == _ONE_PAGE:
            yield from _scan(store, _LAST_V2_PATH)
            return


def _latest_of_names(store: Store, names: list[str]) -> tuple[int, NamingScheme, str | None]:
    """Return the newest version, its naming scheme, and the staged manifest of a later version, if any.

    V2 names, the usual case, are not parsed one by one.
    """
    rest = [name for name in names if len(name) != _V2_LENGTH]
    others = [parse_manifest_name(name) for name in rest]
    old = [found[0] for found in others if found is not None and found[1] is NamingScheme.V1]
    candidates = [name for name in names if len(name) == _V2_LENGTH]
    while candidates:
        # The least name is that of the newest version.
        least = min(candidates)
        found = parse_manifest_name(least)
        if found is not None and found[1] is NamingScheme.V2:
            if old:
                raise _mixture(store)
            return found[0], NamingScheme.V2, newest_staged(rest, found[0])
        candidates.remove(least)
    if not old:
        raise no_dataset(store)
    return max(old), NamingScheme.V1, newest_staged(names, max(old))


def _remember_v2(uri: str) -> None:
    if len(_V2_ONLY) >= _MOST_REMEMBERED:
        _V2_ONLY.clear()
    _V2_ONLY.add(uri)


def forget_naming(uri: str) -> None:
    """Forget that there are no V1 names, because another writer may add them."""
    _V2_ONLY.discard(uri)


def _scan(store: Store, start_after: str | None) -> Iterator[tuple[ManifestLocation, NamingScheme | None]]:
    return _parse(store.list(VERSIONS_DIRECTORY, start_after=start_after))


def _parse(infos: Iterable[ObjectInfo]) -> Iterator[tuple[ManifestLocation, NamingScheme | None]]:
    for info in infos:
        parsed = parse_manifest_name(info.path.removeprefix(f"{VERSIONS_DIRECTORY}/"))
        if parsed is not None:
            version, scheme = parsed
            named = scheme or NamingScheme.V2
            yield ManifestLocation(version, info.path, info.size, named, mark=info.mark), scheme


def _mixture(store: Store) -> CorruptManifestError:
    return CorruptManifestError(
        "the dataset has manifests of both naming schemes",
        path=f"{store.uri}/{VERSIONS_DIRECTORY}",
        hint="finish the migration: lance-ops migrate-paths",
    )


def locate(store: Store, version: int) -> ManifestLocation:
    """Return the manifest of one version, which may be detached, usually without a listing.

    Raises:
        VersionNotFoundError: The dataset exists, but not in this version.
        DatasetNotFoundError: There is no manifest at all.
        InvalidArgumentError: The number cannot be a version.
    """
    for is_there in (store.exists, partial(is_named, store)):
        for scheme in (NamingScheme.V2, NamingScheme.V1):
            path = manifest_path(version, scheme)
            if is_there(path):
                return ManifestLocation(version, path, None, scheme)
    newest = latest(store)
    raise VersionNotFoundError(
        f"there is no version {version}",
        path=store.uri,
        hint=f"the newest version is {newest.version}; cleanup may have removed this one",
    )


def manifest_size(store: Store, version: int) -> int:
    """Return the bytes of the manifest of a version.

    Raises:
        VersionNotFoundError: See `locate`.
    """
    path = locate(store, version).path
    size = unless_gone(store, path, partial(store.size, path))
    return manifest_size(store, version) if size is None else size


def write_hint(store: Store, version: int) -> None:
    """Write the version hint for readers of stores with unordered listings; a failure does no harm.

    Nothing is written if listings are ordered, where the official library neither writes nor reads a hint;
    nor for the first version, which a listing shows as fast.
    """
    if version == 1:
        return
    scheme, _, rest = store.uri.partition("://")
    # Directory buckets list in no order.
    if scheme in _NEED_NO_HINT and not rest.partition("/")[0].endswith("--x-s3"):
        return
    with contextlib.suppress(StorageError, UnsupportedError):
        hint = f'{{"version":{version}}}'.encode()
        # Readers verify it, so a lost or torn hint only costs a listing.
        store.put(HINT_PATH, hint, durable="never")
