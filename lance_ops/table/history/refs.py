"""Tags and branches: small JSON files below `_refs/` of the dataset's main root.

Tags may be created, moved and deleted here; branches are read. The files are what the peer writes.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptManifestError,
    FileMissingError,
    InvalidArgumentError,
    LanceOpsError,
    VersionNotFoundError,
    check_type,
)
from lance_ops.storage import Store, is_temporary
from lance_ops.table.history.pins import pinned
from lance_ops.table.manifest.listing import locate

TAGS_DIRECTORY = "_refs/tags"
BRANCHES_DIRECTORY = "_refs/branches"
BRANCH_TREES = "tree"
MAIN = "main"
"""Name of the branch that has none: the peer reserves it."""

_SUFFIX = ".json"
_FRACTION = re.compile(r"\.([0-9]{1,9})(?=Z|[+-])")


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one version, which cleanup keeps.

    Attributes:
        name: The tag.
        version: Version that it names.
        branch: Branch of the version; None for main.
        created_at: When it was made; None when not recorded.
        updated_at: When it was last moved; None when not recorded.
        manifest_size: Bytes of the version's manifest; 0 when not recorded.
        metadata: Notes.
    """

    name: str
    version: int
    branch: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions that forked off another; its files lie in `tree/{name}/`.

    Attributes:
        name: The branch; segments are separated by "/".
        parent_branch: Branch that it forked off; None for main.
        parent_version: Version of the parent that it started from.
        created_at: When it was made; None when not recorded.
        manifest_size: Bytes of the manifest at the fork; 0 when not recorded.
        metadata: Notes.
        lineage: (version, id) of each fork on the way from main to this branch.
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


def check_tag_name(name: str) -> str:
    """Apply the peer's rules for tags: letters and digits of any script, ".", "-", "_".

    Raises:
        InvalidArgumentError: The name breaks one.
    """
    check_type(name, str, "the name of a tag", field="name")
    if not name:
        reason = "is empty"
    elif not all(char.isalnum() or char in ".-_" for char in name):
        reason = 'has a character other than letters, digits, ".", "-" and "_"'
    elif name.startswith(".") or name.endswith("."):
        reason = "begins or ends with a dot"
    elif ".." in name:
        reason = "has two dots in a row"
    elif name.endswith(".lock"):
        reason = "ends in .lock"
    else:
        return name
    raise InvalidArgumentError(f"the tag name {name!r} {reason}", field="name")


def check_branch_name(name: str) -> str:
    """Apply the peer's rules for branches: segments of letters, digits, ".", "-", "_", joined by "/".

    Raises:
        InvalidArgumentError: The name breaks one.
    """
    if not all(re.fullmatch(r"[\w.-]+", segment) for segment in name.split("/")):
        reason = 'needs segments of letters, digits, ".", "-" and "_", separated by "/"'
    elif ".." in name or any(segment == "." for segment in name.split("/")):
        reason = "has a segment of dots"
    elif name.endswith(".lock"):
        reason = "ends in .lock"
    elif name == MAIN:
        reason = "is the name of the default branch"
    else:
        return name
    raise InvalidArgumentError(f"the branch name {name!r} {reason}", field="branch")


def branch_directory(branch: str | None) -> str:
    """Root of a branch, relative to the root of the dataset; "" for main (None).

    Raises:
        InvalidArgumentError: The name breaks a rule, so that it cannot name a branch.
    """
    return "" if branch is None else f"{BRANCH_TREES}/{check_branch_name(branch)}"


def branch_store(root: Store, branch: str | None) -> Store:
    """The store of a branch, given that of the dataset."""
    directory = branch_directory(branch)
    return root.child(directory) if directory else root


def list_tags(root: Store) -> dict[str, Tag]:
    """All tags of the dataset, on any branch, by name.

    Args:
        root: Main root of the dataset.

    Raises:
        CorruptManifestError: A tag file is damaged.
    """
    return {name: _decode_tag(name, _load(root, path)) for name, path in _files(root, TAGS_DIRECTORY)}


def read_tag(root: Store, name: str) -> Tag:
    """One tag.

    Raises:
        VersionNotFoundError: There is no such tag.
        InvalidArgumentError: No tag can have this name.
        CorruptManifestError: The tag file is damaged.
    """
    path = _tag_path(name)
    try:
        return _decode_tag(name, _load(root, path))
    except FileMissingError as error:
        raise VersionNotFoundError(f"there is no tag {name!r}", path=root.uri) from error


def create_tag(
    root: Store,
    name: str,
    version: int,
    *,
    branch: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Tag:
    """Name a version.

    Args:
        root: Main root of the dataset.
        name: See `check_tag_name`.
        version: Must exist.
        branch: Branch of the version; None for main.
        metadata: Notes.

    Raises:
        AlreadyExistsError: The tag exists; use `update_tag` to move it.
        VersionNotFoundError: The branch has no such version.
        RetryableCommitConflictError: A cleanup is removing the version.
        InvalidArgumentError: The name breaks a rule.
    """
    path = _tag_path(name)
    store = branch_store(root, branch)
    taken = AlreadyExistsError(f"the tag {name!r} exists", path=root.uri, hint="update the tag to move it")
    with pinned(store, version, f"tag {name}"):
        now = datetime.now(UTC)
        tag = Tag(name, version, branch, now, now, _manifest_size(store, version), dict(metadata or {}))
        if not root.supports_put_if_absent and root.exists(path):
            raise taken
        try:
            root.put(path, _encode_tag(tag), if_absent=root.supports_put_if_absent)
        except AlreadyExistsError as error:
            raise taken from error
        _confirm(root, store, tag, before=None)
    return tag


def update_tag(root: Store, name: str, version: int, *, branch: str | None = None) -> Tag:
    """Move a tag to another version; its notes stay.

    Raises:
        VersionNotFoundError: There is no such tag, or no such version.
        RetryableCommitConflictError: A cleanup is removing the version.
    """
    old = read_tag(root, name)
    store = branch_store(root, branch)
    with pinned(store, version, f"tag {name}"):
        size = _manifest_size(store, version)
        tag = Tag(name, version, branch, old.created_at, datetime.now(UTC), size, old.metadata)
        root.put(_tag_path(name), _encode_tag(tag))
        _confirm(root, store, tag, before=old)
    return tag


def _confirm(root: Store, store: Store, tag: Tag, before: Tag | None) -> None:
    """See that the version of a tag is there now that the tag is: a foreign cleanup knows no pins.

    Raises:
        VersionNotFoundError: It is gone; the tag is as it was before.
    """
    try:
        locate(store, tag.version)
    except VersionNotFoundError:
        path = _tag_path(tag.name)
        with contextlib.suppress(LanceOpsError):
            if bytes(root.read(path)) == _encode_tag(tag):
                if before is None:
                    root.delete(path)
                else:
                    root.put(path, _encode_tag(before))
        raise


def delete_tag(root: Store, name: str) -> None:
    """Remove a tag; the version stays until cleanup.

    Raises:
        VersionNotFoundError: There is no such tag.
    """
    path = _tag_path(name)
    if not root.exists(path):
        raise VersionNotFoundError(f"there is no tag {name!r}", path=root.uri)
    root.delete(path)


def list_branches(root: Store) -> dict[str, Branch]:
    """All branches of the dataset by name.

    Args:
        root: Main root of the dataset.

    Raises:
        CorruptManifestError: A branch file is damaged.
    """
    return {
        unquote(name): _decode_branch(unquote(name), _load(root, path))
        for name, path in _files(root, BRANCHES_DIRECTORY)
    }


def _tag_path(name: str) -> str:
    return f"{TAGS_DIRECTORY}/{check_tag_name(name)}{_SUFFIX}"


def branch_path(name: str) -> str:
    """Path of the file that describes a branch, relative to the main root."""
    return f"{BRANCHES_DIRECTORY}/{quote(check_branch_name(name), safe='')}{_SUFFIX}"


def _files(root: Store, directory: str) -> Iterator[tuple[str, str]]:
    for info in root.list(directory):
        name = info.path.removeprefix(f"{directory}/")
        if name.endswith(_SUFFIX) and "/" not in name and not is_temporary(name):
            yield name.removesuffix(_SUFFIX), info.path


def _manifest_size(store: Store, version: int) -> int:
    return store.size(locate(store, version).path)


class _Record:
    """Typed access to the JSON object of a file."""

    def __init__(self, path: str, values: dict[str, object]) -> None:
        self.path = path
        self._values = values

    def number(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.damaged(key, value)
        return value

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.damaged(key, value)
        return value

    def time(self, key: str) -> datetime | None:
        text = self.text(key)
        if text is None:
            return None
        try:
            # The peer writes nanoseconds, which datetime does not parse.
            moment = datetime.fromisoformat(_FRACTION.sub(lambda match: f".{match[1]:0<6.6}", text))
        except ValueError as error:
            raise self.damaged(key, text) from error
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def texts(self, key: str) -> dict[str, str]:
        value = self._values.get(key) or {}
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.damaged(key, value)
        return value

    def lineage(self) -> tuple[tuple[int, str], ...]:
        try:
            identifier = self._values.get("identifier") or {"version_mapping": []}
            return tuple((int(version), str(mark)) for version, mark in identifier["version_mapping"])  # type: ignore[index]
        except (TypeError, ValueError, KeyError) as error:
            raise self.damaged("identifier", self._values.get("identifier")) from error

    def damaged(self, key: str, value: object) -> CorruptManifestError:
        return CorruptManifestError(f"{key} is {value!r}", path=self.path, field=key)


def _load(root: Store, path: str) -> _Record:
    full = f"{root.uri}/{path}"
    try:
        values = json.loads(bytes(root.read(path)))
    except (ValueError, RecursionError) as error:
        raise CorruptManifestError(f"not a JSON file: {error}", path=full) from error
    if not isinstance(values, dict):
        raise CorruptManifestError("not a JSON object", path=full)
    return _Record(full, values)


def _decode_tag(name: str, record: _Record) -> Tag:
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
        "createdAt": _time_text(tag.created_at),
        "updatedAt": _time_text(tag.updated_at),
        "manifestSize": tag.manifest_size,
        "metadata": dict(tag.metadata),
    }
    return json.dumps(content, indent=2, ensure_ascii=False).encode()


def _time_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _decode_branch(name: str, record: _Record) -> Branch:
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
