"""Execution of a cleanup plan, concurrent with restores, tags, commits and other cleanups.

Expired versions are removed before all files:

1. announce the versions, and the files that are unused without them; 2. read pins, then tags: their versions
are kept, and the files are in use; 3. copy manifests to the trash if there is a grace period, and remove the
manifests: from here on these versions cannot be restored or tagged; 4. list the versions, of which the kept
ones and those committed since the plan was made are left; files of the latter are in use; 5. remove the
files; 6. remove the announcement.

Steps 2 and 3 follow each other for some hundred versions at a time, oldest first, and so do 4 and 5 for some
hundred files. So the number of names listed does not grow with the square of the versions.

`lance_ops.table.history.pins` proves that no restore and no tag is missed between 1, 2, 3 and 4, in any
interleaving, and with a crash of either side. The official library tags and restores without these checks:
its tag counts if it exists at step 2 of its version, its restore if it exists at step 4 of its files; a later
one is reported at the end.

A failure is retried, then counted, and the rest continues. Files that cannot be removed, or not be proven
unused, are kept; their announcement remains, so the next cleanup need not prove it again.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from typing import Any, TypeVar

from lance_ops.errors import LanceOpsError, NotFoundError, VersionNotFoundError
from lance_ops.maintenance.cleanup.files import FileVerdict
from lance_ops.maintenance.cleanup.line import Line, VersionVerdict
from lance_ops.maintenance.cleanup.marks import Marks
from lance_ops.maintenance.cleanup.objects import NamedObjects
from lance_ops.maintenance.cleanup.plan import CleanupPlan
from lance_ops.maintenance.cleanup.trash import trash_path
from lance_ops.maintenance.progress import Reporter
from lance_ops.storage import ObjectInfo, Store
from lance_ops.storage.prefetch import side_by_side
from lance_ops.storage.retry import STORE_PAUSES, persistently
from lance_ops.table.history.pins import PIN_LIFETIME, announce_removal, list_pins, removal_path
from lance_ops.table.manifest.feature_flags import Feature
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import (
    DETACHED,
    VERSIONS_DIRECTORY,
    ManifestLocation,
    NamingScheme,
    is_detached,
    manifest_path,
    parse_manifest_name,
)

CHUNK = 500
"""Versions or files that are removed after one look, and by one request."""

_ERRORS_SHOWN = 10
_GIVE_UP_AFTER = 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an execution.

    Attributes:
        removed: Removed files, manifests included.
        failed: Files that could not be removed, or not be proven unused.
        errors: The first errors, one line each.
    """

    removed: tuple[FileVerdict, ...]
    failed: int
    errors: tuple[str, ...]


def execute_cleanup(line: Line, plan: CleanupPlan, report: Reporter) -> Outcome:
    """Remove the victims of a plan, unless they came into use meanwhile."""
    objects = NamedObjects(line.store.uri, line.storage_options)
    return _Execution(line.store, line, plan, report, objects).run()


