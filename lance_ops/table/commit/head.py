"""Head of a commit: the newest version, known to be one of the same dataset as the read version."""

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
    """The newest version where it is at hand.

    Args:
        store: Root of the dataset.
        known: The newest version that the caller knows.
        ours: What is committed, for messages.
        is_own: It is a commit of the caller's, who looked for later ones: an instant ago is soon enough.
        settle: It is a commit of the caller's, which this proves to stand.
    """
    if settle is not None:
        settle()
        return known.location, known.manifest
    if is_own and was_newest_within(known.location, _INSTANT):
        return known.location, known.manifest
    if not was_newest_within(known.location, MOMENT):
        return None
    # Whether the next version exists its put tells, which takes as long as a look at it. Where a look costs
    # next to nothing, it saves building a manifest in vain.
    if not has_latency(store) and not is_still_newest(store, known.location):
        return None
    return (known.location, known.manifest) if _is_same(store, known, ours) else None


def find_head(
    store: Store, base: Dataset, ours: Transaction, *, check_base: bool
) -> tuple[ManifestLocation, Manifest]:
    """Look the newest version up.

    Args:
        store: Root of the dataset.
        base: The read version.
        ours: What is committed, for messages.
        check_base: See that the read version is still the one that was read.

    Raises:
        RetryableCommitConflictError: It is another dataset than the one that was read.
        UnsupportedFeatureError: The newest version uses features that are not implemented.
        UnsupportedError: A later version is staged.
    """
    head, manifest = read_latest(store, base.manifest)
    check_no_staged(head.staged, head.version, store.uri)
    if head.version < base.version:
        raise base_conflict(ours, f"the read version {base.version} is newer than the head", head.version)
    if check_base:
        # When it was cleaned away, the versions after it are all there, or the commit ends there.
        _is_there(store, base, head.scheme, ours)
    if manifest is not base.manifest:
        check_head(store, manifest, head)
    return head, manifest


def check_head(store: Store, manifest: Manifest, location: ManifestLocation) -> None:
    """Refuse a version that no commit of ours could go on top of, or could bring back.

    Raises:
        UnsupportedFeatureError: It uses features that are not implemented.
        UnsupportedError: It is too old.
    """
    path = f"{store.uri}/{location.path}"
    check_writable(manifest, path=path)
    check_age(manifest, path=path)


def _is_same(store: Store, base: Dataset, ours: Transaction) -> bool:
    """Whether the dataset is the one that was read a moment ago, without reading its manifest again."""
    # The name is unique, and whoever removes a dataset removes this file, too.
    name = base.manifest.transaction_file
    # A name that leads elsewhere says nothing; the manifest itself does.
    with contextlib.suppress(PathEscapeError):
        if name and store.exists(transaction_path(name)):
            return True
    return _is_there(store, base, base.location.scheme, ours)


def _is_there(store: Store, base: Dataset, scheme: NamingScheme, ours: Transaction) -> bool:
    """Whether the read version exists.

    Raises:
        RetryableCommitConflictError: Another one does: the dataset was deleted and made anew.
    """
    path = manifest_path(base.version, scheme)
    try:
        now = read_summary(store, ManifestLocation(base.version, path, scheme=scheme))
    except VersionNotFoundError:
        return False
    except FormatError:
        # What a restore replaces may be damaged.
        if isinstance(ours.operation, Restore):
            return True
        raise
    same = now.transaction_file == base.manifest.transaction_file
    if not same or now.timestamp != base.manifest.timestamp:
        raise base_conflict(ours, "the dataset was replaced by another one", base.version)
    return True
