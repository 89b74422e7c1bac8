"""Shallow clones: a separate dataset, or a branch, that starts with the files of another one.

The clone refers to the files of its source through a base path, and writes its own. The format has no record
at the source, so a cleanup of the source would remove the files: a clone made here creates a tag at its
source, which cleanups of both libraries keep. Source: format, base paths; files written by pylance.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    LanceOpsError,
    UnsupportedError,
    public,
)
from lance_ops.maintenance.cleanup.marks import DATA, DELETIONS, INDICES, OBJECTS, ROW_MAPS, TRANSACTIONS
from lance_ops.maintenance.cleanup.places import below
from lance_ops.pb import transaction_pb2
from lance_ops.storage import Store, open_store
from lance_ops.storage.lease import Lease
from lance_ops.storage.paths import official_uri
from lance_ops.storage.retry import unless_gone
from lance_ops.table.commit.apply import writer_version
from lance_ops.table.commit.committer import Committer, committer_for, publish
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.history.refs import (
    BRANCH_TREES,
    TAGS_DIRECTORY,
    create_tag,
    delete_tag,
    read_tag,
    update_tag,
)
from lance_ops.table.history.resolve_version import VersionSpec
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.feature_flags import flags_for
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment import ExternalFile, Fragment
from lance_ops.table.manifest.listing import (
    HINT_PATH,
    VERSIONS_DIRECTORY,
    ManifestLocation,
    NamingScheme,
    is_detached,
    latest,
    list_versions,
    manifest_path,
    write_hint,
)
from lance_ops.table.manifest.model import BasePath, Manifest
from lance_ops.table.transaction.operations import ForeignOperation
from lance_ops.table.transaction.transaction import Transaction, encode_transaction, new_transaction

PLACE_FOLDER = "_lance_ops/making"
"""Folder of the leases for creating a clone below its root, or a branch below that of the dataset."""

_FOLDERS = frozenset(
    {
        *(DATA, DELETIONS, INDICES, OBJECTS, ROW_MAPS, TRANSACTIONS, VERSIONS_DIRECTORY, BRANCH_TREES),
        *(TAGS_DIRECTORY.partition("/")[0], PLACE_FOLDER.partition("/")[0]),
    }
)
"""Folders of a dataset that hold what is its own."""

CLONE_TAG = "lance_ops.clone"
"""Tags that keep the files of clones begin so; the property of the same name holds the URI of the clone."""


@public(target="uri_or_dataset", target_path="uri", reference="version")
def shallow_clone(
    uri_or_dataset: Target,
    uri: str | os.PathLike[str],
    version: VersionSpec | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    committer: Committer | None = None,
) -> Dataset:
    """Create a dataset that starts as a version of another one, without copying its files.

    A tag at the source, named after the clone, keeps these files from cleanup. After removing the clone,
    delete the tag; the source lists its tags with the URI of the clone.

    Args:
        uri_or_dataset: URI or path of the source, or a `Dataset`.
        uri: Where to make the clone.
        version: Version, tag or (branch, version) of the source; that of a `Dataset` when None.
        storage_options: For opening both.
        committer: Who decides races for the first version of the clone; its store when None.

    Returns:
        The clone, at its first version, which has the number of the source's version.

    Raises:
        DatasetExistsError: `uri` already has a dataset.
        LeaseHeldError: Another clone is being created at `uri`.
        VersionNotFoundError: The version does not exist.
        RetryableCommitConflictError: A cleanup of the source is removing the version.
        InvalidArgumentError: The version is a detached one, or `uri` is within the folders of the source.
        UnsupportedError: The version has files that a clone cannot refer to.

    Examples:
        >>> lo.shallow_clone("events.lance", "clone.lance").count_rows()
        10
    """
    source = open_dataset(uri_or_dataset, storage_options)
    if version is not None:
        source = source.checkout_version(version)
    if is_detached(source.version):
        raise InvalidArgumentError("a detached version cannot be cloned", path=source.uri, field="version")
    refuse_attached_blobs(source.manifest, source.uri)
    store = open_store(uri, storage_options)
    refuse_inside(source, store)
    refuse_existing(store)
    with hold_place(store, "shallow clone"):
        name = pin_clone(source, store.uri)
        try:
            return write_first_version(source, store, committer=committer, storage_options=storage_options)
        except CommitOutcomeUnknownError:
            # The clone may be there.
            raise
        except BaseException:
            with contextlib.suppress(LanceOpsError):
                delete_tag(source.root, name)
            raise


def write_first_version(
    source: Dataset,
    store: Store,
    *,
    branch: str | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
    root: Store | None = None,
) -> Dataset:
    """Publish the first version of a clone or a branch, which has the number and the files of the source's.

    Args:
        source: The version.
        store: Root of the clone.
        branch: Name of the branch; None for a separate dataset.
        committer: Committer of the version; the store if None.
        storage_options: Options of the clone's store.
        root: Main root of the dataset that a branch is of.

    Raises:
        DatasetExistsError: The version exists.
        UnsupportedError: The version has files to which a clone cannot refer.
        CommitOutcomeUnknownError: It may exist.
    """
    manifest, transaction = _first_version(source, branch)
    return publish_first(
        store, manifest, transaction, committer=committer, storage_options=storage_options, root=root
    )


def publish_first(
    store: Store,
    manifest: Manifest,
    transaction: Transaction,
    *,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
    root: Store | None = None,
) -> Dataset:
    """Publish the first version of a dataset or branch; see `write_first_version`.

    A failure leaves no files, as far as the store allows and the outcome is known.
    """
    path = manifest_path(manifest.version, NamingScheme.V2)
    location = ManifestLocation(manifest.version, path, scheme=NamingScheme.V2)
    data = encode_manifest(manifest)
    try:
        store.put(transaction.path, encode_transaction(transaction))
        is_ours = publish(store, committer or committer_for(store), location, data, transaction)
        if is_ours and not _is_alone(store, location):
            # A dataset was created here meanwhile: its first version has another number.
            _remove_first(store, path, data, transaction)
            is_ours = False
        elif is_ours:
            write_hint(store, manifest.version)
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        with contextlib.suppress(LanceOpsError):
            _remove_first(store, path, data, transaction)
        raise
    if not is_ours:
        with contextlib.suppress(LanceOpsError):
            store.delete(transaction.path)
        raise _exists(store)
    return Dataset(store, location, manifest, storage_options=storage_options, root=root)


def _is_alone(store: Store, first: ManifestLocation) -> bool:
    """Return whether there is no version below the first one of a dataset."""
    return all(location.version >= first.version for location in list_versions(store))


def _remove_first(store: Store, path: str, manifest: bytes, transaction: Transaction) -> None:
    """Remove the version that a dataset or branch was to start with, where it is this one."""
    found = unless_gone(store, path, partial(store.read, path))
    if found is not None and bytes(found) == manifest:
        store.delete_many([path, HINT_PATH])
    store.delete(transaction.path)


def pin_clone(source: Dataset, clone_uri: str) -> str:
    """Keep the files of a version for a clone of any library; returns the name of the tag.

    Args:
        source: The cloned version.
        clone_uri: Root of the clone.

    Raises:
        VersionNotFoundError: The version was removed.
        RetryableCommitConflictError: A cleanup is removing the version.
    """
    name = f"{CLONE_TAG}-{blake2b(clone_uri.encode(), digest_size=8).hexdigest()}"
    notes = {CLONE_TAG: clone_uri}
    try:
        read_tag(source.root, name)
    except LanceOpsError:
        create_tag(source.root, name, source.version, branch=source.branch, metadata=notes)
    else:
        # Of a removed clone at the same URI.
        update_tag(source.root, name, source.version, branch=source.branch)
    return name


@contextlib.contextmanager
def hold_place(store: Store, what: str) -> Iterator[Lease]:
    """Hold the lease for creating a clone at a URI.

    Two clones of different versions have different first manifests, so that no put-if-absent of a manifest
    decides between them; and copies of one source have the same names, so that the one that fails could
    remove those of the other.

    Args:
        store: Root of the clone.
        what: Description for errors.

    Raises:
        DatasetExistsError: There is a dataset.
        LeaseHeldError: Another clone is being created there.
    """
    with Lease(store, what, folder=PLACE_FOLDER, work="creates a dataset here") as lease:
        refuse_existing(store)
        yield lease


def refuse_inside(source: Dataset, store: Store) -> None:
    """Check that a clone is not in a folder of its source's files, whose cleanup would remove it.

    Raises:
        InvalidArgumentError: It is in such a folder, with links resolved.
    """
    roots = {source.root.uri, source.uri, *(base.path for base in source.manifest.base_paths)}
    flat = {base.path for base in source.manifest.base_paths if not base.is_dataset_root}
    for root in sorted(roots):
        inside = below(store.uri, root)
        if inside and (root in flat or inside.partition("/")[0] in _FOLDERS):
            raise InvalidArgumentError(
                f"a clone cannot be at {inside.rstrip('/')!r} within the files of its source",
                path=store.uri,
                field="uri",
                hint=f"choose a URI outside of {root}",
            )


def refuse_existing(store: Store) -> None:
    """Raise `DatasetExistsError` where there is a dataset."""
    try:
        latest(store)
    except DatasetNotFoundError:
        return
    raise _exists(store)


def _exists(store: Store) -> DatasetExistsError:
    return DatasetExistsError(
        "the dataset already exists", path=store.uri, hint="choose another URI for the clone"
    )


def _first_version(source: Dataset, branch: str | None) -> tuple[Manifest, Transaction]:
    before = source.manifest
    if source.fragment_reuse is not None and source.fragment_reuse.row_maps():
        raise UnsupportedError(
            "its fragment reuse index has row maps, to which a clone or branch cannot refer",
            path=source.uri,
            field="stable_partition",
            hint="run optimize_indices() first, which removes them; or make a deep clone",
        )
    base = BasePath(
        id=max((item.id for item in before.base_paths), default=-1) + 1,
        path=official_uri(source.uri),
        is_dataset_root=True,
        name=source.branch if branch is not None else None,
    )
    clone = transaction_pb2.Transaction.Clone(
        is_shallow=True, ref_version=before.version, ref_path=official_uri(source.uri)
    )
    if source.branch is not None and branch is not None:
        clone.ref_name = source.branch
    if branch is not None:
        clone.branch_name = branch
    wire = clone.SerializeToString(deterministic=True)
    fragments = tuple(_from_base(fragment, base.id, source.uri) for fragment in before.fragments)
    indices = tuple(
        index if index.base_id is not None else replace(index, base_id=base.id) for index in before.indices
    )
    bases = (*before.base_paths, base)
    return first_manifest(before, wire, branch, base_paths=bases, fragments=fragments, indices=indices)


def refuse_attached_blobs(manifest: Manifest, path: str | None = None) -> None:
    """Check that a version does not use the blob dataset of old tables, which a clone would lack.

    Raises:
        UnsupportedError: It does.
    """
    if manifest.blob_dataset_version:
        raise UnsupportedError(
            "the dataset stores blobs in a separate dataset, as old writers did, and cannot be cloned",
            path=path,
            field="blob_dataset_version",
            hint="read the rows and write them to a new dataset",
        )


def first_manifest(
    before: Manifest, wire: bytes, branch: str | None, **parts: Any
) -> tuple[Manifest, Transaction]:
    """Return the first manifest and transaction of a clone or branch.

    Args:
        before: Manifest of the cloned version.
        wire: The Clone message.
        branch: Name of the branch; None for a separate dataset.
        **parts: Differences of the clone: fragments, indices, bases.
    """
    refuse_attached_blobs(before)
    transaction = new_transaction(ForeignOperation("Clone", wire), before.version)
    manifest = before.replace(
        **parts,
        timestamp=datetime.now(UTC),
        branch=branch,
        tag="",
        transaction_file=transaction.file_name,
        transaction=encode_transaction(transaction),
        writer_version=writer_version(),
    )
    reader_flags, writer_flags = flags_for(manifest)
    return manifest.replace(reader_flags=reader_flags, writer_flags=writer_flags), transaction


def _from_base(fragment: Fragment, base_id: int, uri: str) -> Fragment:
    if any(
        isinstance(sequence, ExternalFile)
        for sequence in (fragment.row_ids, fragment.last_updated_at_versions, fragment.created_at_versions)
    ):
        raise UnsupportedError(
            f"fragment {fragment.id} has row ids in a file to which a clone cannot refer", path=uri
        )
    deletion = fragment.deletion_file
    if deletion is not None and deletion.base_id is None:
        deletion = replace(deletion, base_id=base_id)

    def from_base(file: DataFile) -> DataFile:
        return file if file.base_id is not None else replace(file, base_id=base_id)

    return fragment.replace(
        files=tuple(map(from_base, fragment.files)),
        overlays=tuple(replace(overlay, file=from_base(overlay.file)) for overlay in fragment.overlays),
        deletion_file=deletion,
    )
