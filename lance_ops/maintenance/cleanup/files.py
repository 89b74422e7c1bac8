"""Verdicts on files: whether a cleanup may remove them, with the reason."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lance_ops.file.io.side_files import data_file_of
from lance_ops.maintenance.cleanup.clones import CloneMarks
from lance_ops.maintenance.cleanup.jobs import FinishedJobs
from lance_ops.maintenance.cleanup.marks import (
    DATA,
    DELETIONS,
    INDICES,
    OBJECTS,
    ROW_MAPS,
    TRANSACTIONS,
    Marks,
)
from lance_ops.maintenance.cleanup.versions import VersionVerdict, age_text
from lance_ops.maintenance.jobs.listing import job_prefix_of
from lance_ops.storage import ObjectInfo, is_temporary
from lance_ops.table.manifest.fragment_reuse.partition import MAP_FILE

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
