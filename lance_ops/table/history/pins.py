"""Pins and removals: mutual exclusion between users of an old version and the cleanup that removes it.

An operation that will name an old version (a restore, a tag, a clone) writes a pin first, then checks for
announced removals, then for the version. A cleanup announces the versions to remove first, and checks for
pins and tags afterwards. Each writes before it reads, so at least one of the two sees the other (Dekker's
argument; it needs a store with read-after-write consistency, as all have):

- A pin that exists when the cleanup checks keeps its version. One that was already removed was removed after
the tag or the restored version had been written. The cleanup reads tags after pins, and newer versions after
it removed manifests and before it removes files, so it sees these. - A pin that is written later finds the
announcement. If that was removed as well, the cleanup has finished, and the version, which is read last, is
gone or was kept.

An announcement remains when a cleanup is killed. It prevents pins on the versions that it names, and lists
for the next cleanup the files proven to be unused, so that these do not wait for the grace period of files
that no version used yet. A pin left behind by a killed process counts for `PIN_LIFETIME`.

Both are small files in a folder that is not part of the format; the official library neither removes nor
reads it.
"""

import contextlib
import json
import re
import time
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self

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
"""Time for which a started operation counts as in progress; equal to that of files that no version uses yet.
"""

_SUFFIX = ".json"
# "VERSION-UUID.json" of an operation, "VERSION-UUID-SECONDSs.json" of a lease.
_NAME = re.compile(r"([0-9]{1,20})-.*?(?:-([0-9]{1,9})s)?\.json", re.ASCII)
_REFRESHES = 4
"""Refreshes of a lease in its lifetime."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that an operation is about to name, or that a job reads.

    Attributes:
        path: The file.
        version: The version.
        modified: When it was written or refreshed, by the store's clock.
        lifetime: Time after `modified` for which it counts.
    """

    path: str
    version: int
    modified: datetime
    lifetime: timedelta = PIN_LIFETIME

    def is_alive(self, now: datetime) -> bool:
        """Return whether it protects its version."""
        return now - self.modified < self.lifetime


@dataclass(frozen=True, slots=True)
class Removal:
    """An announced removal of a cleanup.

    Attributes:
        path: The announcement.
        versions: Versions whose manifests are removed.
        files: Files that only these and versions removed before them use, relative to the dataset root.
        modified: When it was written, by the store's clock.
        left_over: The files are unused only while the newest version is the one that the cleanup was planned
            for: another cleanup has to prove the remaining ones again.
    """

    path: str
    versions: frozenset[int]
    files: frozenset[str]
    modified: datetime
    left_over: bool = False


@contextlib.contextmanager
def pinned(store: Store, version: int, what: str) -> Iterator[None]:
    """Protect a version and its files from cleanups while an operation that names it runs.

    Args:
        store: Root of the dataset, or of the branch that has the version.
        version: The version.
        what: The operation, for errors and for people who find the pin.

    Raises:
        RetryableCommitConflictError: A cleanup is about to remove the version.
        VersionNotFoundError: There is no such version.
    """
    # Without such a version, or any dataset, nothing is written.
    locate(store, version)
    path = f"{PINS_DIRECTORY}/{version}-{uuid.uuid4().hex}{_SUFFIX}"
    content = {"version": version, "for": what, "createdAt": datetime.now(UTC).isoformat()}
    try:
        store.put(path, json.dumps(content).encode())
        _refuse_announced(store, version, what)
        locate(store, version)
        yield
    except CommitOutcomeUnknownError:
        # The commit that needs the version may still appear.
        raise
    except LanceOpsError:
        _unpin(store, path)
        raise
    _unpin(store, path)


@contextlib.contextmanager
def pinned_unnamed(store: Store, versions: Collection[int], what: str) -> Iterator[frozenset[int]]:
    """Protect versions without a manifest in its place, and their files, from cleanups; see `pinned`.

    Args:
        store: Root of the dataset.
        versions: The versions.
        what: The operation, for people who find the pins.

    Yields:
        Those of them that no cleanup is about to remove.
    """
    paths = [f"{PINS_DIRECTORY}/{version}-{uuid.uuid4().hex}{_SUFFIX}" for version in versions]
    now = datetime.now(UTC).isoformat()
    try:
        for version, path in zip(versions, paths, strict=True):
            store.put(path, json.dumps({"version": version, "for": what, "createdAt": now}).encode())
        announced = frozenset().union(*(removal.versions for removal in list_removals(store)))
        yield frozenset(versions) - announced
    finally:
        for path in paths:
            _unpin(store, path)


