"""Restored versions: is what a restore brought back still there?

Cleanups of this library spare a version that is being restored (see `pins`). Others do not know about
that. When one of them removed the version and its files just before the new manifest came, the newest version
would miss files, so the state before is brought back as the version after it.
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
"""See `publish.publish`, with store and committer given."""


def confirm_restored(
    store: Store,
    publish: Publish,
    location: ManifestLocation,
    manifest: Manifest,
    before: Manifest,
    restored: Manifest,
) -> None:
    """See that a restore brought back something that is there.

    Args:
        store: Root of the dataset.
        publish: Stores a manifest if its version is free.
        location: Where the version that the restore made lies.
        manifest: That version.
        before: The version before it.
        restored: The version that was restored.

    Raises:
        RetryableCommitConflictError: It is gone. The newest version is as it was before the restore.
        CommitOutcomeUnknownError: It is gone, and others have built on the restore by now; or the store does
            not tell.
    """
    try:
        _confirm(store, publish, location, manifest, before, restored)
    except StorageError as error:
        # The version is there, so nothing of it may be removed.
        raise CommitOutcomeUnknownError(
            f"version {location.version} was written, and whether what it brings back is still there "
            f"cannot be told ({error})",
            path=f"{store.uri}/{location.path}",
            hint="look whether fsck finds the newest version sound",
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
    # Nothing is removed: somebody may build on our version at this moment. But the next number is free for
    # one writer only, so that what others commit can not be undone by this.
    transaction = new_transaction(Restore(before.version), manifest.version)
    store.put(transaction.path, encode_transaction(transaction))
    options = ManifestOptions(manifest.timestamp, restored=before)
    number = manifest.version + 1
    after = ManifestLocation(number, manifest_path(number, location.scheme), scheme=location.scheme)
    theirs = "a cleanup that does not heed pins"
    what = f"version {restored.version} was removed while it was restored as version {manifest.version}"
    undone = build_manifest(manifest, transaction, options)
    if publish(after, encode_manifest(undone), transaction) and _stands(store, after, undone, transaction):
        raise RetryableCommitConflictError(
            f"{what}; version {number} is as version {before.version}",
            ours=Restore.name,
            theirs=theirs,
            version=restored.version,
            path=f"{store.uri}/{missing}",
        )
    raise CommitOutcomeUnknownError(
        f"{what}, and others have committed on top of it",
        path=f"{store.uri}/{missing}",
        hint="restore a version that fsck finds sound",
    )


def _stands(store: Store, location: ManifestLocation, manifest: Manifest, transaction: Transaction) -> bool:
    """Whether a version is one that others build on; else it is removed again.

    Its number may have been free because others committed it and more, and a cleanup removed it.

    Raises:
        CommitOutcomeUnknownError: That cannot be told.
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
