"""Restored versions: verify that the restored version still exists.

Cleanups of this library keep a version that is being restored (see `pins`); others ignore pins. If one of
them removed the version and its files just before the new manifest was stored, the newest version would miss
files, so the previous state is stored as the next version.
"""

from collections.abc import Callable, Iterator

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    RetryableCommitConflictError,
    StorageError,
    VersionNotFoundError,
)
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there
from lance_ops.table.commit.apply import build_manifest
from lance_ops.table.commit.lineage import settle
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.listing import ManifestLocation, locate
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import manifest_path
from lance_ops.table.transaction.operations import ManifestOptions, Restore
from lance_ops.table.transaction.transaction import Transaction, encode_transaction, new_transaction

Publish = Callable[[ManifestLocation, bytes, Transaction], bool]
"""Signature of `publish.publish`, with store and committer bound."""


def confirm_restored(
    store: Store,
    publish: Publish,
    location: ManifestLocation,
    manifest: Manifest,
    before: Manifest,
    restored: Manifest,
) -> None:
    """Verify that a restore restored an existing version.

    Args:
        store: Root of the dataset.
        publish: Stores a manifest if its version is free.
        location: Location of the version that the restore made.
        manifest: That version.
        before: The version before it.
        restored: The version that was restored.

    Raises:
        RetryableCommitConflictError: It was removed. The newest version is as it was before the restore.
        CommitOutcomeUnknownError: It was removed, and others have built on the restore since; or the store
            does not answer.
    """
    try:
        _confirm(store, publish, location, manifest, before, restored)
    except StorageError as error:
        # The version exists, so none of its files may be removed.
        raise CommitOutcomeUnknownError(
            f"version {location.version} was written, but it is unknown whether the restored version "
            f"still exists ({error})",
            path=f"{store.uri}/{location.path}",
            hint="run fsck on the newest version",
        ) from error


def _confirm(
    store: Store,
    publish: Publish,
    location: ManifestLocation,
    manifest: Manifest,
    before: Manifest,
    restored: Manifest,
) -> None:
    try:
        locate(store, restored.version)
    except VersionNotFoundError:
        missing = next((path for path in _files(manifest) if not is_there(store, path)), None)
    else:
        return
    if missing is None:
        return
    # Nothing is removed: another writer may be building on our version. But only one writer gets the next
    # number, so this cannot undo the commits of others.
    transaction = new_transaction(Restore(before.version), manifest.version)
    store.put(transaction.path, encode_transaction(transaction))
    options = ManifestOptions(manifest.timestamp, restored=before)
    number = manifest.version + 1
    after = ManifestLocation(number, manifest_path(number, location.scheme), scheme=location.scheme)
    theirs = "a cleanup that ignores pins"
    what = f"version {restored.version} was removed while it was restored as version {manifest.version}"
    undone = build_manifest(manifest, transaction, options)
    if publish(after, encode_manifest(undone), transaction) and _stands(store, after, undone, transaction):
        raise RetryableCommitConflictError(
            f"{what}; version {number} equals version {before.version}",
            ours=Restore.name,
            theirs=theirs,
            version=restored.version,
            path=f"{store.uri}/{missing}",
        )
    raise CommitOutcomeUnknownError(
        f"{what}, and others have committed on top of it",
        path=f"{store.uri}/{missing}",
        hint="restore a version for which fsck reports no problem",
    )


def _stands(store: Store, location: ManifestLocation, manifest: Manifest, transaction: Transaction) -> bool:
    """Return whether a version is in the history; otherwise remove it.

    Its number may have been free because others committed it and more, and a cleanup removed it.

    Raises:
        CommitOutcomeUnknownError: That is unknown.
    """
    try:
        settle(store, location, manifest, transaction)
    except RetryableCommitConflictError:
        return False
    return True


def _files(manifest: Manifest) -> Iterator[str]:
    for fragment in manifest.fragments:
        yield from (f"{DATA_DIRECTORY}/{file.path}" for file in fragment.all_files if file.base_id is None)
        deletion = fragment.deletion_file
        if deletion is not None and deletion.base_id is None:
            yield deletion.path(fragment.id)
