"""Ref file: the small JSON object of a tag or a branch, below `_refs/` of the main root.

Tags: names for versions, which cleanup keeps; one ref file each. The files are compatible with pylance.

Branches: lines of versions of a dataset, each with a root of its own below `tree/` of the main root.

A ref file holds the name of a branch and its fork point. The files are compatible with pylance.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote, unquote

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptManifestError,
    InvalidArgumentError,
    LanceOpsError,
    VersionNotFoundError,
    check_type,
)
from lance_ops.storage import Store, is_temporary
from lance_ops.storage.retry import is_there, unless_gone
from lance_ops.table.by_name import ByName
from lance_ops.table.history.pins import pinned
from lance_ops.table.manifest.listing import locate, manifest_size

SUFFIX = ".json"

_LONGEST_NAME = 255
"""Maximum bytes of a file name on common file systems; datasets may be copied there from stores without
limit.
"""

_NAMED = 20
"""Maximum number of refs listed in an error."""
_PLURALS = {"tag": "tags", "branch": "branches"}

_FRACTION = re.compile(r"\.([0-9]{1,9})(?=Z|[+-])")


class RefFile:
    """Typed access to the JSON object of a ref file.

    Args:
        path: Of the file, for errors.
        values: The object.
    """

    def __init__(self, path: str, values: dict[str, object]) -> None:
        self.path = path
        self._values = values

    def number(self, key: str, default: int | None = None) -> int:
        """Return a non-negative number."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.damaged(key, value)
        return value

    def text(self, key: str) -> str | None:
        """Return a string; None when there is none."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.damaged(key, value)
        return value

    def time(self, key: str) -> datetime | None:
        """Return a timestamp; None when there is none."""
        text = self.text(key)
        if text is None:
            return None
        try:
            # pylance writes nanoseconds, which datetime does not parse.
            moment = datetime.fromisoformat(_FRACTION.sub(lambda match: f".{match[1]:0<6.6}", text))
        except ValueError as error:
            raise self.damaged(key, text) from error
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def texts(self, key: str) -> dict[str, str]:
        """Return a map of strings; empty when there is none."""
        value = self._values.get(key) or {}
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.damaged(key, value)
        return value

    def lineage(self) -> tuple[tuple[int, str], ...]:
        """Return the (version, id) of each fork; empty when there is none."""
        try:
            identifier = self._values.get("identifier") or {"version_mapping": []}
            return tuple((int(version), str(mark)) for version, mark in identifier["version_mapping"])  # type: ignore[index]
        except (TypeError, ValueError, KeyError) as error:
            raise self.damaged("identifier", self._values.get("identifier")) from error

    def damaged(self, key: str, value: object) -> CorruptManifestError:
        """Return the error for an invalid value."""
        return CorruptManifestError(f"{key} is {value!r}", path=self.path, field=key)


def check_ref_length(path: str, what: str, *, field: str) -> None:
    """Refuse a name that is too long for a file, before anything is created for it.

    Args:
        path: Of the ref file.
        what: Kind of ref, for the message.
        field: Argument with the name.

    Raises:
        InvalidArgumentError: It is too long.
    """
    size = len(path.rpartition("/")[2].encode())
    if size > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"the name of the {what} is too long: its file name would have {size} bytes, and file "
            f"systems allow {_LONGEST_NAME}",
            field=field,
        )


def load_ref(root: Store, path: str) -> RefFile:
    """Read a ref.

    Raises:
        CorruptManifestError: It is not a JSON object.
        FileMissingError: There is none.
    """
    full = f"{root.uri}/{path}"
    try:
        values = json.loads(bytes(root.read(path)))
    except (ValueError, RecursionError) as error:
        raise CorruptManifestError(f"not valid JSON: {error}", path=full) from error
    if not isinstance(values, dict):
        raise CorruptManifestError("not a JSON object", path=full)
    return RefFile(full, values)


def listed_refs(root: Store, directory: str) -> Iterator[tuple[str, RefFile]]:
    """Read the refs in a folder: name as spelled by the file, and content.

    A ref that is removed after the listing is left out.

    Raises:
        CorruptManifestError: A ref is not a JSON object.
        InconsistentStoreError: A ref is listed and is not found.
    """
    for name, path in ref_files(root, directory):
        found = unless_gone(root, path, partial(load_ref, root, path))
        if found is not None:
            yield name, found


def ref_files(root: Store, directory: str) -> Iterator[tuple[str, str]]:
    """List the refs in a folder: name as spelled by the file, and path."""
    for info in root.list(directory):
        name = info.path.removeprefix(f"{directory}/")
        if name.endswith(SUFFIX) and "/" not in name and not is_temporary(name):
            yield name.removesuffix(SUFFIX), info.path


def names_hint(root: Store, directory: str, what: str) -> str:
    """Return a hint that lists existing refs, for an error about a missing one.

    Args:
        root: Main root of the dataset.
        directory: Of the refs.
        what: Kind of ref.
    """
    try:
        names = sorted(unquote(name) for name, _ in ref_files(root, directory))
    except LanceOpsError:
        return f"its {_PLURALS[what]} cannot be listed"
    if not names:
        return f"the dataset has no {_PLURALS[what]}"
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"its {_PLURALS[what]}: {', '.join(names[:_NAMED])}{more}"


def time_text(moment: datetime | None) -> str | None:
    """Format a timestamp as pylance does; None stays None."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


