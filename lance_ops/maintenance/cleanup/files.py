"""Verdicts on files: whether a cleanup may remove them, with the reason.

Shallow clones of a dataset: the files that they use.

A dataset has no record of its clones: they must be named by the caller. Source: format, base paths.

Links: folders of a dataset that are symbolic links out of it, where cleanup deletes nothing.

The files there belong to another dataset, which may use them although no version of this one does.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lance_ops.errors import DatasetNotFoundError, LanceOpsError, PathEscapeError
from lance_ops.file.io.side_files import data_file_of
from lance_ops.maintenance.cleanup.line import Line, VersionVerdict, age_text
from lance_ops.maintenance.cleanup.marks import (
    DATA,
    DELETIONS,
    INDICES,
    OBJECTS,
    ROW_MAPS,
    TRANSACTIONS,
    FinishedJobs,
    Marks,
)
from lance_ops.maintenance.cleanup.objects import NamedObjects
from lance_ops.maintenance.cleanup.places import below, is_own_root
from lance_ops.maintenance.cleanup.trash import TRASH_DIRECTORY, trashed_among
from lance_ops.maintenance.jobs.folder import JOBS_DIRECTORY
from lance_ops.maintenance.jobs.listing import job_prefix_of
from lance_ops.storage import ObjectInfo, Store, is_temporary, leads_out
from lance_ops.storage.retry import persistently
from lance_ops.table.history.pins import PINS_DIRECTORY, REMOVALS_DIRECTORY
from lance_ops.table.history.refs import BRANCH_TREES, BRANCHES_DIRECTORY, TAGS_DIRECTORY, branch_directory
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.feature_flags import uses_tagged_reuse
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragment_reuse.partition import MAP_FILE
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY, all_manifests
from lance_ops.table.manifest.model import BasePath, Manifest

_CLONES_NOTE = (
    "shallow clones of this dataset cannot be found from here: their files are kept only if a tag keeps the "
    "version they were made from (as lance_ops sets it) or if the clone is listed in clones"
)
_BASES_NOTE = "; files in other base paths are kept, since other datasets may use them: {}"


@dataclass(frozen=True, slots=True)
class CloneMarks:
    """Files of a dataset that a clone of it uses.

    Attributes:
        uri: Root of the clone.
        marks: The files.
        problem: Why the objects of the clone's managed blobs are unknown; None if they are known.
        maps_unknown: Why row maps are kept: the clone has a fragment reuse index that may name them; None
            otherwise.
    """

    uri: str
    marks: Marks
    problem: str | None = None
    maps_unknown: str | None = None

    def __contains__(self, path: str) -> bool:
        return self.marks.user_of(path) is not None


def mark_clones(objects: NamedObjects, clones: Sequence[Store]) -> tuple[CloneMarks, ...]:
    """Find the files that clones use: all versions on all branches.

    Args:
        objects: Finds the objects of their managed blobs below the root of the dataset.
        clones: The clones.

    Raises:
        DatasetNotFoundError: There is no dataset at the URI of a clone.
        CorruptManifestError: A version of a clone cannot be read, so its files are unknown.
    """
    return tuple(_mark(objects, clone) for clone in clones)


def _mark(objects: NamedObjects, clone: Store) -> CloneMarks:
    marks = Marks()
    found = False
    problem: str | None = None
    maps: str | None = None
    for root in _roots(clone):
        for location in persistently(lambda root=root: all_manifests(root)):  # type: ignore[misc]
            found = True
            manifest = persistently(lambda: read_manifest(root, location))  # noqa: B023 - called at once
            marks.mark(_used_files(manifest, objects.root), manifest.version)
            if uses_tagged_reuse(manifest):
                maps = f"the clone {clone.uri} may use it"
            try:
                marks.mark(objects.of(root, location, manifest), manifest.version)
            except LanceOpsError as error:
                problem = problem or f"of version {manifest.version} of the clone {clone.uri}: {error}"
    if not found:
        raise DatasetNotFoundError("no dataset here: there is no manifest", path=clone.uri, field="clones")
    return CloneMarks(clone.uri, marks, problem, maps)


def _roots(clone: Store) -> Iterator[Store]:
    yield clone
    between = f"/{VERSIONS_DIRECTORY}/"
    # A single listing may be incomplete.
    paths = [info.path for _ in range(2) for info in persistently(lambda: list(clone.list(BRANCH_TREES)))]
    for folder in sorted({path.partition(between)[0] for path in paths if between in path}):
        yield clone.child(folder)


def _used_files(manifest: Manifest, source: str) -> Iterator[str]:
    # Path of each base below the source; a base elsewhere has no such folders.
    inside = {base.id: lead for base in manifest.base_paths if (lead := below(base.path, source)) is not None}
    flat = {base.id for base in manifest.base_paths if not base.is_dataset_root}
    for fragment in manifest.fragments:
        for base_id, folder, name in _fragment_files(fragment):
            if base_id in inside:
                yield inside[base_id] + (name if base_id in flat else f"{folder}/{name}")
    for index in manifest.indices:
        if index.base_id in inside:
            folder, _, name = index.directory.partition("/")
            yield inside[index.base_id] + (name if index.base_id in flat else f"{folder}/{name}")


def _fragment_files(fragment: Fragment) -> Iterator[tuple[int | None, str, str]]:
    for file in fragment.all_files:
        yield file.base_id, DATA_DIRECTORY, file.path
        # Large values in separate files are in a folder of the same name.
        yield file.base_id, DATA_DIRECTORY, file.path.removesuffix(".lance")
    deletion = fragment.deletion_file
    if deletion is not None:
        folder, _, name = deletion.path(fragment.id).partition("/")
        yield deletion.base_id, folder, name


def may_share_files(base: BasePath, root: str) -> bool:
    """Return whether a file in a base may be one of a dataset's own files, under another name.

    The root of the dataset itself, declared as a base for managed blobs, adds no other names. If no base may,
    only clones can name the files below the root of the dataset. Files of other bases are outside and are
    kept. A base with a relative path may.

    Args:
        base: Base of a version of the dataset.
        root: Root URI of the dataset or of one of its branches.
    """
    if is_own_root(base, root):
        return False
    try:
        if below(base.path, root) is not None:
            return True
        inside = below(root, base.path)
    except PathEscapeError:
        return True
    if inside is None:
        return False
    # The files of a dataset root are in folders with fixed names; a branch is beside these.
    return not base.is_dataset_root or inside.partition("/")[0] in (DATA_DIRECTORY, DELETIONS, INDICES)


def note_of(manifest: Manifest | None) -> str:
    """Return a note of the plan about files that it cannot find or does not remove.

    Args:
        manifest: The newest version, if known.
    """
    places = () if manifest is None else manifest.base_paths
    return _CLONES_NOTE + (_BASES_NOTE.format(", ".join(base.path for base in places)) if places else "")


UNVERIFIED_GRACE = timedelta(days=7)
"""Grace period of an unused file, which may belong to a commit in progress; the same as in pylance."""

_STAGED_MANIFEST = re.compile(r"\.manifest-[0-9a-f-]{32,36}$")


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """Verdict on a file, with the reason.

    Attributes:
        path: Relative to the root of the dataset.
        size: In bytes.
        kind: data, blob, deletion, index, row_map, transaction, manifest, temporary or other.
        victim: True if it is removed.
        reason: Why it is removed or kept.
        last_user: The newest of the expired versions that use a victim; None without one.
        left_over: It is removed only while the newest version is the one of the plan, see `jobs`.
    """

    path: str
    size: int
    kind: str
    victim: bool
    reason: str
    last_user: int | None = None
    left_over: bool = False


@dataclass(frozen=True, slots=True)
class FileJudge:
    """Judges the files of a dataset.

    Attributes:
        kept: Files of kept versions.
        expired: Files of expired versions.
        clones: Files of listed clones.
        proven: Files that an earlier cleanup proved unused.
        jobs: Committed jobs.
        open_jobs: Prefixes of the files of open jobs.
        now: The time by the clock of the store.
        below: Folders of other branches and datasets within this one, with a final "/".
        blobs_unknown: Why the objects of managed blobs are unknown, so that all are kept; None otherwise.
        maps_unknown: The same for the row maps of fragment reuse indices.
        delete_unverified: See `CleanupOptions`.
    """

    kept: Marks
    expired: Marks
    clones: Sequence[CloneMarks]
    proven: frozenset[str]
    jobs: FinishedJobs
    open_jobs: frozenset[str]
    now: datetime
    below: tuple[str, ...]
    blobs_unknown: str | None
    maps_unknown: str | None
    delete_unverified: bool

    def managed(self, info: ObjectInfo) -> FileVerdict:
        """Return the verdict on a file in the folders of data, deletions, indices and transactions."""
        kind = _kind(info.path)
        user = self.kept.user_of(info.path)
        former = self.expired.user_of(info.path)
        if user is not None:
            return FileVerdict(info.path, info.size, kind, victim=False, reason=f"used by version {user}")
        for clone in self.clones:
            if info.path in clone:
                reason = f"used by the clone {clone.uri}"
                return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if info.path.startswith(self.below):
            reason = "in the folder of another branch or dataset"
            return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if kind == "other" or (kind == "blob" and self.blobs_unknown is not None):
            # Any data file may be named in the table's managed blobs.
            reason = "may contain managed blobs" if kind == "blob" else "not a file of the format"
            return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if kind == "row_map" and self.maps_unknown is not None:
            return FileVerdict(info.path, info.size, kind, victim=False, reason=self.maps_unknown)
        if former is not None:
            reason = f"used only by expired versions, last by version {former}"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason, last_user=former)
        if info.path in self.proven:
            # It belonged to a version, so no commit in progress brings it.
            reason = "used only by versions that an interrupted cleanup removed"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason)
        if job_prefix_of(info.path) in self.open_jobs:
            reason = "written by a job that is in progress, or can be resumed (see the command jobs)"
            return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if self.jobs.wrote(info.path, kind) and not self._is_old(info):
            reason = "used by no version, and another run of its job was committed"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason, left_over=True)
        return self._unverified(info, kind)

    def manifests(self, infos: Sequence[ObjectInfo], verdicts: Sequence[VersionVerdict]) -> list[FileVerdict]:
        """Return the verdict on a file in the folder of manifests."""
        by_path = {verdict.location.path: verdict for verdict in verdicts}
        files: list[FileVerdict] = []
        for info in infos:
            verdict = by_path.get(info.path)
            if verdict is not None:
                reason = f"version {verdict.version}: {verdict.reason}"
                files.append(
                    FileVerdict(info.path, info.size, "manifest", victim=verdict.expired, reason=reason)
                )
            elif is_temporary(info.path) or _STAGED_MANIFEST.search(info.path):
                files.append(self._unverified(info, "temporary"))
            else:
                reason = "not a manifest, or one that appeared just now"
                files.append(FileVerdict(info.path, info.size, "other", victim=False, reason=reason))
        return files

    def trash(
        self, infos: Sequence[ObjectInfo], verdicts: Sequence[VersionVerdict], *, empty_trash: bool
    ) -> list[FileVerdict]:
        """Return the verdict on a file in the trash."""
        by_path = {verdict.location.path: verdict for verdict in verdicts}
        files: list[FileVerdict] = []
        for info in infos:
            verdict = by_path.get(info.path)
            if verdict is not None:
                reason = f"version {verdict.version}: {verdict.reason}"
                files.append(
                    FileVerdict(info.path, info.size, "manifest", victim=verdict.expired, reason=reason)
                )
                continue
            # A copy of a version that is in another place.
            is_over = empty_trash or any(item.until <= self.now for item in trashed_among([info]))
            reason = "the trash has it in another place, or the version was brought back"
            files.append(FileVerdict(info.path, info.size, "temporary", victim=is_over, reason=reason))
        return files

    def _is_old(self, info: ObjectInfo) -> bool:
        return self.now - info.modified >= UNVERIFIED_GRACE

    def _unverified(self, info: ObjectInfo, kind: str) -> FileVerdict:
        if self.delete_unverified:
            return FileVerdict(info.path, info.size, kind, victim=True, reason="used by no version")
        if self._is_old(info):
            reason = f"used by no version, and older than {age_text(UNVERIFIED_GRACE)}"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason)
        reason = f"used by no version yet, and younger than {age_text(UNVERIFIED_GRACE)}"
        return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)


def _kind(path: str) -> str:
    folder, _, name = path.partition("/")
    if is_temporary(path):
        return "temporary"
    if folder == DATA and name.endswith(".lance"):
        return "data"
    if (folder == DATA and data_file_of(path) is not None) or (folder == OBJECTS and name.endswith(".blob")):
        return "blob"
    if folder == DELETIONS and name.endswith((".arrow", ".bin")):
        return "deletion"
    if folder == INDICES and "/" in name:
        return "index"
    if folder == ROW_MAPS and name.endswith(f"/{MAP_FILE}"):
        return "row_map"
    if folder == TRANSACTIONS and name.endswith(".txn"):
        return "transaction"
    return "other"


_FILES = (DATA, DELETIONS, INDICES, TRANSACTIONS, OBJECTS, ROW_MAPS)
_CONTROL = (VERSIONS_DIRECTORY, PINS_DIRECTORY, REMOVALS_DIRECTORY, JOBS_DIRECTORY, TRASH_DIRECTORY)
"""Folders that a cleanup writes to, and whose state it relies on."""
_NAMES = (TAGS_DIRECTORY, BRANCHES_DIRECTORY, BRANCH_TREES)

_LEADS_OUT = "is a symbolic link that leads out of the dataset"
_REASON = f"its folder, or one required for its removal, {_LEADS_OUT}"


@dataclass(frozen=True, slots=True)
class LinkedFolders:
    """Folders of a line that link out of its root.

    Attributes:
        folders: Relative to the root of the line.
        holds_all: One of them is required for any removal, so that nothing is removed.
    """

    folders: tuple[str, ...] = ()
    holds_all: bool = False

    @classmethod
    def of(cls, line: Line) -> "LinkedFolders":
        """Find the linked folders of a line."""
        directory = branch_directory(line.branch)
        if directory and leads_out(line.root, directory):
            return cls((*_FILES, *_CONTROL), holds_all=True)
        found = tuple(folder for folder in (*_FILES, *_CONTROL, *_NAMES) if leads_out(line.store, folder))
        return cls(found, holds_all=not set(found).isdisjoint(_CONTROL))

    def judge_version(self, verdict: VersionVerdict) -> VersionVerdict:
        """Keep an expired version if nothing can be removed."""
        if self.holds_all and verdict.expired:
            return replace(verdict, expired=False, reason=f"{self.folders[0]} {_LEADS_OUT}")
        return verdict

    def judge_files(self, verdicts: Iterable[FileVerdict]) -> list[FileVerdict]:
        """Keep the files behind a link."""
        return [self._judge(verdict) for verdict in verdicts]

    def _judge(self, verdict: FileVerdict) -> FileVerdict:
        is_behind = self.holds_all or verdict.path.partition("/")[0] in self.folders
        if is_behind and verdict.victim:
            return replace(verdict, victim=False, reason=_REASON, last_user=None, left_over=False)
        return verdict

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note for each folder, for the result."""
        what = "nothing was removed" if self.holds_all else "no file behind it was removed"
        return tuple(f"{folder} {_LEADS_OUT}: {what}" for folder in self.folders)


def keep_targets(
    store: Store, infos: Sequence[ObjectInfo], verdicts: Sequence[FileVerdict]
) -> list[FileVerdict]:
    """Keep files that are link targets of kept files, within the root of a local store.

    Args:
        store: The dataset.
        infos: The listing: a link has the mark of its target.
        verdicts: Verdict on each of them.
    """
    if not hasattr(store, "leads_out"):
        # The mark of an object depends on its bytes, which two may share.
        return list(verdicts)
    stay = {info.mark: info.path for info, verdict in zip(infos, verdicts, strict=True) if not verdict.victim}
    return [
        replace(verdict, victim=False, reason=f"{stay[info.mark]} is a link to it", last_user=None)
        if verdict.victim and info.mark in stay
        else verdict
        for info, verdict in zip(infos, verdicts, strict=True)
    ]
