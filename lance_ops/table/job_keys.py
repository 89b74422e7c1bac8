"""Exactly once: a job names its commit by a key, and a re-run finds the commit that is already there.

The key is a property of the transaction. Besides, the UUID of the transaction begins with a digest of the
key, so that one listing of `_transactions/` tells whether the job ever got that far.
"""

from collections.abc import Iterable

from lance_ops.errors import NotFoundError
from lance_ops.storage import Store
from lance_ops.table.manifest import Manifest
from lance_ops.table.manifest_file import read_manifest, read_summary
from lance_ops.table.succession import Standing, find_standing
from lance_ops.table.transaction import (
    TRANSACTIONS_DIRECTORY,
    Transaction,
    job_uuid_prefix,
    read_transaction,
)
from lance_ops.table.versions import ManifestLocation, list_versions


def find_committed_job(
    store: Store, head: Manifest, job_key: str
) -> tuple[ManifestLocation, Transaction] | None:
    """Find the version that a job committed.

    Args:
        store: Root of the dataset.
        head: The newest manifest.
        job_key: Key of the job.

    Returns:
        The version and its transaction; None when no version that still exists carries the key.
    """
    names = {
        info.path.removeprefix(f"{TRANSACTIONS_DIRECTORY}/") for info in store.list(TRANSACTIONS_DIRECTORY)
    }
    if head.transaction_file not in names:
        # A dataset without transaction files, or a copy that left them behind: the manifests have to tell.
        return _find(store, reversed(list_versions(store)), None, head, job_key)
    prefix = job_uuid_prefix(job_key)
    candidates = {name for name in names if name.partition("-")[2].startswith(prefix)}
    if not candidates:
        return None
    # A commit lies above the version that it read, as a rule right above it.
    lowest = min(_read_version(name) for name in candidates)
    versions = (location for location in list_versions(store) if location.version > lowest)
    return _find(store, versions, candidates, head, job_key)


def _find(
    store: Store, versions: Iterable[ManifestLocation], names: set[str] | None, head: Manifest, job_key: str
) -> tuple[ManifestLocation, Transaction] | None:
    for location in versions:
        try:
            summary = read_summary(store, location)
            if names is not None and summary.transaction_file not in names:
                continue
            transaction = read_transaction(store, summary)
        except NotFoundError:
            # Cleaned away since the listing.
            continue
        if transaction is None or transaction.job_key != job_key:
            continue
        if location.version >= head.version or _counts(store, location, transaction):
            return location, transaction
    return None


def _counts(store: Store, location: ManifestLocation, transaction: Transaction) -> bool:
    """Whether others built on the version: a writer that died right after its put could not see to that."""
    try:
        manifest = read_manifest(store, location)
    except NotFoundError:
        return False
    return find_standing(store, location, manifest, transaction) is not Standing.PASSED_BY


def _read_version(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
