"""The protocol of external manifest stores: four steps of a writer, four of a reader.

A writer (1) stages the manifest under a unique name, (2) adds a row that points to it, which decides the race
and is the commit, (3) copies it to its final name, and (4) points the row to that. A process that finds a row
that points to a staged manifest performs 3 and 4, so a crash after any step is repaired by the next reader or
writer. A reader that cannot do so refuses to read.
Source: format, "External Manifest Store".
"""

import contextlib
import uuid
from dataclasses import dataclass

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptManifestError,
    FileMissingError,
    InconsistentStoreError,
    InvalidArgumentError,
    LanceOpsError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage.external.manifest_store import ExternalManifestStore, ManifestEntry
from lance_ops.storage.failures import already_exists
from lance_ops.storage.manifest_names import (
    VERSIONS_DIRECTORY,
    is_detached,
    parse_manifest_name,
    staged_version,
)
from lance_ops.storage.store import BytesLike, Store

_STAGED_MARK = ".manifest-"
_FINISHERS = 8


@dataclass(frozen=True, slots=True)
class ManifestPath:
    """Path of a final manifest of the history within a store.

    Attributes:
        lead: Folder of the dataset or branch, relative to the store; "" for the root.
        version: Version number.
        path: The whole path.
    """

    lead: str
    version: int
    path: str


