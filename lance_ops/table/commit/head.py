"""Head of a commit: the newest version, checked to belong to the same dataset as the read version.

Validation: check a version before it is committed on. Pure.

Whether an operation fits a version is checked by the operation (`CommittedOperation.check`).
"""

import contextlib
from collections.abc import Callable

from lance_ops.cache import IdentityCache
from lance_ops.errors import FormatError, PathEscapeError, UnsupportedError, VersionNotFoundError
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import is_legacy
from lance_ops.storage import Store
from lance_ops.storage.prefetch import has_latency
from lance_ops.table.commit.concurrent_commits import base_conflict
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.feature_flags import check_writable
from lance_ops.table.manifest.file.read import read_latest
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.fragments.totals import file_numbers
from lance_ops.table.manifest.listing import (
    MOMENT,
    VERSIONS_DIRECTORY,
    ManifestLocation,
    NamingScheme,
    is_still_newest,
    manifest_path,
    staged_version,
    was_newest_within,
)
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import Restore
from lance_ops.table.transaction.transaction import Transaction, transaction_path

# Wide tables have thousands of fields, and each commit asks.
_coded: IdentityCache[[Schema], tuple[str, ...]] = IdentityCache(
    "dictionary columns",
    lambda schema: tuple([node.name for node in schema.walk() if node.logical_type.startswith("dict:")]),
    64,
)


def check_no_staged(staged: str | None, newest: int, uri: str) -> None:
    """Refuse to write beside a staged manifest of a later version: it may be the newest version by now.

    Args:
        staged: Its name, if there is one.
        newest: The newest listed version.
        uri: Of the dataset.

    Raises:
        UnsupportedError: There is one.
    """
    if staged is not None:
        path = f"{VERSIONS_DIRECTORY}/{staged}"
        raise UnsupportedError(
            f"a manifest of version {staged_version(staged)} is staged: a writer that keeps its "
            "versions in an external manifest store (DynamoDB) may have committed it, and version "
            f"{newest} may not be the newest",
            path=f"{uri}/{path}",
            hint="open the table with its external manifest store (s3+ddb:// with the name of the table, or "
            "the storage option manifest_store); if there is none any more, remove this file",
        )


def check_age(manifest: Manifest, *, path: str) -> None:
    """Refuse to write on top of legacy versions.

    Writers before 0.8.15 recorded wrong row counts and index coverages. Pylance corrects them when it
    commits, based on the writer version in the manifest: ours would hide the fault.

    Raises:
        UnsupportedError: The version was written before 0.8.15, keeps blobs in a dataset of their own, or has
            dictionary columns of storage version 0.1.
    """
    if manifest.may_miscount:
        raise UnsupportedError(
            "the row counts and index coverages of this version may be wrong: its writer is older than "
            "0.8.15",
            path=path,
            field="writer_version",
            hint="let pylance correct them with one commit, such as dataset.delete('false')",
        )
    if manifest.blob_dataset_version:
        raise UnsupportedError(
            "the dataset stores blobs in a separate dataset, a layout of old writers that cannot be modified",
            path=path,
            field="blob_dataset_version",
        )
    coded = _coded(manifest.schema)
    if coded and any(is_legacy(*numbers) for numbers in file_numbers(manifest.fragments)):
        # Manifests of 0.1 hold the dictionary values, and pylance reads them from there.
        raise UnsupportedError(
            "dictionary columns of storage version 0.1 cannot be carried into a new version",
            path=path,
            field=coded[0],
            hint="read the rows and write them into a new dataset",
        )


_INSTANT = 1.0


def known_head(
    store: Store,
    known: Dataset,
    ours: Transaction,
    *,
    is_own: bool = False,
    settle: Callable[[], None] | None = None,
) -> tuple[ManifestLocation, Manifest] | None:
    """Return the newest version if it is already known.

    Args:
        store: Root of the dataset.
        known: The newest version that the caller knows.
        ours: The transaction to commit, for messages.
        is_own: It was committed by the caller, who then listed later versions, so it is recent enough.
        settle: It was committed by the caller, and this call proves that it is in the history.
    """
    if settle is not None:
        settle()
        return known.location, known.manifest
    if is_own and was_newest_within(known.location, _INSTANT):
        return known.location, known.manifest
    if not was_newest_within(known.location, MOMENT):
        return None
    # The put reports whether the next version exists, as fast as a lookup does. If a lookup is nearly free,
    # it saves building a manifest for nothing.
    if not has_latency(store) and not is_still_newest(store, known.location):
        return None
    return (known.location, known.manifest) if _is_same(store, known, ours) else None


def find_head(
    store: Store, base: Dataset, ours: Transaction, *, check_base: bool
) -> tuple[ManifestLocation, Manifest]:
    """Find the newest version.

    Args:
        store: Root of the dataset.
        base: The read version.
        ours: The transaction to commit, for messages.
        check_base: Check that the read version is still the one that was read.

    Raises:
        RetryableCommitConflictError: The dataset was replaced by another one.
        UnsupportedFeatureError: The newest version uses features that are not implemented.
        UnsupportedError: A later version is staged.
    """
    head, manifest = read_latest(store, base.manifest)
    check_no_staged(head.staged, head.version, store.uri)
    if head.version < base.version:
        raise base_conflict(ours, f"the read version {base.version} is newer than the head", head.version)
    if check_base:
        # If it was cleaned up, the versions after it all exist, or the commit ends there.
        _is_there(store, base, head.scheme, ours)
    if manifest is not base.manifest:
        check_head(store, manifest, head)
    return head, manifest


def check_head(store: Store, manifest: Manifest, location: ManifestLocation) -> None:
    """Refuse a version on which we cannot commit, or which we cannot restore.

    Raises:
        UnsupportedFeatureError: It uses features that are not implemented.
        UnsupportedError: It is too old.
    """
    path = f"{store.uri}/{location.path}"
    check_writable(manifest, path=path)
    check_age(manifest, path=path)


def _is_same(store: Store, base: Dataset, ours: Transaction) -> bool:
    """Return whether the dataset is the one that was read just now, without reading its manifest again."""
    # The name is unique, and removing a dataset removes this file too.
    name = base.manifest.transaction_file
    # A name that leads outside proves nothing; the manifest decides.
    with contextlib.suppress(PathEscapeError):
        if name and store.exists(transaction_path(name)):
            return True
    return _is_there(store, base, base.location.scheme, ours)


def _is_there(store: Store, base: Dataset, scheme: NamingScheme, ours: Transaction) -> bool:
    """Return whether the read version exists.

    Raises:
        RetryableCommitConflictError: The dataset was deleted and created again.
    """
    path = manifest_path(base.version, scheme)
    try:
        now = read_summary(store, ManifestLocation(base.version, path, scheme=scheme))
    except VersionNotFoundError:
        return False
    except FormatError:
        # The version that a restore replaces may be damaged.
        if isinstance(ours.operation, Restore):
            return True
        raise
    same = now.transaction_file == base.manifest.transaction_file
    if not same or now.timestamp != base.manifest.timestamp:
        raise base_conflict(ours, "the dataset was replaced by another one", base.version)
    return True
