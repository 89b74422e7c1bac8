"""Pins and removals: how whoever needs an old version and the cleanup that removes it notice each other.

Who is about to make something that names an old version (a restore, a tag, a clone) writes a pin first and
looks for announced removals, then for the version, afterwards. A cleanup announces which versions it is about
to remove first, and looks for pins and tags afterwards. Each writes before it looks, so at least one of the
two sees the other (Dekker's argument; it needs a store that shows what was written, as all do):

- A pin that is there when the cleanup looks spares its version. One that is gone by then was taken away after
  the tag or the restored version had been written. The cleanup looks for tags after it looked for pins, and
  for newer versions after it removed manifests and before it removes files, so it sees these.
- A pin that is written later finds the announcement. When that is gone as well, the cleanup has finished, and
  the version, which is looked for last, is gone or was spared.

An announcement stays behind when a cleanup is killed. It keeps the versions that it names from being pinned,
and tells the next cleanup which files it had proven to be of no use, so that these do not wait for the grace
period of files that nobody used yet. A pin left behind by a killed process counts for `PIN_LIFETIME`.

Both are small files in a folder that the format does not know; the official library leaves it alone, and does
not heed it either.
"""

import contextlib
import json
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    CorruptManifestError,
    LanceOpsError,
    RetryableCommitConflictError,
)
from lance_ops.storage import Store, is_temporary
from lance_ops.storage.retry import unless_gone
from lance_ops.table.manifest.listing import locate

PINS_DIRECTORY = "_lance_ops/pins"
REMOVALS_DIRECTORY = "_lance_ops/removals"

PIN_LIFETIME = timedelta(days=7)
"""How long something that was begun counts as under way; as long as files that no version uses yet do."""

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that somebody is about to name."""

    path: str
    version: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class Removal:
    """What a cleanup has announced to remove.

    Attributes:
        path: The announcement.
        versions: Versions whose manifests go.
        files: Files that only these and versions removed before them use, relative to the dataset root.
        modified: When it was written, by the store's clock.
        left_over: The files are of use to nobody only while the newest version is the one that the cleanup
            was planned for: what it did not remove, another has to prove again.
    """

    path: str
    versions: frozenset[int]
    files: frozenset[str]
    modified: datetime
    left_over: bool = False


@contextlib.contextmanager
def pinned(store: Store, version: int, what: str) -> Iterator[None]:
    """Keep a version and its files from cleanups while something that names it is made.

    Args:
        store: Root of the dataset, or of the branch that has the version.
        version: The version.
        what: What is made, for errors and for people who find the pin.

    Raises:
        RetryableCommitConflictError: A cleanup is about to remove the version.
        VersionNotFoundError: There is no such version.
    """
    # Where there is no such version, or no dataset at all, nothing is written.
    locate(store, version)
    path = f"{PINS_DIRECTORY}/{version}-{uuid.uuid4().hex}{_SUFFIX}"
    content = {"version": version, "for": what, "createdAt": datetime.now(UTC).isoformat()}
    try:
        store.put(path, json.dumps(content).encode())
        _refuse_announced(store, version, what)
        locate(store, version)
        yield
    except CommitOutcomeUnknownError:
        # What needs the version may still appear.
        raise
    except LanceOpsError:
        _unpin(store, path)
        raise
    _unpin(store, path)


def list_pins(store: Store) -> list[Pin]:
    """All pins, whatever their age."""
    pins: list[Pin] = []
    for info in store.list(PINS_DIRECTORY):
        number = info.path.removeprefix(f"{PINS_DIRECTORY}/").partition("-")[0]
        if number.isascii() and number.isdigit() and info.path.endswith(_SUFFIX):
            pins.append(Pin(info.path, int(number), info.modified))
    return pins


def removal_path() -> str:
    """Where to announce a removal."""
    return f"{REMOVALS_DIRECTORY}/{uuid.uuid4().hex}{_SUFFIX}"


def announce_removal(
    store: Store, path: str, versions: Collection[int], files: Collection[str], *, left_over: bool = False
) -> bool:
    """Say which versions and files are about to go, in place of what was announced at the path before.

    Args:
        store: Root of the dataset.
        path: See `removal_path`.
        versions: See `Removal`.
        files: See `Removal`.
        left_over: See `Removal`.
    """
    content: dict[str, object] = {"versions": sorted(versions), "files": sorted(files)}
    if left_over:
        content["leftOver"] = True
    store.put(path, json.dumps(content, separators=(",", ":")).encode())
    return True


def list_removals(store: Store) -> list[Removal]:
    """All announced removals, also those of cleanups that were killed.

    Raises:
        CorruptManifestError: An announcement cannot be read.
        InconsistentStoreError: An announcement is listed and is not found.
    """
    removals: list[Removal] = []
    for info in store.list(REMOVALS_DIRECTORY):
        if not info.path.endswith(_SUFFIX) or is_temporary(info.path):
            continue
        data = unless_gone(store, info.path, partial(store.read, info.path))
        # One that is gone by now belongs to a cleanup that has finished meanwhile.
        if data is not None:
            versions, files, left_over = _decode(bytes(data), f"{store.uri}/{info.path}")
            removals.append(Removal(info.path, versions, files, info.modified, left_over))
    return removals


def _decode(data: bytes, path: str) -> tuple[frozenset[int], frozenset[str], bool]:
    try:
        content = json.loads(data)
        versions, files = frozenset(content["versions"]), frozenset(content["files"])
        left_over = content.get("leftOver") is True
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path) from error
    if not all(type(version) is int for version in versions) or not all(type(file) is str for file in files):
        raise _damaged(path)
    return versions, files, left_over


def _damaged(path: str) -> CorruptManifestError:
    return CorruptManifestError(
        "what a cleanup announced to remove cannot be read",
        path=path,
        hint="remove this file when no cleanup runs, and run the cleanup again",
    )


def _refuse_announced(store: Store, version: int, what: str) -> None:
    for removal in list_removals(store):
        if version in removal.versions:
            raise RetryableCommitConflictError(
                f"a cleanup is removing version {version}",
                ours=what,
                theirs=f"cleanup announced at {removal.modified:%Y-%m-%d %H:%M:%S} UTC",
                version=version,
                path=f"{store.uri}/{removal.path}",
                hint="name a version that stays; if that cleanup was killed, run it again, which ends it",
            )


def _unpin(store: Store, path: str) -> None:
    # One that cannot be removed keeps the version for a while longer, which does no harm.
    with contextlib.suppress(LanceOpsError):
        store.delete(path)
