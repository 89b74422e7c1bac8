"""Branches: create and delete lines of versions that start at a version of another line.

The first version of a branch is a shallow clone of the version that it starts at, below `tree/` of the root;
then a ref file is written, which makes the branch visible. It is removed in the opposite order. Cleanups of
the parent line keep its start version. Source: format, branches.
"""

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from lance_ops.errors import (
    AlreadyExistsError,
    BranchInUseError,
    DatasetExistsError,
    InvalidArgumentError,
    LanceOpsError,
    PathEscapeError,
    RetryableCommitConflictError,
    VersionNotFoundError,
    public,
)
from lance_ops.maintenance.metadata.clone import PLACE_FOLDER, write_first_version
from lance_ops.storage import Store, leads_out
from lance_ops.storage.lease import Lease
from lance_ops.storage.retry import is_there
from lance_ops.table.commit.committer import Committer
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.history.pins import announce_removal, list_pins, pinned, removal_path
from lance_ops.table.history.refs import (
    MAIN,
    Branch,
    branch_directory,
    branch_path,
    branch_store,
    check_ref_length,
    folders_below,
    list_branches,
    list_tags,
    put_branch,
    read_branch,
    remove_branch,
)
from lance_ops.table.history.resolve_version import VersionSpec
from lance_ops.table.manifest.fragment_reuse.partition import MAPS_FOLDER
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    is_detached,
    iter_manifests,
    locate,
    manifest_size,
)

_FOLDERS = (
    "_transactions",
    "_deletions",
    "_indices",
    "data",
    "_blobs",
    MAPS_FOLDER,
    "_mem_wal",
    "_refs",
    "_lance_ops",
)
"""Folders of a branch besides its manifests, unless they belong to a nested branch."""

_CHUNK = 1000


