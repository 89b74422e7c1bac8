"""Version resolution: from a number, a tag or a branch to the store and the manifest that are meant."""

from collections.abc import Mapping

from lance_ops.errors import DatasetNotFoundError, InvalidArgumentError, VersionNotFoundError
from lance_ops.storage import Store, open_store
from lance_ops.table.history.refs import BRANCH_TREES, MAIN, branch_store, read_tag
from lance_ops.table.manifest.base_paths import branch_root
from lance_ops.table.manifest.file import read_summary
from lance_ops.table.manifest.listing import ManifestLocation, latest, locate

VersionSpec = int | str | tuple[str | None, int | None]
"""A version number, the name of a tag, or (branch, version); None in the pair means main, or the newest."""


def find_version(store: Store, root: Store, version: VersionSpec | None) -> tuple[Store, ManifestLocation]:
    """The store and the manifest of a version.

    Args:
        store: What was opened; numbers count there.
        root: Main root of the dataset; tags and branches are found there.
        version: The newest of `store` when None.

    Raises:
        DatasetNotFoundError: There is no dataset.
        VersionNotFoundError: There is no such version, tag or branch.
        InvalidArgumentError: It is none of the three.
    """
    if version is None:
        return store, latest(store)
    if isinstance(version, int) and not isinstance(version, bool):
        return store, locate(store, version)
    if isinstance(version, str):
        tag = read_tag(root, version)
        return _on_branch(root, tag.branch, tag.version)
    if isinstance(version, tuple) and len(version) == 2:
        return _on_branch(root, *version)
    raise InvalidArgumentError(
        f"{version!r} is not a version number, a tag, or (branch, version)", field="version"
    )


def _on_branch(root: Store, branch: str | None, number: int | None) -> tuple[Store, ManifestLocation]:
    store = branch_store(root, None if branch == MAIN else branch)
    try:
        return store, latest(store) if number is None else locate(store, number)
    except DatasetNotFoundError as error:
        if store is root:
            raise
        raise VersionNotFoundError(f"there is no branch {branch!r}", path=root.uri) from error


def main_root(store: Store, storage_options: Mapping[str, str] | None = None) -> Store:
    """Main root of the dataset that a store holds, or holds a branch of."""
    if f"/{BRANCH_TREES}/" not in store.uri:
        return store
    return root_of_branch(store, read_summary(store, latest(store)).branch, storage_options)


def root_of_branch(
    store: Store, branch: str | None, storage_options: Mapping[str, str] | None = None
) -> Store:
    """Main root of the dataset, given the store of one of its branches.

    Raises:
        InvalidArgumentError: The branch does not lie where branches lie.
    """
    uri = branch_root(store.uri, branch)
    return store if uri == store.uri else open_store(uri, storage_options)
