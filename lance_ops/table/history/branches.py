"""Branches: lines of versions of a dataset, each with a root of its own below `tree/` of the main root.

A ref file holds the name of a branch and its fork point. The files are compatible with pylance.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote, unquote

from lance_ops.errors import AlreadyExistsError, InvalidArgumentError, VersionNotFoundError
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there, unless_gone
from lance_ops.table.history.ref_file import SUFFIX, RefFile, listed_refs, load_ref, names_hint

BRANCHES_DIRECTORY = "_refs/branches"
BRANCH_TREES = "tree"
MAIN = "main"
"""Name of the default branch, which pylance reserves."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions that forked off another; its files lie in `tree/{name}/`.

    Attributes:
        name: The branch; segments are separated by "/".
        parent_branch: Branch that it forked off; None for main.
        parent_version: Version of the parent that it started from.
        created_at: When it was made; None when not recorded.
        manifest_size: Bytes of the manifest at the fork; 0 when not recorded.
        metadata: Strings of the user.
        lineage: (version, id) of each fork from main to this branch.
    """

    name: str
    parent_branch: str | None
    parent_version: int
    created_at: datetime | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    lineage: tuple[tuple[int, str], ...] = ()

    @property
    def directory(self) -> str:
        """Root of the branch, relative to the root of the dataset."""
        return f"{BRANCH_TREES}/{self.name}"


def check_branch_name(name: str) -> str:
    """Check the rules of pylance for branch names: segments of letters, digits, ".", "-", "_", joined by "/".

    Raises:
        InvalidArgumentError: The name breaks one.
    """
    if not all(re.fullmatch(r"[\w.-]+", segment) for segment in name.split("/")):
        reason = 'must consist of segments of letters, digits, ".", "-" and "_", separated by "/"'
    elif ".." in name or any(segment == "." for segment in name.split("/")):
        reason = "must not have a segment of dots"
    elif name.endswith(".lock"):
        reason = "must not end in .lock"
    elif name == MAIN:
        reason = "is reserved for the default branch"
    else:
        return name
    raise InvalidArgumentError(f"branch name {name!r} {reason}", field="branch")


def folders_below(directory: str, branches: Iterable[Branch]) -> tuple[str, ...]:
    """List folders of branches below the folder of another branch, relative to it.

    A branch may have the name of a folder with files of another one, such as `a/data/b` beside `a`.
    """
    lead = f"{directory}/"
    below = (branch.directory for branch in branches if branch.directory.startswith(lead))
    return tuple(sorted(path.removeprefix(lead) for path in below))


def branch_directory(branch: str | None) -> str:
    """Return the root of a branch, relative to the root of the dataset; "" for main (None).

    Raises:
        InvalidArgumentError: The name breaks a rule.
    """
    return "" if branch is None else f"{BRANCH_TREES}/{check_branch_name(branch)}"


def branch_store(root: Store, branch: str | None) -> Store:
    """Return the store of a branch, given that of the dataset."""
    directory = branch_directory(branch)
    return root.child(directory) if directory else root


def list_branches(root: Store) -> dict[str, Branch]:
    """List all branches of the dataset by name.

    Args:
        root: Main root of the dataset.

    Raises:
        CorruptManifestError: A branch file is damaged.
    """
    return {
        unquote(name): _decode_branch(unquote(name), record)
        for name, record in listed_refs(root, BRANCHES_DIRECTORY)
    }


def read_branch(root: Store, name: str) -> Branch:
    """Read a branch.

    Raises:
        VersionNotFoundError: There is no such branch.
        InvalidArgumentError: No branch can have this name.
        CorruptManifestError: The file that describes it is damaged.
    """
    path = branch_path(name)
    record = unless_gone(root, path, partial(load_ref, root, path))
    if record is None:
        known = names_hint(root, BRANCHES_DIRECTORY, "branch")
        raise VersionNotFoundError(f"there is no branch {name!r}", path=root.uri, hint=known)
    return _decode_branch(name, record)


def put_branch(root: Store, branch: Branch) -> None:
    """Write the ref file of a branch whose first version exists.

    Raises:
        AlreadyExistsError: There is a branch of this name.
    """
    path = branch_path(branch.name)
    taken = AlreadyExistsError(f"branch {branch.name!r} already exists", path=root.uri)
    if not root.supports_put_if_absent and is_there(root, path):
        raise taken
    data = _encode_branch(branch)
    try:
        root.put(path, data, if_absent=root.supports_put_if_absent)
    except AlreadyExistsError as error:
        found = unless_gone(root, path, partial(root.read, path))
        # Equal if the response to the first attempt was lost.
        if found is None or bytes(found) != data:
            raise taken from error


def remove_branch(root: Store, name: str) -> bool:
    """Remove the ref file of a branch, so that it is no longer found; return whether there was one."""
    path = branch_path(name)
    was_there = is_there(root, path)
    root.delete(path)
    return was_there


def branch_path(name: str) -> str:
    """Return the path of the ref file of a branch, relative to the main root."""
    return f"{BRANCHES_DIRECTORY}/{quote(check_branch_name(name), safe='')}{SUFFIX}"


def _decode_branch(name: str, record: RefFile) -> Branch:
    created = record.number("createAt", 0)
    try:
        created_at = datetime.fromtimestamp(created, UTC) if created else None
    except (OverflowError, ValueError, OSError) as error:
        raise record.damaged("createAt", created) from error
    return Branch(
        name=name,
        parent_branch=record.text("parentBranch"),
        parent_version=record.number("parentVersion"),
        created_at=created_at,
        manifest_size=record.number("manifestSize", 0),
        metadata=record.texts("metadata"),
        lineage=record.lineage(),
    )


def _encode_branch(branch: Branch) -> bytes:
    content = {
        "parentBranch": branch.parent_branch,
        "identifier": {"version_mapping": [list(fork) for fork in branch.lineage]},
        "parentVersion": branch.parent_version,
        "createAt": 0 if branch.created_at is None else int(branch.created_at.timestamp()),
        "manifestSize": branch.manifest_size,
        "metadata": dict(branch.metadata),
    }
    return json.dumps(content, indent=2, ensure_ascii=False).encode()
