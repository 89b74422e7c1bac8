"""The newest versions of datasets with long histories on local disks, known without listing them again.

Naming 20,000 manifests takes longer than a whole small commit, which has to know twice which version is
the newest one. No file that says so is proof: its writer may have died before it wrote it, and a probe of
the next name stops at a gap that a cleanup left behind a tagged version. What the kernel tells of changes
in the folder is proof, since it leaves none out: after one listing, made while the folder is watched already,
the newest version is the largest number that came since, until that goes.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lance_ops.storage.folder_watch import Change, FolderWatch
from lance_ops.storage.store import ListsNames
from lance_ops.table.manifest.naming import (
    VERSIONS_DIRECTORY,
    NamingScheme,
    parse_manifest_name,
    staged_version,
)

_MOST_WATCHED = 64


@dataclass(slots=True, eq=False)
class _WatchedVersions:
    """The versions of one dataset.

    Attributes:
        watch: Of their folder.
        newest: The newest one; None when it has to be looked for.
        staged: Name of the staged manifest of a later version, if there is one.
        lock: Held while changes are taken in.
    """

    watch: FolderWatch
    newest: int | None = None
    staged: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_in(self, changes: Iterable[Change]) -> None:
        """Follow the changes since the newest version was looked for."""
        for name, appeared in changes:
            parsed = parse_manifest_name(name)
            if staged_version(name) is not None:
                self.newest = None
            if parsed is None or parsed[1] is None or self.newest is None:
                continue
            version, scheme = parsed
            if scheme is not NamingScheme.V2:
                # A mixture of naming schemes, for the listing to judge.
                self.newest = None
            elif appeared:
                self.newest = max(self.newest, version)
            elif version == self.newest:
                self.newest = None


NewestVersion = tuple[int, NamingScheme, str | None]
"""Version, naming scheme, and name of the staged manifest of a later version."""

_lock = threading.Lock()
_watched: OrderedDict[str, _WatchedVersions] = OrderedDict()


def newest_version(store: ListsNames, find: Callable[[list[str]], NewestVersion]) -> NewestVersion:
    """The newest version of a dataset, its naming scheme, and the staged manifest of a later one, if any.

    Args:
        store: Root of the dataset.
        find: Finds it among the names in the folder of the manifests; asked only when it is not known.

    Raises:
        LanceOpsError: What `find` raises.
    """
    watched = _look_up(store.uri)
    if watched is None:
        watch = store.watch_folder(VERSIONS_DIRECTORY)
        if watch is None:
            return find(store.list_names(VERSIONS_DIRECTORY))
        watched = _WatchedVersions(watch)
        _keep(store.uri, watched)
    with watched.lock:
        changes = watched.watch.changes()
        if changes is None:
            _drop(store.uri, watched)
            return find(store.list_names(VERSIONS_DIRECTORY))
        watched.take_in(changes)
        if watched.newest is not None:
            return watched.newest, NamingScheme.V2, watched.staged
        found, scheme, staged = find(store.list_names(VERSIONS_DIRECTORY))
        # V1 names are few and old: each look lists them.
        watched.newest = found if scheme is NamingScheme.V2 else None
        watched.staged = staged
        return found, scheme, staged


def _look_up(uri: str) -> _WatchedVersions | None:
    with _lock:
        if uri in _watched:
            _watched.move_to_end(uri)
        return _watched.get(uri)


def _keep(uri: str, watched: _WatchedVersions) -> None:
    with _lock:
        before = _watched.pop(uri, None)
        _watched[uri] = watched
        forgotten = _watched.popitem(last=False)[1] if len(_watched) > _MOST_WATCHED else None
    for other in (before, forgotten):
        if other is not None:
            other.watch.close()


def _drop(uri: str, watched: _WatchedVersions) -> None:
    with _lock:
        if _watched.get(uri) is watched:
            del _watched[uri]


def _after_fork() -> None:
    # A lock may have been held by a thread that the child does not have.
    global _lock
    _lock = threading.Lock()
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
