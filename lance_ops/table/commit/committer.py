"""Committer: stores the manifest of a version, for exactly one of several racing writers.

Writers that commit to one dataset must all use the same committer, or they overwrite each other's versions.
Source: format, "Committing Datasets".

Publishing: one attempt to store a manifest as the next version, with a verified outcome.

A failed put proves nothing: the store may have written the file and lost the response, and a retrying layer
may see its own first success as "already exists". So after any failure the version is read back
(architecture, invariant 2).

Naming migration: a version stored under an old name after the others were renamed.

`migrate_manifest_paths` cannot stop writers that read the newest version before. Their version is then stored
beside versions with new names, and another writer may have made the same version under its new name. So after
storing a name of the first scheme, a writer checks for new names, and renames its version or withdraws it.

Commit files: files that one commit writes besides data and manifest, and removes if it fails.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from lance_ops.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    LanceOpsError,
    NotFlushedError,
    PermissionDeniedError,
    StorageFullError,
    UnsupportedError,
)
from lance_ops.storage import Store, require_put_if_absent
from lance_ops.storage.conditional_put import decided_elsewhere
from lance_ops.storage.retry import is_there, retry, unless_gone
from lance_ops.table.commit.rebase.work import MergedDeletions
from lance_ops.table.manifest.file.summary import decode_summary
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY, ManifestLocation, NamingScheme, manifest_path
from lance_ops.table.transaction.operations import (
    Delete,
    Operation,
    Rewrite,
    Update,
    deletion_files,
)
from lance_ops.table.transaction.transaction import (
    Transaction,
    encode_transaction,
    job_mark,
    read_transaction,
)


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
        UnsupportedError: The store has no conditional operation and needs a lock; or its server, or its
            external manifest store, replaces what another writer has put.
        StorageError: The server could not be asked.
    """
    elsewhere = decided_elsewhere(store)
    if elsewhere is not None:
        # Whatever the store itself supports.
        elsewhere.require_create_only()
        return PutIfAbsentCommitter()
    if store.supports_put_if_absent:
        require_put_if_absent(store, VERSIONS_DIRECTORY)
        return PutIfAbsentCommitter()
    raise UnsupportedError(
        "the store has no conditional put, so two writers could commit the same version",
        path=store.uri,
        hint="pass a LockCommitter with a lock that all writers of the dataset use, or name an external "
        "manifest store in the storage option manifest_store",
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


# The store refused before it did anything: no delayed write is possible.
_DEFINITE = (NotFlushedError, PermissionDeniedError, StorageFullError, UnsupportedError)

# Seconds before each further put or read.
_PAUSES = (0.05, 0.1)


class Found(Enum):
    """State of a version after a put."""

    OURS = "ours"
    FOREIGN = "foreign"
    ABSENT = "absent"


def publish(
    store: Store,
    committer: Committer,
    location: ManifestLocation,
    manifest: bytes,
    transaction: Transaction,
) -> bool:
    """Store a manifest.

    Args:
        store: Root of the dataset.
        committer: Decides races between writers.
        location: The version to create.
        manifest: The bytes of the manifest, with the transaction in it.
        transaction: The transaction to commit.

    Returns:
        True if the version is ours now; False when another writer made it.

    Raises:
        CommitOutcomeUnknownError: The put failed, and so did reading back; or the manifest is not there and
            may still arrive.
        StorageError: The store refused; the manifest does not exist.
    """
    for pause in (*_PAUSES, None):
        try:
            committer.commit(store, location, manifest)
        except Exception as failure:
            found = _read_back(store, location, manifest, transaction, failure)
            if found is not Found.ABSENT:
                return found is Found.OURS
            if isinstance(failure, AlreadyExistsError):
                # Another writer made the version, and it was cleaned up: find the head again.
                return False
            if isinstance(failure, _DEFINITE):
                raise
            if pause is None:
                raise CommitOutcomeUnknownError(
                    f"version {location.version} could not be written ({failure}); it does not exist "
                    "now, but the store may still execute a request that it did not answer",
                    path=f"{store.uri}/{location.path}",
                    hint="keep all files of the commit while the version may still appear",
                ) from failure
            # Putting the same bytes again is safe: whichever request wins, the version is ours.
            time.sleep(pause)
        else:
            return True
    raise AssertionError("the last attempt returns or raises")


def _read_back(
    store: Store,
    location: ManifestLocation,
    manifest: bytes,
    transaction: Transaction,
    failure: Exception,
) -> Found:
    path = f"{store.uri}/{location.path}"

    def look() -> Found:
        data = unless_gone(store, location.path, lambda: store.read(location.path))
        if data is None:
            return Found.ABSENT
        if data.to_pybytes() == manifest:
            return Found.OURS
        theirs = read_transaction(store, decode_summary(data, path=path))
        same = theirs is not None and encode_transaction(theirs) == encode_transaction(transaction)
        return Found.OURS if same else Found.FOREIGN

    try:
        return retry(look, _PAUSES, on=LanceOpsError)
    except LanceOpsError as error:
        raise CommitOutcomeUnknownError(
            f"version {location.version} may or may not have been written ({failure}), and it cannot be read "
            f"back ({error})",
            path=path,
            hint="delete nothing that the commit wrote before the version can be read",
        ) from failure


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


@dataclass(slots=True)
class CommitFiles:
    """Transaction file and merged deletion files of a commit.

    Attributes:
        store: Root of the dataset.
        ours: The transaction as it was begun; rebases keep its name.
        brought: Files that the operation adds.
        merged: Deletion files of its rebases.
    """

    store: Store
    ours: Transaction
    brought: tuple[str, ...]
    merged: MergedDeletions = field(default_factory=MergedDeletions)
    _stored: bytes | None = None
    _of: Transaction | None = None

    def encoded(self, transaction: Transaction) -> bytes | None:
        """Return the bytes of a transaction, if it is the one written last."""
        return self._stored if transaction is self._of else None

    def write_transaction(self, transaction: Transaction, encoded: bytes | None = None) -> None:
        """Write the transaction file, again if a rebase changed the transaction."""
        if transaction is self._of:
            return
        data = encode_transaction(transaction) if encoded is None else encoded
        self._of = transaction
        if data != self._stored:
            # Set before the put, because a failed put may have written the file.
            self._stored = data
            # Readers use this file if the manifest has no copy of the transaction: it must last as long as
            # the manifest.
            self.store.put(transaction.path, data, durable="later")

    def remove_superseded(self, committed: Operation) -> None:
        """Remove files that a rebase replaced or found without live rows: no version refers to them."""
        begun = self.ours.operation
        if isinstance(begun, Delete | Update):
            self.remove({*deletion_files(begun.updated_fragments), *self.merged.paths} - committed.files())
        elif isinstance(begun, Rewrite):
            self.remove({*begun.new_data_files(), *self.merged.paths} - committed.files())

    def discard(self) -> None:
        """Remove all files; only call this when it is certain that nothing was committed."""
        written = set(self.merged.paths)
        if self._stored is not None:
            written.add(self.ours.path)
        self.remove(written)

    def remove(self, paths: Collection[str]) -> None:
        """Remove files as far as the store allows; cleanup removes the rest."""
        with contextlib.suppress(LanceOpsError):
            self.store.delete_many(sorted(paths))
