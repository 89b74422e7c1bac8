"""Fsck of references: tags and branches name existing versions."""

from collections.abc import Iterator

from lance_ops.errors import DatasetNotFoundError, InvalidArgumentError, VersionNotFoundError
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.refs import branch_path, branch_store, list_branches, list_tags
from lance_ops.table.manifest.listing import list_versions, locate

CHECK = "refs_valid"


def check_refs(dataset: Dataset) -> Iterator[Finding]:
    """Check that every tag names an existing version, and every branch has versions and a parent."""
    root = dataset.root
    versions: dict[str | None, frozenset[int]] = {}
    branches = list_branches(root)
    for name, tag in list_tags(root).items():
        if tag.branch not in versions:
            versions[tag.branch] = _versions(root, tag.branch)
        if tag.version in versions[tag.branch] or _is_there(root, tag.branch, tag.version):
            continue
        where = "" if tag.branch is None else f" of branch {tag.branch!r}"
        message = (
            f"tag {name!r} names version {tag.version}{where}, which is missing: restore its manifest file, "
            "or delete the tag"
        )
        yield Finding(CHECK, Severity.ERROR, message)
    for name, branch in branches.items():
        if name not in versions:
            versions[name] = _versions(root, name)
        if not versions[name]:
            message = f"branch {name!r} has no versions: restore them, or delete the branch"
            yield Finding(CHECK, Severity.ERROR, message, branch_path(name))
        if branch.parent_branch is not None and branch.parent_branch not in branches:
            message = (
                f"branch {name!r} started at branch {branch.parent_branch!r}, which is missing: files of "
                "the parent may be missing, too; check the branch itself"
            )
            yield Finding(CHECK, Severity.WARNING, message, branch_path(name))


def _versions(root: Store, branch: str | None) -> frozenset[int]:
    try:
        return frozenset(location.version for location in list_versions(branch_store(root, branch)))
    except InvalidArgumentError:
        # No branch can have this name.
        return frozenset()


def _is_there(root: Store, branch: str | None, version: int) -> bool:
    # It may be detached, or newer than the listing.
    try:
        locate(branch_store(root, branch), version)
    except (VersionNotFoundError, DatasetNotFoundError, InvalidArgumentError):
        return False
    return True
