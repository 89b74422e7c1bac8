"""External manifest store: the interface of a database that remembers where the manifest of a version is."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One row: where the manifest of one version is.

    Args:
        version: Version number.
        path: Below the bucket or folder that `base_uri` is relative to; starts with `base_uri`. It ends with
            `.manifest`, or with `.manifest-UUID` while the manifest is staged.
        size: Of the manifest in bytes; None in rows of old writers.
    """

    version: int
    path: str
    size: int | None = None


class ExternalManifestStore(Protocol):
    """Map of `(base_uri, version)` to the path of a manifest: picklable and thread-safe.

    Reads see all writes that were confirmed before. Every method raises `PermissionDeniedError` when the
    database refuses, and `StorageError` for any other failure; their messages hold no secrets.
    """

    @property
    def name(self) -> str:
        """What messages call it; without secrets."""

    @property
    def server(self) -> Hashable:
        """Key of the database and table: equal for those that share their rows."""

    def put_if_not_exists(self, base_uri: str, entry: ManifestEntry) -> None:
        """Add a row; of several racing writers exactly one succeeds.

        Raises:
            AlreadyExistsError: There is a row for this version. It may be ours: a client that lost the answer
                to its first attempt finds its own row at the second.
        """

    def put_if_exists(self, base_uri: str, entry: ManifestEntry) -> bool:
        """Replace the row of a version; return whether there was one."""

    def get(self, base_uri: str, version: int) -> ManifestEntry | None:
        """Return the row of a version; None without one."""

    def get_latest(self, base_uri: str) -> ManifestEntry | None:
        """Return the row with the highest version below 2^63; None without any."""

    def entries(self, base_uri: str) -> Iterator[ManifestEntry]:
        """Yield all rows of a dataset, newest first."""

    def delete(self, base_uri: str, version: int, path: str) -> None:
        """Delete the row of a version if its path is this one, or staged for it (`path-...`)."""
