"""Publishing: one attempt to store a manifest as the next version, with a verified outcome.

A failed put proves nothing: the store may have written the file and lost the response, and a retrying layer
may see its own first success as "already exists". So after any failure the version is read back
(architecture, invariant 2).
"""

import time
from enum import Enum

from lance_ops.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    LanceOpsError,
    NotFlushedError,
    PermissionDeniedError,
    StorageFullError,
    UnsupportedError,
)
from lance_ops.storage import Store
from lance_ops.storage.retry import retry, unless_gone
from lance_ops.table.commit.committer import Committer
from lance_ops.table.manifest.file.summary import decode_summary
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.transaction.transaction import Transaction, encode_transaction, read_transaction

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
