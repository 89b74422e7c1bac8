"""Files that a cleanup may remove, and why the others stay."""

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
"""How long a file that no version uses may belong to a commit under way; the peer's number."""

_STAGED_MANIFEST = re.compile(r"\.manifest-[0-9a-f-]{32,36}$")


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """Whether a file stays, and why.

    Attributes:
        path: Relative to the root of the dataset.
        size: In bytes.
        kind: data, blob, deletion, index, row_map, transaction, manifest, temporary or other.
        victim: Whether it goes.
        reason: Why it goes or stays.
        last_user: The newest of the expired versions that use a victim; None when none does.
        left_over: It goes only while the newest version is the one that the plan was made for, see
            `jobs`.
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
        kept: Files that kept versions use.
        expired: Files that expired versions use.
        clones: Files that named clones use.
        proven: Files that an earlier cleanup proved to be of no use.
        jobs: Jobs that are committed.
        open_jobs: Prefixes of the files of open jobs.
        now: The time by the clock of the store.
        below: Folders of other branches and datasets among those of this one, with "/" at the end.
        blobs_unknown: Why it is not known which objects managed blobs name, so that all stay; None otherwise.
        maps_unknown: The same of the row maps of fragment reuse indices.
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
        """A file of the folders that hold data, deletions, indices and transactions."""
        kind = _kind(info.path)
        user = self.kept.user_of(info.path)
        former = self.expired.user_of(info.path)
        if user is not None:
            return FileVerdict(info.path, info.size, kind, victim=False, reason=f"version {user} uses it")
        for clone in self.clones:
            if info.path in clone:
                reason = f"the clone {clone.uri} uses it"
                return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if info.path.startswith(self.below):
            reason = "it lies in the folder of another branch or dataset"
            return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if kind == "other" or (kind == "blob" and self.blobs_unknown is not None):
            # Any data file may name it in the table's managed blobs.
            reason = "it may hold managed blobs" if kind == "blob" else "it is not a file of the format"
            return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if kind == "row_map" and self.maps_unknown is not None:
            return FileVerdict(info.path, info.size, kind, victim=False, reason=self.maps_unknown)
        if former is not None:
            reason = f"only expired versions use it, version {former} the last"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason, last_user=former)
        if info.path in self.proven:
            # It belonged to a version once, so no commit under way brings it.
            reason = "only versions that a cleanup removed before it was broken off used it"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason)
        if job_prefix_of(info.path) in self.open_jobs:
            reason = "a job that is under way, or can be resumed, wrote it (see the command jobs)"
            return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)
        if self.jobs.wrote(info.path, kind) and not self._is_old(info):
            reason = "no version uses it, and another run of the job that wrote it was committed"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason, left_over=True)
        return self._unverified(info, kind)

    def manifests(self, infos: Sequence[ObjectInfo], verdicts: Sequence[VersionVerdict]) -> list[FileVerdict]:
        """Files of the folder of manifests."""
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
                reason = "it is no manifest, or one that appeared just now"
                files.append(FileVerdict(info.path, info.size, "other", victim=False, reason=reason))
        return files

    def _is_old(self, info: ObjectInfo) -> bool:
        return self.now - info.modified >= UNVERIFIED_GRACE

    def _unverified(self, info: ObjectInfo, kind: str) -> FileVerdict:
        if self.delete_unverified:
            return FileVerdict(info.path, info.size, kind, victim=True, reason="no version uses it")
        if self._is_old(info):
            reason = f"no version uses it, and it is older than {age_text(UNVERIFIED_GRACE)}"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason)
        reason = f"no version uses it yet, and it is younger than {age_text(UNVERIFIED_GRACE)}"
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