class VersionLease:
    """Lease of a version for a job that reads it: a pin with a short lifetime, refreshed in a `with` block.

    A lease that was not refreshed for its lifetime, because the process died or could not reach the store, no
    longer protects the version. Cleanups of earlier releases take it for a pin of `PIN_LIFETIME`.

    Args:
        store: Root of the dataset, or of the branch that has the version.
        version: The version.
        what: The job, for errors and for people who find the lease.
        lifetime: How long it protects the version after the last refresh.

    Raises:
        RetryableCommitConflictError: A cleanup is about to remove the version.
        VersionNotFoundError: There is no such version.
    """

    def __init__(self, store: Store, version: int, what: str, lifetime: timedelta) -> None:
        self._store = store
        self.version = version
        self._what = what
        self._lifetime = lifetime
        seconds = int(lifetime.total_seconds())
        self._path = f"{PINS_DIRECTORY}/{version}-{uuid.uuid4().hex}-{seconds}s{_SUFFIX}"
        self._refreshed = 0.0
        self._heartbeat: Any = None

    def __enter__(self) -> Self:
        locate(self._store, self.version)
        try:
            self._put()
            _refuse_announced(self._store, self.version, self._what)
            locate(self._store, self.version)
        except BaseException:
            _unpin(self._store, self._path)
            raise
        # Few commands hold a version.
        from lance_ops.storage.lease import Heartbeat

        self._heartbeat = Heartbeat(self._beat)
        return self

    def __exit__(self, *_: object) -> None:
        # A refresh that is under way ends first: it would bring the file back.
        if self._heartbeat is not None:
            self._heartbeat.stop()
        _unpin(self._store, self._path)

    def check(self) -> None:
        """Check that the version exists; the lease may have expired while the process was stopped.

        Raises:
            VersionNotFoundError: A cleanup has removed it.
        """
        locate(self._store, self.version)

    def refresh(self) -> None:
        """Extend the lease by its lifetime from now on."""
        self._put()

    def _beat(self) -> None:
        if time.monotonic() - self._refreshed >= self._lifetime.total_seconds() / _REFRESHES:
            self._put()

    def _put(self) -> None:
        now = time.monotonic()
        content = {"version": self.version, "for": self._what, "createdAt": datetime.now(UTC).isoformat()}
        self._store.put(self._path, json.dumps(content).encode())
        self._refreshed = now


def list_pins(store: Store) -> list[Pin]:
    """List all pins, independent of their age."""
    pins: list[Pin] = []
    for info in store.list(PINS_DIRECTORY):
        found = _NAME.fullmatch(info.path.removeprefix(f"{PINS_DIRECTORY}/"))
        if found is not None:
            lifetime = timedelta(seconds=int(found[2])) if found[2] else PIN_LIFETIME
            pins.append(Pin(info.path, int(found[1]), info.modified, min(lifetime, PIN_LIFETIME)))
    return pins


def removal_path() -> str:
    """Return the path of a new announcement."""
    return f"{REMOVALS_DIRECTORY}/{uuid.uuid4().hex}{_SUFFIX}"


def announce_removal(
    store: Store, path: str, versions: Collection[int], files: Collection[str], *, left_over: bool = False
) -> bool:
    """Announce the versions and files to be removed, replacing the announcement at the path.

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
    """List all announced removals, also those of killed cleanups.

    Raises:
        CorruptManifestError: An announcement cannot be read.
        InconsistentStoreError: An announcement is listed and is not found.
    """
    removals: list[Removal] = []
    for info in store.list(REMOVALS_DIRECTORY):
        if not info.path.endswith(_SUFFIX) or is_temporary(info.path):
            continue
        data = unless_gone(store, info.path, partial(store.read, info.path))
        # One that disappeared belongs to a cleanup that has finished meanwhile.
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
        "the announced removal of a cleanup cannot be read",
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
                hint="name a version that is kept; if that cleanup was killed, run it again to finish it",
            )


def _unpin(store: Store, path: str) -> None:
    # A pin that cannot be removed protects the version for a while longer, which does no harm.
    with contextlib.suppress(LanceOpsError):
        store.delete(path)
