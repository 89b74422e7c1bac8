"""Trash: manifests of versions that a cleanup removed, and whose files stay until a time.

The folder is not part of the format: the official library neither reads nor removes it, so for it the
versions are gone. Its cleanup may remove their files; an undo finds out. A version in the trash is named by
its manifest and by the time, by the clock of the store, until which its files stay.

A manifest is copied to the trash before it is removed, and removed from the trash before any of its files: at
each moment the files of every manifest, here or there, exist.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from lance_ops.storage import ObjectInfo
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    ManifestLocation,
    is_detached,
    parse_manifest_name,
)

TRASH_DIRECTORY = "_lance_ops/trash"

_NAME = re.compile(rf"{TRASH_DIRECTORY}/(\d{{1,12}})-([^/]+)")


@dataclass(frozen=True, slots=True)
class TrashedVersion:
    """A version in the trash.

    Attributes:
        location: Location of its manifest in the trash.
        original: Where its manifest was, relative to the root of the dataset.
        until: Time until which its files stay, by the clock of the store.
    """

    location: ManifestLocation
    original: str
    until: datetime

    @property
    def version(self) -> int:
        """Version number."""
        return self.location.version


def trash_path(location: ManifestLocation, until: datetime) -> str:
    """Return the path in the trash of a manifest of `_versions`."""
    name = location.path.rpartition("/")[2]
    return f"{TRASH_DIRECTORY}/{int(until.timestamp())}-{name}"


def trashed_among(infos: Iterable[ObjectInfo]) -> list[TrashedVersion]:
    """Return the versions in a listing of the trash, newest first; those with the latest time come first."""
    found: list[TrashedVersion] = []
    for info in infos:
        match = _NAME.fullmatch(info.path)
        parsed = None if match is None else parse_manifest_name(match[2])
        if match is None or parsed is None or is_detached(parsed[0]):
            continue
        location = ManifestLocation(parsed[0], info.path, info.size)
        until = datetime.fromtimestamp(int(match[1]), UTC)
        found.append(TrashedVersion(location, f"{VERSIONS_DIRECTORY}/{match[2]}", until))
    return sorted(found, key=lambda item: (-item.version, -item.until.timestamp()))


def gone_versions(
    trashed: Iterable[TrashedVersion], present: Collection[int], newest: int
) -> list[TrashedVersion]:
    """Return the versions of the trash that are in no other place, newest first.

    Args:
        trashed: Result of `trashed_among`.
        present: Versions with a manifest of their own: what the trash has of these is a copy.
        newest: The newest version: later ones belong to a dataset that was removed.
    """
    found: dict[int, TrashedVersion] = {}
    for item in trashed:
        if item.version < newest and item.version not in present:
            found.setdefault(item.version, item)
    return list(found.values())