@public(target="uri_or_dataset", branch="name", reference="version")
def create_branch(
    uri_or_dataset: Target,
    name: str,
    version: VersionSpec | None = None,
    *,
    metadata: Mapping[str, str] | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Dataset:
    """Create a branch at a version. No file is copied; the branch then has its own versions.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        name: Segments of letters, digits, ".", "-" and "_", separated by "/".
        version: Version, tag or (branch, version) to fork off; that of a `Dataset` when None.
        metadata: Notes.
        committer: Who decides races for the first version; the store when None.
        storage_options: For opening the dataset.

    Returns:
        The branch, at its first version, which has the number of its start version.

    Raises:
        InvalidArgumentError: The name is not allowed.
        AlreadyExistsError: The branch exists.
        DatasetExistsError: The branch does not exist, but its folder has files.
        LeaseHeldError: A branch with this name is being created or deleted.
        VersionNotFoundError: The version does not exist.
        RetryableCommitConflictError: The version, or its branch, is being removed.
        UnsupportedError: The version has files that a branch cannot refer to.

    Examples:
        >>> lo.create_branch("events.lance", "trial").branch
        'trial'
    """
    source = open_dataset(uri_or_dataset, storage_options)
    if version is not None:
        source = source.checkout_version(version)
    if is_detached(source.version):
        raise InvalidArgumentError(
            "a branch cannot start at a detached version", path=source.uri, field="version"
        )
    root = source.root
    path = branch_path(name)
    check_ref_length(path, "branch", field="name")
    parent = None if source.branch is None else read_branch(root, source.branch)
    store = branch_store(root, name)
    with _held(root, name, "creates this branch"):
        if is_there(root, path):
            raise AlreadyExistsError(f"branch {name!r} already exists", path=root.uri)
        if _folders(store) and _folders(store, _below(root, name)):
            raise _left_over(store, name)
        with pinned(source.store, source.version, f"branch {name}"):
            branch = Branch(
                name,
                source.branch,
                source.version,
                datetime.now(UTC),
                manifest_size(source.store, source.version),
                dict(metadata or {}),
                (*(parent.lineage if parent else ()), (source.version, uuid.uuid4().hex)),
            )
            try:
                made = write_first_version(
                    source,
                    store,
                    branch=name,
                    committer=committer,
                    storage_options=source.storage_options,
                    root=root,
                )
            except DatasetExistsError as error:
                raise _left_over(store, name) from error
            try:
                put_branch(root, branch)
                _confirm(source, branch)
            except AlreadyExistsError:
                # The official library, which knows no leases, made it from another version meanwhile.
                with contextlib.suppress(LanceOpsError):
                    store.delete_many([made.location.path, f"_transactions/{made.manifest.transaction_file}"])
                raise
            except BaseException:
                # Its first version is ours, so everything exists.
                with contextlib.suppress(LanceOpsError):
                    remove_branch(root, name)
                    _remove_files(store, _below(root, name))
                raise
    return made


def _held(root: Store, name: str, work: str) -> Lease:
    """The lease of one name: branches of two versions have two first manifests, so neither put would fail."""
    folder = f"{PLACE_FOLDER}/{quote(name, safe='')}"
    return Lease(root, f"branch {name}", folder=folder, work=work)


def _left_over(store: Store, name: str) -> DatasetExistsError:
    return DatasetExistsError(
        f"branch {name!r} does not exist, but its folder has files",
        path=store.uri,
        hint="its creation or removal was interrupted: delete_branch removes them",
    )


def _below(root: Store, name: str) -> tuple[str, ...]:
    """Folders of the branches whose names begin with that of another one, relative to its own."""
    return folders_below(branch_directory(name), list_branches(root).values())


def _folders(store: Store, below: Sequence[str] = ()) -> list[str]:
    """Return the folders of a branch with its own files.

    Args:
        store: Its root.
        below: See `_below`.
    """
    present = set(store.list_dirs(""))
    own = (name for name in (VERSIONS_DIRECTORY, *_FOLDERS) if name in present)
    return [name for name in own if next(_files(store, name, below), None) is not None]


def _files(store: Store, folder: str, below: Sequence[str]) -> Iterator[str]:
    lead = tuple(f"{directory}/" for directory in below)
    return (info.path for info in store.list(folder) if not info.path.startswith(lead))


def _confirm(source: Dataset, branch: Branch) -> None:
    """Check that the start version of a branch still exists after its creation."""
    try:
        if branch.parent_branch is not None:
            read_branch(source.root, branch.parent_branch)
        locate(source.store, branch.parent_version)
    except VersionNotFoundError as error:
        raise RetryableCommitConflictError(
            "the start version of the branch was removed meanwhile",
            ours=f"branch {branch.name}",
            theirs=f"cleanup or removal of version {branch.parent_version} of {source.branch or MAIN}",
            version=branch.parent_version,
            path=source.uri,
        ) from error


@public(target="uri_or_dataset", branch="name")
def delete_branch(
    uri_or_dataset: Target,
    name: str,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Remove a branch with all its versions and own files.

    This also removes the remains of an interrupted creation or removal. Rows appended concurrently to the
    branch are lost.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        name: The branch.
        storage_options: For opening the dataset.

    Returns:
        Number of removed files.

    Raises:
        VersionNotFoundError: The branch does not exist, without remains.
        BranchInUseError: Another branch started at it, a tag names one of its versions, or an operation in
            progress requires one.
        LeaseHeldError: It is being created, or deleted by another process.
        InvalidArgumentError: The name is not allowed.
        PathEscapeError: A folder of the branch is a symbolic link that leads out of it.

    Examples:
        >>> branch = lo.create_branch("events.lance", "trial")
        >>> lo.delete_branch("events.lance", "trial")
        4
        >>> lo.dataset("events.lance").branches
        {}
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    root = dataset.root
    store = branch_store(root, name)
    with _held(root, name, "deletes this branch"):
        _refuse_used(root, store, name)
        _refuse_linked(root, store, name)
        try:
            described: Branch | None = read_branch(root, name)
        except VersionNotFoundError:
            if not _folders(store, _below(root, name)):
                raise
            described = None
        versions = [location.version for location in iter_manifests(store)]
        announcement = removal_path()
        announce_removal(store, announcement, versions, ())
        remove_branch(root, name)
        try:
            # References created before the announcement are found here; later ones find the announcement.
            _refuse_used(root, store, name)
        except BranchInUseError:
            if described is not None:
                put_branch(root, described)
            store.delete(announcement)
            raise
        return _remove_files(store, _below(root, name))


def _refuse_used(root: Store, store: Store, name: str) -> None:
    forks = sorted(branch.name for branch in list_branches(root).values() if branch.parent_branch == name)
    tags = sorted(tag.name for tag in list_tags(root).values() if tag.branch == name)
    users = [*(f"branch {fork!r}" for fork in forks), *(f"tag {tag!r}" for tag in tags)]
    now = datetime.now(UTC)
    users += [
        f"an operation in progress on version {pin.version}" for pin in list_pins(store) if pin.is_alive(now)
    ]
    if users:
        raise BranchInUseError(
            f"branch {name!r} is used by {', '.join(users)}",
            path=f"{root.uri}/{branch_path(name)}",
            hint="remove these first",
        )


def _refuse_linked(root: Store, store: Store, name: str) -> None:
    folders = [name for name in (VERSIONS_DIRECTORY, *_FOLDERS) if leads_out(store, name)]
    if leads_out(root, branch_directory(name)):
        folders.insert(0, "its own folder")
    if folders:
        raise PathEscapeError(
            f"branch {name!r} has symbolic links that lead out of it, and files behind such a link are not "
            f"deleted: {', '.join(folders)}",
            path=store.uri,
            hint="remove the links manually first",
        )


def _remove_files(store: Store, below: Sequence[str]) -> int:
    """Remove the manifests, then the files of a branch; those of branches below it stay, see `_below`."""
    removed = 0
    for folder in _folders(store, below):
        paths = list(_files(store, folder, below))
        for start in range(0, len(paths), _CHUNK):
            store.delete_many(paths[start : start + _CHUNK])
        removed += len(paths)
    return removed
