"""Committer: stores the manifest of a version, for exactly one of several racing writers.

Writers that commit to one dataset must all use the same committer, or they overwrite each other's versions.
Source: format, "Committing Datasets".
"""

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from lance_ops.errors import AlreadyExistsError, UnsupportedError
from lance_ops.storage import Store, require_put_if_absent
from lance_ops.storage.retry import is_there
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY
from lance_ops.table.transaction.transaction import job_mark


class Committer(Protocol):
    """Stores manifests of new versions."""

    def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
        """Store the manifest, unless the version exists.

        Args:
            store: Root of the dataset.
            location: Version and path of the manifest.
            manifest: Its bytes.

        Raises:
            AlreadyExistsError: The version exists.
        """


@dataclass(frozen=True, slots=True)
class PutIfAbsentCommitter:
    """Committer that relies on the store: local files, memory and object stores with conditional put."""

    def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
        """See `Committer.commit`."""
        store.put(location.path, manifest, if_absent=True)


@dataclass(frozen=True, slots=True)
class CopyIfAbsentCommitter:
    """Committer for stores that copy or rename to an absent destination, but have no conditional put."""

    def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
        """See `Committer.commit`."""
        # Readers ignore files with this prefix, and cleanup removes old ones.
        staged = f"{VERSIONS_DIRECTORY}/.tmp_{uuid.uuid4().hex}"
        store.put(staged, manifest)
        try:
            store.copy(staged, location.path, if_absent=True)
        finally:
            store.delete(staged)


@dataclass(frozen=True, slots=True)
class LockCommitter:
    """Committer with a lock of the caller, which every writer must use; for stores without conditional put.

    Attributes:
        lock: Returns a context manager for a version; the manifest is stored while it is held. It may raise
            `AlreadyExistsError` if another writer has committed the version.
    """

    lock: Callable[[int], AbstractContextManager[object]]

    def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
        """See `Committer.commit`."""
        with self.lock(location.version):
            if is_there(store, location.path):
                raise AlreadyExistsError(f"version {location.version} already exists", path=location.path)
            store.put(location.path, manifest)


def committer_for(store: Store) -> Committer:
    """Return the committer for a store; servers are asked once whether they support conditional put.

    Raises:
        UnsupportedError: The store has no conditional operation and needs a lock.
        StorageError: The server could not be asked.
    """
    if store.supports_put_if_absent:
        require_put_if_absent(store, VERSIONS_DIRECTORY)
        return PutIfAbsentCommitter()
    raise UnsupportedError(
        "the store has no conditional put, so two writers could commit the same version",
        path=store.uri,
        hint="pass a LockCommitter with a lock that all writers of the dataset use",
    )


def deletion_mark(committer: Committer, store: Store, job_key: str | None) -> int | None:
    """Return the mark of deletion files that a job merges; see `write_deletion_file`. None without one.

    Args:
        committer: The committer.
        store: Root of the dataset.
        job_key: Of the job, if it has one.
    """
    decides = isinstance(committer, PutIfAbsentCommitter) and store.supports_put_if_absent
    return job_mark(job_key) if job_key is not None and decides else None