@dataclass(slots=True)
class _Execution:
    store: Store
    line: Line
    plan: CleanupPlan
    report: Reporter
    objects: NamedObjects
    in_use: Marks = field(default_factory=Marks)
    seen: set[str] = field(default_factory=set)
    removed: list[FileVerdict] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    spares_unknown: bool = False
    newest: str | None = None
    has_looked: bool = False

    def run(self) -> Outcome:
        self.seen = {verdict.location.path for verdict in self.plan.versions}
        path = manifest_path(self.plan.head, NamingScheme.V2)
        self.newest = path if path in self.seen else None
        files: dict[int | None, list[FileVerdict]] = {}
        for item in self.plan.victims:
            if item.kind != "manifest":
                files.setdefault(item.last_user, []).append(item)
        if self.plan.expired:
            self._remove_expired(files)
        self.report("remove other files", len(self.removed), len(self.plan.victims))
        self._rest(files.get(None, []))
        last = (self._remove_old_pins, self._report_late_references)
        list(side_by_side(self.store, *(partial(self._try, step, ()) for step in last)))
        self.report("removed", len(self.removed), len(self.plan.victims))
        return Outcome(tuple(self.removed), len(self.failed), tuple(self.errors))

    def _remove_expired(self, files: dict[int | None, list[FileVerdict]]) -> None:
        """Remove the manifests of all expired versions, then the files that only these used."""
        expired = self.plan.expired
        theirs = [item for verdict in expired for item in files.get(verdict.version, ())]
        paths = [item.path for item in theirs]
        announcement = removal_path()
        announced = {verdict.version for verdict in expired}

        def announce(remaining: Sequence[str]) -> bool:
            return announce_removal(self.store, announcement, announced, remaining)

        every = [*paths, *(verdict.location.path for verdict in expired)]
        if not self._try(lambda: announce(paths), every):
            self._try(lambda: self.store.delete(announcement), ())
            return
        manifests = {item.path: item for item in self.plan.victims if item.kind == "manifest"}
        for chunk in _chunks(expired):
            self.report("remove versions", len(self.removed), len(self.plan.victims))
            of_chunk = [item.path for verdict in chunk for item in files.get(verdict.version, ())]
            kept = self._remove_versions(chunk, manifests, of_chunk)
            if not announced.isdisjoint(kept):
                # At once, so that the kept versions can be named again.
                announced -= kept
                self._try(lambda: announce(paths), ())
        self.report("remove files of versions", len(self.removed), len(self.plan.victims))
        remaining = self._remove_files(theirs)
        if remaining:
            # The proof remains; no version waits for it any more.
            announced.clear()
            self._try(lambda: announce(remaining), ())
        else:
            self._try(lambda: self.store.delete(announcement), ())

    def _remove_versions(
        self, chunk: Sequence[VersionVerdict], manifests: dict[str, FileVerdict], paths: Sequence[str]
    ) -> set[int]:
        """Remove the manifests of announced versions, unless they came into use; returns the kept ones."""
        protected = self._try(self._protected, [*paths, *(verdict.location.path for verdict in chunk)])
        if protected is None:
            self._keep(chunk)
            return {verdict.version for verdict in chunk}
        going = [verdict for verdict in chunk if verdict.version not in protected]
        self._keep(verdict for verdict in chunk if verdict.version in protected)
        going = self._to_trash(going)
        # A file missing in the folder listing is not among the files.
        paths_going = {verdict.location.path for verdict in going}
        gone, left = self._delete([manifests[path] for path in sorted(paths_going & manifests.keys())])
        paths_gone = {item.path for item in gone}
        self.gone.update(verdict.version for verdict in going if verdict.location.path in paths_gone)
        self._keep(verdict for verdict in going if verdict.location.path in left)
        return protected & {verdict.version for verdict in chunk}

    def _to_trash(self, verdicts: Sequence[VersionVerdict]) -> list[VersionVerdict]:
        """Copy the manifests that go to the trash; returns the versions whose manifests may be removed."""
        going: list[VersionVerdict] = []
        for verdict in verdicts:
            path = verdict.location.path
            if verdict.until is not None:
                target = trash_path(verdict.location, verdict.until)
                if self._try(partial(self._copy, path, target), [path]) is None:
                    self._keep([verdict])
                    continue
            going.append(verdict)
        return going

    def _copy(self, path: str, target: str) -> bool:
        # One that is missing was removed by another cleanup.
        with contextlib.suppress(NotFoundError):
            self.store.copy(path, target)
        return True

    def _rest(self, files: list[FileVerdict]) -> None:
        """Yield files used by no version, or announced by an earlier cleanup; then files of cleanups."""
        left: set[str] = set()
        for chunk in _chunks(item for item in files if not item.left_over):
            left.update(self._remove_files(chunk))
        for chunk in _chunks(item for item in files if item.left_over):
            self._remove_left_over(chunk)
        if not self.plan.removals:
            return
        present = self._try(lambda: {path for path, _, _ in self._manifests()}, ())
        if present is None:
            return
        numbers = {parsed[0] for path in present if (parsed := _parse(path)) is not None}
        done = [
            removal.path
            for removal in self.plan.removals
            # While one of its versions exists, the cleanup that announced it may still run; announcements
            # without versions have no owner.
            if self.plan.now - removal.modified >= PIN_LIFETIME
            or (
                not removal.left_over
                and numbers.isdisjoint(removal.versions)
                and left.isdisjoint(removal.files)
                and removal.files.isdisjoint(self.failed)
            )
        ]
        self._try(lambda: self.store.delete_many(done), ())

    def _remove_left_over(self, files: Sequence[FileVerdict]) -> None:
        """Remove files of runs whose job another run has finished (see `jobs`)."""
        paths = [item.path for item in files]
        announcement = removal_path()
        if self._try(lambda: announce_removal(self.store, announcement, (), paths, left_over=True), paths):
            newest = self._try(
                lambda: max(version for _, version, _ in self._manifests() if not is_detached(version)), paths
            )
            if newest == self.plan.head:
                self._remove_files(files)
        # They are proven unused only as long as that version is the newest.
        self._try(lambda: self.store.delete(announcement), ())

    def _report_late_references(self) -> bool:
        """Report a tag or restore of another library that named a version during its removal."""
        if not self.gone:
            return True
        looks: list[Callable[[], Any]] = [partial(self.line.named, self.plan.now), self._mark_newer_versions]
        named, _ = side_by_side(self.store, *looks)
        late = [(name, version) for version, names in named.names.items() for name in names]
        for name, number in sorted(late):
            if number in self.gone:
                self.errors.append(f"{name} was set at version {number} during its removal")
        for item in self.removed:
            version = self.in_use.user_of(item.path)
            if version is not None and item.kind != "manifest":
                self.errors.append(
                    f"version {version} was restored during the removal of its file {item.path}"
                )
                break
        return True

    def _remove_old_pins(self) -> bool:
        pins = [pin.path for pin in list_pins(self.store) if not pin.is_alive(self.plan.now)]
        self.store.delete_many(pins)
        return True

    def _protected(self) -> set[int]:
        named = self.line.named(self.plan.now)
        return {*named.pinned, *named.names}

    def _keep(self, verdicts: Iterable[VersionVerdict]) -> None:
        """Keep the files of these versions; if they cannot be read, no file is removed."""
        for verdict in verdicts:
            if not self._mark(verdict.location):
                self.spares_unknown = True

    def _mark(self, location: ManifestLocation) -> bool:
        def read() -> bool:
            path = f"{self.store.uri}/{location.path}"
            # A missing one was removed, by this or another cleanup.
            with contextlib.suppress(VersionNotFoundError):
                self._add(location, path)
            return True

        return self._try(read, ()) is not None

    def _remove_files(self, files: Sequence[FileVerdict]) -> list[str]:
        """Remove files that are still unused; returns those that could not be removed."""
        remaining: list[str] = []
        for chunk in _chunks(files):
            paths = [item.path for item in chunk]
            if self.spares_unknown or self._try(self._mark_newer_versions, paths) is None:
                self.failed.update(paths)
                remaining += paths
                continue
            going = [item for item in chunk if self.in_use.user_of(item.path) is None]
            remaining += sorted(self._delete(going)[1])
        return remaining

    def _mark_newer_versions(self) -> bool:
        """Mark the files of versions committed since the plan was made."""
        # At first all: an older one may have been missing in the listing of the plan. Then, before each chunk
        # of files, the names before that of the plan's version, since newer ones come first, and those of
        # detached versions, which come last.
        until = self.newest if self.has_looked else None
        listed = self._manifests(until=until)
        if until is not None:
            listed += self._manifests(f"{VERSIONS_DIRECTORY}/{DETACHED}")
        for path, version, size in listed:
            if path not in self.seen:
                location = ManifestLocation(version, path, size)
                self._add(location, path)
                self.seen.add(path)
        self.has_looked = True
        return True

    def _add(self, location: ManifestLocation, path: str) -> None:
        summary = persistently(lambda: read_summary(self.store, location))
        self.in_use.add(summary, root=self.store.uri, path=path)
        if summary.reader_flags & Feature.MANAGED_BLOBS:
            self.in_use.mark(self.objects.of(self.store, location), location.version)

    def _manifests(
        self, start_after: str | None = None, until: str | None = None
    ) -> list[tuple[str, int, int]]:
        found = []

        def listed() -> list[ObjectInfo]:
            infos = self.store.list(VERSIONS_DIRECTORY, start_after=start_after)
            return list(takewhile(lambda info: info.path != until, infos))

        for info in persistently(listed):
            parsed = _parse(info.path)
            if parsed is not None:
                found.append((info.path, parsed[0], info.size))
        return found

    def _delete(self, items: Sequence[FileVerdict]) -> tuple[list[FileVerdict], set[str]]:
        """Delete files; returns the deleted ones, and the paths of those that may still exist."""
        gone: list[FileVerdict] = []
        left: set[str] = set()
        for chunk in _chunks(items):
            failures = self._delete_paths([item.path for item in chunk])
            for path, error in failures.items():
                self._note(error, [path])
            gone += [item for item in chunk if item.path not in failures]
            left |= failures.keys()
        self.removed += gone
        return gone, left

    def _delete_paths(self, paths: Sequence[str]) -> dict[str, LanceOpsError]:
        try:
            self.store.delete_many(paths)
        except LanceOpsError:
            # One of them cannot be deleted, and the store does not say which: delete them one by one.
            pass
        else:
            return {}
        failures: dict[str, LanceOpsError] = {}
        remaining = list(paths)
        for pause in STORE_PAUSES:
            time.sleep(pause)
            failures = self._delete_each(remaining)
            remaining = list(failures)
            if not remaining:
                break
        return failures

    def _delete_each(self, paths: Sequence[str]) -> dict[str, LanceOpsError]:
        failures: dict[str, LanceOpsError] = {}
        row = 0
        for number, path in enumerate(paths):
            try:
                self.store.delete(path)
                row = 0
            except LanceOpsError as error:
                failures[path] = error
                row += 1
                if row == _GIVE_UP_AFTER:
                    # The store is down: trying each of many files would take hours.
                    return failures | dict.fromkeys(paths[number + 1 :], error)
        return failures

    def _try(self, call: Callable[[], _T], paths: Iterable[str]) -> _T | None:
        """Return the result of a call; None after a permanent failure, so that `paths` are kept."""
        try:
            return persistently(call)
        except LanceOpsError as error:
            self._note(error, paths)
            return None

    def _note(self, error: LanceOpsError, paths: Iterable[str]) -> None:
        self.failed.update(paths)
        line = f"{type(error).__name__}: {error}"
        if len(self.errors) < _ERRORS_SHOWN and line not in self.errors:
            self.errors.append(line)


def _parse(path: str) -> tuple[int, NamingScheme | None] | None:
    return parse_manifest_name(path.removeprefix(f"{VERSIONS_DIRECTORY}/"))


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk
