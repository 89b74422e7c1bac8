"""Tags: names for versions, which cleanup keeps; one ref file each. The files are compatible with pylance."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from lance_ops.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    LanceOpsError,
    VersionNotFoundError,
    check_type,
)
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there, unless_gone
from lance_ops.table.history.branches import branch_store
from lance_ops.table.history.pins import pinned
from lance_ops.table.history.ref_file import (
    SUFFIX,
    RefFile,
    check_ref_length,
    listed_refs,
    load_ref,
    names_hint,
    time_text,
)
from lance_ops.table.manifest.listing import locate, manifest_size

TAGS_DIRECTORY = "_refs/tags"


@dataclass(frozen=True, slots=True)
class Tag:
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
    taken = AlreadyExistsError(
        f"tag {name!r} already exists", path=root.uri, hint="use update_tag to move it"
    )
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
