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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from lance_ops.errors import InvalidArgumentError, JobUnprovenError, LanceOpsError, NotFoundError
from lance_ops.storage import Store
from lance_ops.storage.prefetch import has_latency, prefetch
from lance_ops.table.commit import job_record
from lance_ops.table.commit.ancestry import Ancestry, Place, Step, step_of
from lance_ops.table.commit.job_files import files_of_job, files_of_jobs, note_of_step, notes_of_files
from lance_ops.table.commit.job_record import (
    JobNote,
    Lineage,
    Segment,
    file_mark,
    is_of_job,
    merge_ranges,
    note_of_file,
    prune,
)
from lance_ops.table.commit.lineage import Standing, find_standing
from lance_ops.table.manifest.file import read_latest, read_manifest, read_summary
from lance_ops.table.manifest.listing import ManifestLocation, list_versions
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import is_detached, manifest_path
from lance_ops.table.transaction.operations import present_files
from lance_ops.table.transaction.transaction import (
    TRANSACTIONS_DIRECTORY,
    check_job_key,
    job_uuid_prefix,
    read_transaction,
)

if TYPE_CHECKING:
    from lance_ops.table.dataset import Dataset

KEEP_JOB_KEYS = timedelta(days=90)
"""How long a job key is known at least, counted from its commit."""

MAX_JOB_KEYS = 100_000
"""How many keys a dataset keeps for versions that are gone; the newest ones."""

# What was read on the way is worth a segment from this many versions on.
_WORTH_NOTING = 64
_LOOKS_BACK = 256
_LOOK_EVERY = timedelta(days=1)
_THREADS = 16


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
        gathered, segments = job_record.find_in_segments(self.store, prefix)
        ancestry = Ancestry(self.store, self.head, self.manifest)
        found = [*notes, *gathered]
        if segments:
            self._look_back(ancestry, segments)
        else:
            found += [note for note in self.begin_record(ancestry) if note.uuid.startswith(prefix)]
        if uuid is None:
            found += self._told_by_files(ancestry, prefix, found)
        candidates = _best(found)
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
        ancestry.known = _of_this_dataset(ancestry, job_record.read_lineage(self.store))
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

    def begin_record(self, ancestry: Ancestry) -> list[JobNote]:
        """Commits of jobs from before there was a record; it is begun with them, so this is done once."""
        now = datetime.now(UTC)
        names = {
            info.path.removeprefix(f"{TRANSACTIONS_DIRECTORY}/")
            for info in self.store.list(TRANSACTIONS_DIRECTORY)
        }
        if self.manifest.transaction_file in names:
            notes = [note for name in names if (note := note_of_file(name, now)) is not None]
        else:
            # Without transaction files, or in a copy that left them behind, the manifests have to tell.
            steps = (ancestry.step(location.version) for location in reversed(list_versions(self.store)))
            notes = [note_of_step(step) for step in steps if step is not None and step.job_key is not None]
        notes += notes_of_files(ancestry, files_of_jobs(self.manifest), now)
        with contextlib.suppress(LanceOpsError):
            # Only a shortcut: whoever cannot write here looks again next time.
            job_record.begin_segments(self.store, notes)
        return notes


def _best(notes: Iterable[JobNote]) -> list[JobNote]:
    """For each transaction the note that says most, the newest commit first."""
    best: dict[str, JobNote] = {}
    for note in notes:
        before = best.get(note.uuid)
        if before is None or (note.version, note.evidence) > (before.version, before.evidence):
            best[note.uuid] = note
    return sorted(best.values(), key=lambda note: note.version, reverse=True)


def _unnoted(uuid: str) -> list[JobNote]:
    """A transaction without note: one with a job key was never tried, any other may be there all the same."""
    return [] if is_of_job(uuid) else [JobNote(uuid, 0)]


def _resolve(ancestry: Ancestry, note: JobNote, job_key: str | None) -> JobNote:
    """An attempt with the version that it made, if that is still there."""
    step = ancestry.find(note.uuid, note.read_version)
    if step is None or (job_key is not None and step.job_key != job_key):
        return note
    if not _was_built_on(ancestry.store, ancestry.head, step):
        return note
    return replace(note, version=step.version, moment=step.moment)


def _was_built_on(store: Store, head: ManifestLocation, step: Step) -> bool:
    """Whether others built on a version: a writer that died right after its put could not see to that."""
    if step.version >= head.version:
        return True
    path = manifest_path(step.version, head.scheme)
    location = ManifestLocation(step.version, path, scheme=head.scheme)
    try:
        manifest = read_manifest(store, location)
        transaction = read_transaction(store, manifest)
    except NotFoundError:
        return False
    if transaction is None:
        return False
    return find_standing(store, location, manifest, transaction) is not Standing.ORPHANED


def _of_this_dataset(ancestry: Ancestry, lineage: Lineage) -> Lineage:
    """What was recorded, unless it was recorded of a dataset that lay here before."""
    if lineage.anchor > ancestry.head.version:
        return Lineage()
    step = ancestry.step(lineage.anchor) if lineage.anchor else None
    return Lineage() if step is not None and step.file_name != lineage.anchor_file else lineage