def manifest_at(path: str) -> ManifestPath | None:
    """Parse a path; None for anything but a final manifest of the history."""
    folder, _, name = path.rpartition("/")
    if not name.endswith(".manifest") or not (
        folder == VERSIONS_DIRECTORY or folder.endswith(f"/{VERSIONS_DIRECTORY}")
    ):
        return None
    parsed = parse_manifest_name(name)
    if parsed is None or is_detached(parsed[0]):
        return None
    return ManifestPath(folder.removesuffix(VERSIONS_DIRECTORY).rstrip("/"), parsed[0], path)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one dataset or branch.

    Attributes:
        store: Bytes of the dataset, without the external manifest store.
        manifests: The external manifest store.
        base: `base_uri` of the dataset in it.
    """

    store: Store
    manifests: ExternalManifestStore
    base: str

    def newest(self) -> ManifestEntry | None:
        """Return the newest version, finished; None if there is no row."""
        while True:
            entry = self.manifests.get_latest(self.base)
            if entry is None:
                return None
            final = self.finish(entry)
            if final is not None:
                return final

    def find(self, version: int) -> ManifestEntry | None:
        """Return one version, finished; None if there is no row."""
        entry = self.manifests.get(self.base, version)
        return None if entry is None else self.finish(entry)

    def commit(self, version: int, path: str, data: BytesLike) -> None:
        """Perform the four steps of a writer.

        Args:
            version: The version.
            path: Final path of its manifest, relative to the dataset.
            data: The manifest.

        Raises:
            AlreadyExistsError: The version exists.
            StorageError: A step failed. After step 2 the version exists, and the next reader finishes it.
        """
        data = memoryview(data).cast("B")
        if self.store.exists(path):
            # A writer without the external manifest store made it, or a row was lost: it is not replaced.
            raise already_exists(f"{self.store.uri}/{path}")
        staged = f"{path}-{uuid.uuid4()}"
        self.store.put(staged, data)
        ours = ManifestEntry(version, self._full(staged), len(data))
        try:
            self.manifests.put_if_not_exists(self.base, ours)
        except AlreadyExistsError:
            theirs = self.manifests.get(self.base, version)
            if theirs is None or theirs.path != ours.path:
                with contextlib.suppress(LanceOpsError):
                    self.store.delete(staged)
                if theirs is not None and self._renamed(theirs, path, data):
                    return
                raise
            # The answer to our own first attempt was lost.
        except (PermissionDeniedError, UnsupportedError, InvalidArgumentError):
            # Refused before it did anything: the manifest can never be committed.
            with contextlib.suppress(LanceOpsError):
                self.store.delete(staged)
            raise
        self._copy(path, data)
        # The commit is complete. What fails from here on is repaired by the next reader.
        with contextlib.suppress(LanceOpsError):
            self.manifests.put_if_exists(self.base, ManifestEntry(version, self._full(path), len(data)))
            self.store.delete(staged)

    def finish(self, entry: ManifestEntry) -> ManifestEntry | None:
        """Perform the steps of a reader; return the row with the final path.

        Returns:
            None when the version was removed meanwhile.

        Raises:
            CorruptManifestError: The row names no manifest of this version, or the staged manifest is lost.
            InconsistentStoreError: Another manifest has the final name.
            StorageError: A step failed; the version must not be read.
        """
        for _ in range(_FINISHERS):
            path = self.relative(entry)
            if staged_version(path.rpartition("/")[2]) is None:
                return entry
            final = path.partition(_STAGED_MARK)[0] + ".manifest"
            try:
                data = memoryview(self.store.read(path)).cast("B")
            except FileMissingError:
                again = self.manifests.get(self.base, entry.version)
                if again is None:
                    return None
                if again != entry:
                    # Another reader or its writer has finished it.
                    entry = again
                    continue
                size = self._size_of(final, entry)
            else:
                size = len(data)
                self._check_size(entry, size, path)
                self._copy(final, data)
            done = ManifestEntry(entry.version, self._full(final), size)
            if not self.manifests.put_if_exists(self.base, done):
                return None
            with contextlib.suppress(LanceOpsError):
                self.store.delete(path)
            return done
        raise StorageError(
            f"version {entry.version} is staged again and again", path=f"{self.store.uri}/{path}"
        )

    def forget(self, version: int, path: str) -> None:
        """Delete the row of a version whose manifest is about to be deleted."""
        self.manifests.delete(self.base, version, self._full(path))

    def relative(self, entry: ManifestEntry) -> str:
        """Return the path of a row relative to the dataset.

        Raises:
            CorruptManifestError: It is not a manifest of this version in this dataset.
        """
        lead = f"{self.base}/" if self.base else ""
        path = entry.path.removeprefix(lead)
        folder, _, name = path.rpartition("/")
        parsed = parse_manifest_name(name)
        version = parsed[0] if parsed is not None else staged_version(name)
        if not entry.path.startswith(lead) or folder != VERSIONS_DIRECTORY or version != entry.version:
            raise CorruptManifestError(
                f"the row of version {entry.version} in {self.manifests.name} has the path "
                f"{entry.path!r}, which is no manifest of this version of {self.base!r}",
                path=self.store.uri,
                field="path",
                hint="rebuild the rows from the object store: lance-ops migrate-store --rebuild",
            )
        return path

    def entry_of(self, version: int, path: str, size: int | None) -> ManifestEntry:
        """Return the row of a manifest.

        Args:
            version: Of the manifest.
            path: Relative to the dataset.
            size: In bytes.
        """
        return ManifestEntry(version, self._full(path), size)

    def _full(self, path: str) -> str:
        return f"{self.base}/{path}" if self.base else path

    def _copy(self, path: str, data: memoryview) -> None:
        """Store a manifest under its final name, unless it is there."""
        if not self.store.exists(path):
            self.store.put(path, data)
        elif bytes(memoryview(self.store.read(path))) != bytes(data):
            raise InconsistentStoreError(
                f"the version that {self.manifests.name} has accepted was also written by a writer that "
                "does not use it",
                path=f"{self.store.uri}/{path}",
                hint="let every writer use the external manifest store; then move one of the two manifests "
                "of this version away by hand: the file at this path, or the staged one beside it",
            )

    def _renamed(self, entry: ManifestEntry, path: str, data: memoryview) -> bool:
        """Give a version of the same bytes another name, for a migration of manifest names."""
        final = self.finish(entry)
        if final is None or self.relative(final) == path:
            return False
        try:
            there = self.store.read(self.relative(final))
        except FileMissingError:
            return False
        if bytes(memoryview(there)) != bytes(data):
            return False
        self._copy(path, data)
        return self.manifests.put_if_exists(
            self.base, ManifestEntry(entry.version, self._full(path), len(data))
        )

    def _size_of(self, final: str, entry: ManifestEntry) -> int:
        """Return the size of a final manifest whose staged one is gone."""
        try:
            size = self.store.size(final)
        except FileMissingError:
            raise CorruptManifestError(
                f"version {entry.version} is committed in {self.manifests.name}, and its manifest is lost: "
                "neither the staged nor the final one exists",
                path=f"{self.store.uri}/{final}",
                hint="restore the file; else lance-ops migrate-store --rebuild makes the newest version "
                "that is left the newest one",
            ) from None
        self._check_size(entry, size, final)
        return size

    def _check_size(self, entry: ManifestEntry, size: int, path: str) -> None:
        if entry.size is not None and entry.size != size:
            raise CorruptManifestError(
                f"the manifest of version {entry.version} has {size} bytes, expected {entry.size} from its "
                f"row in {self.manifests.name}",
                path=f"{self.store.uri}/{path}",
                field="size",
            )