BRANCHES_DIRECTORY = "_refs/branches"
BRANCH_TREES = "tree"
MAIN = "main"
"""Name of the default branch, which pylance reserves."""


@dataclass(frozen=True, slots=True)
class Branch(ByName):
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


TAGS_DIRECTORY = "_refs/tags"


@dataclass(frozen=True, slots=True)
class Tag(ByName):
    """A name for one version, which cleanup keeps.

    Attributes:
        name: The tag.
        version: The named version.
        branch: Branch of the version; None for main.
        created_at: Creation time; None when not recorded.
        updated_at: Time of the last move; None when not recorded.
        manifest_size: Bytes of the version's manifest; 0 when not recorded.
        metadata: Strings of the user.
    """

    name: str
    version: int
    branch: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


def check_tag_name(name: str) -> str:
    """Check the rules of pylance for tag names: letters and digits of any script, ".", "-", "_".

    Raises:
        InvalidArgumentError: The name breaks one.
    """
    check_type(name, str, "the name of a tag", field="name")
    if not name:
        reason = "must not be empty"
    elif not all(char.isalnum() or char in ".-_" for char in name):
        reason = 'must not have characters other than letters, digits, ".", "-" and "_"'
    elif name.startswith(".") or name.endswith("."):
        reason = "must not begin or end with a dot"
    elif ".." in name:
        reason = "must not have two dots in a row"
    elif name.endswith(".lock"):
        reason = "must not end in .lock"
    else:
        return name
    raise InvalidArgumentError(f"tag name {name!r} {reason}", field="name")


def list_tags(root: Store) -> dict[str, Tag]:
    """List all tags of the dataset, on any branch, by name.

    Args:
        root: Main root of the dataset.

    Raises:
        CorruptManifestError: A tag file is damaged.
    """
    return {name: _decode_tag(name, record) for name, record in listed_refs(root, TAGS_DIRECTORY)}


def read_tag(root: Store, name: str) -> Tag:
    """Read a tag.

    Raises:
        VersionNotFoundError: There is no such tag.
        InvalidArgumentError: No tag can have this name.
        CorruptManifestError: The tag file is damaged.
    """
    path = _tag_path(name)
    record = unless_gone(root, path, partial(load_ref, root, path))
    if record is None:
        raise _no_tag(root, name)
    return _decode_tag(name, record)


