"""Job keys, exactly once: a job names its commit, and a re-run finds the commit that is already there.

The key proves that the effect of the job is in the lineage of the newest version: a commit of the job lies on
the way down from it. Commits after it may have deleted, replaced or rewritten its rows: the job is done all
the same. A restore of a version before it has undone it: then the job is not done, and a re-run applies it
again. A dataset that was removed and made anew has another lineage.

The key outlives its version. A keyed commit leaves a note before its manifest is stored and another one
afterwards; cleanup gathers the notes, and what it read of the versions, before it removes any (`job_record`).
So keys are kept for 90 days, or as cleanup is told, whatever becomes of the versions; and as long as a file
of the job is in use, whatever becomes of the record (`job_files`: a copy may lack it). When another
implementation's cleanup removed versions that nobody noted, it cannot be told whether one of them was a
restore. Then the files that the job brought are looked for in the newest version; when they are not there
either, the answer is an error, never a guess. To make that rare, look-ups read the versions that are new,
once a day or when there are many.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lance_ops.errors import JobUnprovenError, LanceOpsError
from lance_ops.storage import Store
from lance_ops.table.commit.jobs import job_record, job_segments
from lance_ops.table.commit.jobs.ancestry import Ancestry, Place
from lance_ops.table.commit.jobs.job_files import files_of_job, notes_of_files
from lance_ops.table.commit.jobs.job_gathering import begin_record, best_notes, gather, was_built_on
from lance_ops.table.commit.jobs.job_record import JobNote, file_mark, is_of_job
from lance_ops.table.commit.jobs.job_segments import Lineage, Segment
from lance_ops.table.manifest.file.read import read_latest
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import present_files
from lance_ops.table.transaction.transaction import (
    check_job_key,
    job_uuid_prefix,
)

if TYPE_CHECKING:
    from lance_ops.table.dataset import Dataset

# What was read on the way is worth a segment from this many versions on.
_WORTH_NOTING = 64
_LOOKS_BACK = 256
_LOOK_EVERY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CommittedJob:
    """A commit in the lineage of the newest version.

    Attributes:
        version: Version that it made.
        transaction_uuid: Its transaction.
        removed: The version itself is gone; its effects are not.
        evidence: See `JobNote`.
    """

    version: int
    transaction_uuid: str
    removed: bool = False
    evidence: int = 0


def find_job(dataset: "Dataset", job_key: str, *, is_head: bool = False) -> CommittedJob | None:
    """Find the commit of a job in the lineage of the newest version, whether its version still exists or not.

    Four requests when the job is new, however long the history is, and, once a day or after 64
    versions, a look at those that are new.

    Args:
        dataset: Any snapshot; versions after it count too.
        job_key: Key that was given to the operation.
        is_head: The snapshot is the newest version, for which nobody looks again.

    Returns:
        None when the job was never committed, or when a restore has undone it.

    Raises:
        InvalidArgumentError: The key is no text, or empty.
        JobUnprovenError: It was tried or committed, and versions that another library's cleanup removed
            since then would be needed to tell whether it still counts.
        CorruptFileError: The record of job keys is damaged.
    """
    check_job_key(job_key)
    head, manifest = dataset.location, dataset.manifest
    if not is_head:
        head, manifest = read_latest(dataset.store, manifest)
    return find_committed_job(dataset.store, head, manifest, job_key)


def find_transaction(dataset: "Dataset", transaction_uuid: str) -> CommittedJob | None:
    """Like `find_job`, for the UUID of a transaction, which needs a job key once its version is gone."""
    head, manifest = read_latest(dataset.store, dataset.manifest)
    prefix = transaction_uuid[: len(job_uuid_prefix(""))]
    return _Search(dataset.store, head, manifest).find(prefix, uuid=transaction_uuid)


def find_committed_job(
    store: Store, head: ManifestLocation, manifest: Manifest, job_key: str
) -> CommittedJob | None:
    """See `find_job`.

    Args:
        store: Root of the dataset.
        head: The newest version.
        manifest: Its manifest.
        job_key: Key of the job.
    """
    return _Search(store, head, manifest).find(job_uuid_prefix(job_key), job_key=job_key)


def stands(store: Store, head: ManifestLocation, manifest: Manifest, version: int, uuid: str) -> bool:
    """Whether a commit whose version was read just now is in the lineage of the head."""
    place = Ancestry(store, head, manifest).place(JobNote(uuid, 0, version=version))
    return place is Place.INSIDE


@dataclass(slots=True)
class _Search:
    store: Store
    head: ManifestLocation
    manifest: Manifest
    notes_worth: bool = False

    def find(self, prefix: str, uuid: str | None = None, job_key: str | None = None) -> CommittedJob | None:
        # In this order: notes go into a segment before they are removed.
        notes = job_record.list_notes(self.store, prefix)
        gathered, segments = job_segments.find_in_segments(self.store, prefix)
        ancestry = Ancestry(self.store, self.head, self.manifest)
        found = [*notes, *gathered]
        if segments:
            self._look_back(ancestry, segments)
        else:
            found += [
                note
                for note in begin_record(self.store, self.manifest, ancestry)
                if note.uuid.startswith(prefix)
            ]
        if uuid is None:
            found += self._told_by_files(ancestry, prefix, found)
        candidates = best_notes(found)
        if uuid is not None:
            candidates = [note for note in candidates if note.uuid == uuid] or _unnoted(uuid)
        try:
            return self._judge(ancestry, candidates, job_key) if candidates else None
        finally:
            if self.notes_worth or len(ancestry.steps) >= _WORTH_NOTING:
                steps = [step for step in ancestry.steps.values() if step is not None]
                with contextlib.suppress(LanceOpsError):
                    gather(self.store, self.head, self.manifest.transaction_file, steps)

    def _told_by_files(self, ancestry: Ancestry, prefix: str, found: Iterable[JobNote]) -> Iterable[JobNote]:
        """What the files of the job tell, where no note does."""
        files = files_of_job(self.manifest, prefix)
        marks = set(map(file_mark, files))
        if not files or any(note.version and note.evidence in marks for note in found):
            return ()
        return notes_of_files(ancestry, {prefix: files}, datetime.now(UTC))

    def _look_back(self, ancestry: Ancestry, segments: Sequence[Segment]) -> None:
        """Read the versions since the last look, before another library's cleanup removes them unseen."""
        last = max(segments, key=lambda segment: segment.anchor)
        anchor, new = last.anchor, self.head.version - last.anchor
        self.notes_worth = new >= _WORTH_NOTING or (
            new > 0 and datetime.now(UTC) - last.modified >= _LOOK_EVERY
        )
        if not self.notes_worth:
            return
        with contextlib.suppress(LanceOpsError):
            for version in range(self.head.version, max(anchor, self.head.version - _LOOKS_BACK), -1):
                ancestry.step(version)

    def _judge(
        self, ancestry: Ancestry, candidates: Sequence[JobNote], job_key: str | None
    ) -> CommittedJob | None:
        present = frozenset(map(file_mark, present_files(self.manifest)))
        for note in candidates:
            if note.version and note.evidence in present:
                return self._inside(ancestry, note)
        ancestry.known = _of_this_dataset(ancestry, job_segments.read_lineage(self.store))
        unproven: JobNote | None = None
        for note in candidates:
            if not note.version:
                note = _resolve(ancestry, note, job_key)
            if not note.version:
                place = Place.OUTSIDE if ancestry.all_known(note.read_version) else Place.UNKNOWN
            else:
                place = ancestry.place(note)
            if place is Place.INSIDE:
                return self._inside(ancestry, note)
            if note.evidence in present:
                # The version that it made cannot be told: it lies above the one that was read.
                return self._inside(ancestry, replace(note, version=note.version or note.read_version + 1))
            if place is Place.UNKNOWN:
                unproven = note
        if unproven is None:
            return None
        what = f"made version {unproven.version}" if unproven.version else "may have been committed"
        raise JobUnprovenError(
            f"transaction {unproven.uuid} of this job {what}, and versions since then were removed without a "
            f"record, so whether the job still counts as done cannot be told",
            path=self.store.uri,
            hint="look whether its effect is there; give another job key to apply it again",
        )

    def _inside(self, ancestry: Ancestry, note: JobNote) -> CommittedJob:
        step = ancestry.step(note.version)
        removed = step is None or step.uuid != note.uuid
        return CommittedJob(note.version, note.uuid, removed, note.evidence)


def _unnoted(uuid: str) -> list[JobNote]:
    """A transaction without note: one with a job key was never tried, any other may be there all the same."""
    return [] if is_of_job(uuid) else [JobNote(uuid, 0)]


def _resolve(ancestry: Ancestry, note: JobNote, job_key: str | None) -> JobNote:
    """An attempt with the version that it made, if that is still there."""
    step = ancestry.find(note.uuid, note.read_version)
    if step is None or (job_key is not None and step.job_key != job_key):
        return note
    if not was_built_on(ancestry.store, ancestry.head, step):
        return note
    return replace(note, version=step.version, moment=step.moment)


def _of_this_dataset(ancestry: Ancestry, lineage: Lineage) -> Lineage:
    """What was recorded, unless it was recorded of a dataset that lay here before."""
    if lineage.anchor > ancestry.head.version:
        return Lineage()
    step = ancestry.step(lineage.anchor) if lineage.anchor else None
    return Lineage() if step is not None and step.file_name != lineage.anchor_file else lineage
