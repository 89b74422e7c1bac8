"""Head of a commit: the newest version, checked to belong to the same dataset as the read version."""

import contextlib
from collections.abc import Callable

from lance_ops.errors import FormatError, PathEscapeError, VersionNotFoundError
from lance_ops.storage import Store
from lance_ops.storage.prefetch import has_latency
from lance_ops.table.commit.concurrent_commits import base_conflict
from lance_ops.table.commit.validate import check_age, check_no_staged
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.feature_flags import check_writable
from lance_ops.table.manifest.file.read import read_latest
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import (
    MOMENT,
    ManifestLocation,
    is_still_newest,
    was_newest_within,
)
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import NamingScheme, manifest_path
from lance_ops.table.transaction.operations import Restore
from lance_ops.table.transaction.transaction import Transaction, transaction_path

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