def create_tag(
    root: Store,
    name: str,
    version: int,
    *,
    branch: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Tag:
    """Create a tag.

    Args:
        root: Main root of the dataset.
        name: See `check_tag_name`.
        version: Version to name; it must exist.
        branch: Branch of the version; None for main.
        metadata: Strings of the user.

    Raises:
        AlreadyExistsError: The tag exists; use `update_tag` to move it.
        VersionNotFoundError: The branch has no such version.
        RetryableCommitConflictError: A cleanup is removing the version.
        InvalidArgumentError: The name breaks a rule, or no file could have it.
    """
    path = _tag_path(name)
    check_ref_length(path, "tag", field="name")
    store = branch_store(root, branch)
    taken = AlreadyExistsError(f"tag {name!r} already exists", path=root.uri, hint="move it with move_tag()")
    with pinned(store, version, f"tag {name}"):
        now = datetime.now(UTC)
        tag = Tag(name, version, branch, now, now, manifest_size(store, version), dict(metadata or {}))
        if not root.supports_put_if_absent and is_there(root, path):
            raise taken
        with _taken_back(root, tag, before=None):
            try:
                root.put(path, _encode_tag(tag), if_absent=root.supports_put_if_absent)
            except AlreadyExistsError as error:
                if _content(root, path) != _encode_tag(tag):
                    raise taken from error
                # The response to the first attempt was lost.
            locate(store, version)
    return tag


def update_tag(root: Store, name: str, version: int, *, branch: str | None = None) -> Tag:
    """Move a tag to another version; its metadata stay.

    Raises:
        VersionNotFoundError: There is no such tag, or no such version.
        RetryableCommitConflictError: A cleanup is removing the version.
    """
    old = read_tag(root, name)
    store = branch_store(root, branch)
    with pinned(store, version, f"tag {name}"):
        size = manifest_size(store, version)
        tag = Tag(name, version, branch, old.created_at, datetime.now(UTC), size, old.metadata)
        with _taken_back(root, tag, before=old):
            root.put(_tag_path(name), _encode_tag(tag))
            locate(store, version)
    return tag


@contextlib.contextmanager
def _taken_back(root: Store, tag: Tag, before: Tag | None) -> Iterator[None]:
    """Write a tag, and verify that its version still exists: other libraries' cleanups ignore pins.

    If not, the tag is restored as it was before, as far as the store allows.
    """
    path = _tag_path(tag.name)
    try:
        yield
    except BaseException:
        with contextlib.suppress(LanceOpsError):
            if _content(root, path) == _encode_tag(tag):
                if before is None:
                    root.delete(path)
                else:
                    root.put(path, _encode_tag(before))
        raise


def _content(root: Store, path: str) -> bytes | None:
    data = unless_gone(root, path, partial(root.read, path))
    return None if data is None else bytes(data)


def delete_tag(root: Store, name: str) -> None:
    """Remove a tag; the version stays until cleanup.

    Raises:
        VersionNotFoundError: There is no such tag.
    """
    path = _tag_path(name)
    if not is_there(root, path):
        raise _no_tag(root, name)
    root.delete(path)


def _no_tag(root: Store, name: str) -> VersionNotFoundError:
    known = names_hint(root, TAGS_DIRECTORY, "tag")
    return VersionNotFoundError(f"there is no tag {name!r}", path=root.uri, hint=known)


def _tag_path(name: str) -> str:
    return f"{TAGS_DIRECTORY}/{check_tag_name(name)}{SUFFIX}"


def _decode_tag(name: str, record: RefFile) -> Tag:
    return Tag(
        name=name,
        version=record.number("version"),
        branch=record.text("branch"),
        created_at=record.time("createdAt"),
        updated_at=record.time("updatedAt"),
        manifest_size=record.number("manifestSize", 0),
        metadata=record.texts("metadata"),
    )


def _encode_tag(tag: Tag) -> bytes:
    content = {
        "branch": tag.branch,
        "version": tag.version,
        "createdAt": time_text(tag.created_at),
        "updatedAt": time_text(tag.updated_at),
        "manifestSize": tag.manifest_size,
        "metadata": dict(tag.metadata),
    }
    return json.dumps(content, indent=2, ensure_ascii=False).encode()