def keep_job_keys(
    store: Store,
    versions: Iterable[ManifestLocation],
    transactions: Iterable[str] = (),
    *,
    keep: timedelta | None = None,
    limit: int = MAX_JOB_KEYS,
    now: datetime | None = None,
    in_use: bool = False,
) -> int:
    """Record the job keys of versions before they are removed, and put what was noted into one file.

    Reads the versions that it did not read before; two listings and the newest version, and nothing else,
    where no job key is in use.

    Args:
        store: Root of the dataset.
        versions: All versions, those included that stay.
        transactions: Names or paths of transaction files: commits from before there was a record.
        keep: How long a key is kept at least, from its commit on; `KEEP_JOB_KEYS` when None.
        limit: How many keys are kept at most.
        now: Replaces the clock in tests; aware.
        in_use: Commits of jobs are known to be among the versions.

    Returns:
        How many keys are recorded now.

    Raises:
        InvalidArgumentError: The time is negative.
        CorruptManifestError: A version cannot be read.
    """
    keep = KEEP_JOB_KEYS if keep is None else keep
    if keep < timedelta(0):
        raise InvalidArgumentError("an age cannot be negative", field="keep_job_keys")
    moment = now or datetime.now(UTC)
    names = (path.rpartition("/")[2] for path in transactions)
    in_use = in_use or any(is_of_job(name.partition("-")[2]) for name in names)
    history = {location.version: location for location in versions if not is_detached(location.version)}
    if not history:
        return 0
    head = history[max(history)]
    if not job_record.list_segments(store):
        manifest = read_manifest(store, head)
        if not in_use and not files_of_jobs(manifest) and not job_record.is_in_use(store):
            return 0
        # What is known of jobs whose versions were gone before there was a record.
        _Search(store, head, manifest).begin_record(Ancestry(store, head, manifest))
    lineage = job_record.read_segments(store)[2]
    wanted = [
        location
        for version, location in sorted(history.items())
        if version in (head.version, lineage.anchor) or not lineage.knows(version)
    ]

    def read(location: ManifestLocation) -> Step | None:
        try:
            return step_of(store, read_summary(store, location))
        except NotFoundError:
            # Another cleanup was faster.
            return None

    threads = _THREADS if has_latency(store) else 1
    found = prefetch((partial(read, location) for location in wanted), threads)
    steps = [step for step in found if step is not None]
    head_file = next((step.file_name for step in steps if step.version == head.version), "")
    return gather(store, head, head_file, steps, _Limits(keep, limit, moment, frozenset(history)))


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many keys are kept, and for how long, besides those of versions that exist."""

    keep: timedelta
    number: int
    now: datetime
    existing: frozenset[int]

    def apply(self, notes: Iterable[JobNote]) -> list[JobNote]:
        there: list[JobNote] = []
        gone: list[JobNote] = []
        for note in notes:
            (there if note.version in self.existing else gone).append(note)
        return there + prune(gone, self.keep, self.number, self.now)

    def is_over(self, attempt: JobNote) -> bool:
        """Whether nobody will ask for an attempt any more that came to nothing."""
        return self.now - attempt.moment > self.keep


def gather(
    store: Store, head: ManifestLocation, head_file: str, steps: Iterable[Step], limits: _Limits | None = None
) -> int:
    """Put notes, and what versions say, into one segment. To be called before versions are removed.

    Does nothing when no job key was ever used here. May be stopped anywhere, and run by several at once.

    Args:
        store: Root of the dataset.
        head: The newest version.
        head_file: Its transaction file.
        steps: Versions that were read, in any order.
        limits: Which keys are given up; none when None.

    Returns:
        How many keys are recorded now.
    """
    notes = job_record.list_notes(store)
    segments, gathered, lineage = job_record.read_segments(store)
    read = {step.version: step for step in steps}
    before = read.get(lineage.anchor)
    if lineage.anchor > head.version or (before is not None and before.file_name != lineage.anchor_file):
        gathered, lineage = [], Lineage()
    confirmed = {note.uuid for note in notes if note.version}
    tried = {note.uuid for note in notes} - confirmed
    by_uuid = {
        step.uuid: step
        for step in read.values()
        if step.uuid not in tried or _was_built_on(store, head, step)
    }
    resolved = [_dated(note, by_uuid) for note in (*gathered, *notes)]
    resolved += [note_of_step(step) for step in by_uuid.values() if step.job_key is not None]
    if not resolved and not segments:
        return 0
    # A version that another transaction made than the note says belongs to another dataset.
    sound = [note for note in resolved if note.version not in read or read[note.version].uuid == note.uuid]
    recorded = {note.uuid for note in sound if note.version} | {note.uuid for note in gathered}
    told = Lineage(
        merge_ranges((step.version, step.version) for step in read.values() if step.below is not None),
        {step.version: step.below for step in read.values() if step.restores and step.below is not None},
        head.version,
        head_file,
    )
    kept = [note for note in _best(sound) if note.uuid in recorded]
    if limits is not None:
        kept = limits.apply(kept)
    known = lineage.join(told)
    if len(segments) != 1 or set(kept) != set(gathered) or known != lineage:
        written = job_record.write_segment(store, kept, known)
        store.delete_many([segment.path for segment in segments if segment.path != written.path])
    over = (note for note in notes if limits is not None and limits.is_over(note))
    # Nothing will tell that they are of another dataset when the versions that show it are gone.
    foreign = (note for note in notes if note.version in read and read[note.version].uuid != note.uuid)
    done = (note for note in notes if note.uuid in recorded)
    store.delete_many({note.path for note in (*over, *foreign, *done)})
    return len(kept)


def _dated(note: JobNote, by_uuid: Mapping[str, Step]) -> JobNote:
    step = by_uuid.get(note.uuid) if note.version == 0 else None
    return note if step is None else replace(note, version=step.version, moment=step.moment)
