"""Version resolution: find the store and the manifest for a number, a tag or a branch."""

from collections.abc import Mapping
from datetime import UTC, datetime

from lance_ops.errors import DatasetNotFoundError, InvalidArgumentError, VersionNotFoundError, check_type
from lance_ops.storage import Store, open_store
from lance_ops.table.history.refs import (
    BRANCH_TREES,
    BRANCHES_DIRECTORY,
    MAIN,
    branch_store,
    names_hint,
    read_tag,
)
from lance_ops.table.manifest.base_paths import branch_root
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import ManifestLocation, latest, list_versions, locate

VersionSpec = int | str | tuple[str | None, int | None]
"""A version number, the name of a tag, or (branch, version); None in the pair means main, or the newest."""


def find_version(store: Store, root: Store, version: VersionSpec | None) -> tuple[Store, ManifestLocation]:
    """Find the store and the manifest of a version.

    Args:
        store: The opened store; version numbers refer to it.
        root: Main root of the dataset; tags and branches are found there.
        version: The newest of `store` when None.

    Raises:
        DatasetNotFoundError: There is no dataset.
        VersionNotFoundError: There is no such version, tag or branch.
        InvalidArgumentError: It is not a number, tag or pair.
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


def find_version_as_of(store: Store, moment: datetime | str) -> ManifestLocation:
    """Find the newest version that was made at or before a timestamp.

    Args:
        store: Root of the dataset, or of a branch.
        moment: Local time if it has no time zone; strings are ISO 8601.

    Raises:
        VersionNotFoundError: All existing versions are newer.
        InvalidArgumentError: It is not a timestamp.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise InvalidArgumentError(f"{moment!r} is not a timestamp: {error}", field="asof") from error
    check_type(moment, datetime, "a timestamp", field="asof")
    limit = moment.astimezone(UTC)
    # One by one: the version is usually the newest, or close to it.
    for location in reversed(list_versions(store)):
        if read_summary(store, location).timestamp <= limit:
            return location
    latest(store)
    raise VersionNotFoundError(
        f"all existing versions are newer than {limit.isoformat()}", path=store.uri, field="asof"
    )


def _on_branch(root: Store, branch: str | None, number: int | None) -> tuple[Store, ManifestLocation]:
    store = branch_store(root, None if branch == MAIN else branch)
    try:
        return store, latest(store) if number is None else locate(store, number)
    except DatasetNotFoundError as error:
        if store is root:
            raise
        known = names_hint(root, BRANCHES_DIRECTORY, "branch")
        raise VersionNotFoundError(f"there is no branch {branch!r}", path=root.uri, hint=known) from error


def main_root(store: Store, storage_options: Mapping[str, str] | None = None) -> Store:
    """Return the main root of the dataset that a store holds, or holds a branch of."""
    if f"/{BRANCH_TREES}/" not in store.uri:
        return store
    return root_of_branch(store, read_summary(store, latest(store)).branch, storage_options)


def root_of_branch(
    store: Store, branch: str | None, storage_options: Mapping[str, str] | None = None
) -> Store:
    """Return the main root of the dataset, given the store of one of its branches.

    Raises:
        InvalidArgumentError: The branch is not where branches are stored.
    """
    uri = branch_root(store.uri, branch)
    return store if uri == store.uri else open_store(uri, storage_options)
