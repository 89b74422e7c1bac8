"""Job gathering: notes of jobs, and what versions say of theirs, become one sorted file of the record."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from lance_ops.errors import LanceOpsError, NotFoundError
from lance_ops.storage import Store
from lance_ops.table.commit.jobs import job_record, job_segments
from lance_ops.table.commit.jobs.ancestry import Ancestry, Step
from lance_ops.table.commit.jobs.job_files import files_of_jobs, note_of_step, notes_of_files
from lance_ops.table.commit.jobs.job_record import JobNote, note_of_file, prune
from lance_ops.table.commit.jobs.job_segments import Lineage, merge_ranges
from lance_ops.table.commit.jobs.stream_notes import is_past_epoch, jobs_in_notes
from lance_ops.table.commit.lineage import Standing, find_standing
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import ManifestLocation, list_versions
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import manifest_path
from lance_ops.table.transaction.transaction import (
    TRANSACTIONS_DIRECTORY,
    job_uuid_prefix,
    read_transaction,
)


def begin_record(store: Store, manifest: Manifest, ancestry: Ancestry) -> list[JobNote]:
    """Commits of jobs from before there was a record; it is begun with them, so this is done once."""
    now = datetime.now(UTC)
    names = {
        info.path.removeprefix(f"{TRANSACTIONS_DIRECTORY}/") for info in store.list(TRANSACTIONS_DIRECTORY)
    }
    if manifest.transaction_file in names:
        notes = [note for name in names if (note := note_of_file(name, now)) is not None]
    else:
        # Without transaction files, or in a copy that left them behind, the manifests have to tell.
        steps = (ancestry.step(location.version) for location in reversed(list_versions(store)))
        notes = [note_of_step(step) for step in steps if step is not None and step.job_key is not None]
    notes += notes_of_files(ancestry, files_of_jobs(manifest), now)
    with contextlib.suppress(LanceOpsError):
        # Only a shortcut: whoever cannot write here looks again next time.
        job_segments.begin_segments(store, notes)
    return notes


@dataclass(frozen=True, slots=True)
class Limits:
    """How many keys are kept, and for how long, besides those of versions that exist and of queries."""

    keep: timedelta
    number: int
    now: datetime
    existing: frozenset[int]

    def apply(self, notes: Iterable[JobNote], asked_for: frozenset[str]) -> list[JobNote]:
        """The notes that are kept."""
        there: list[JobNote] = []
        gone: list[JobNote] = []
        for note in notes:
            stays = note.version in self.existing or _job(note) in asked_for
            (there if stays else gone).append(note)
        return there + prune(gone, self.keep, self.number, self.now)

    def is_over(self, attempt: JobNote, asked_for: frozenset[str]) -> bool:
        """Whether nobody will ask for an attempt any more that came to nothing."""
        return self.now - attempt.moment > self.keep and _job(attempt) not in asked_for


def _job(note: JobNote) -> str:
    return note.uuid[: len(job_uuid_prefix(""))]


def gather(
    store: Store, head: ManifestLocation, head_file: str, steps: Iterable[Step], limits: Limits | None = None
) -> int:
    """Put notes, and what versions say, into one segment. To be called before versions are removed.

    Of a streaming query only the epoch that it may still ask for is kept (see `stream_notes`). Does nothing
    when no job key was ever used here. May be stopped anywhere, and run by several at once.

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
    segments, gathered, lineage = job_segments.read_segments(store)
    read = {step.version: step for step in steps}
    before = read.get(lineage.anchor)
    if lineage.anchor > head.version or (before is not None and before.file_name != lineage.anchor_file):
        gathered, lineage = [], Lineage()
    confirmed = {note.uuid for note in notes if note.version}
    tried = {note.uuid for note in notes} - confirmed
    by_uuid = {
        step.uuid: step for step in read.values() if step.uuid not in tried or was_built_on(store, head, step)
    }
    resolved = [_dated(note, by_uuid) for note in (*gathered, *notes)]
    resolved += [note_of_step(step) for step in by_uuid.values() if step.job_key is not None]
    if not resolved and not segments:
        return 0
    # A version that another transaction made than the note says belongs to another dataset.
    sound = [note for note in resolved if note.version not in read or read[note.version].uuid == note.uuid]
    asked_for = jobs_in_notes(store)
    past = {step.uuid for step in by_uuid.values() if is_past_epoch(step.job_key, asked_for)}
    recorded = {note.uuid for note in sound if note.version} | {note.uuid for note in gathered}
    told = Lineage(
        merge_ranges((step.version, step.version) for step in read.values() if step.below is not None),
        {step.version: step.below for step in read.values() if step.restores and step.below is not None},
        head.version,
        head_file,
    )
    kept = [note for note in best_notes(sound) if note.uuid in recorded - past]
    if limits is not None:
        kept = limits.apply(kept, asked_for)
    known = lineage.join(told)
    if len(segments) != 1 or set(kept) != set(gathered) or known != lineage:
        written = job_segments.write_segment(store, kept, known)
        store.delete_many([segment.path for segment in segments if segment.path != written.path])
    over = (note for note in notes if limits is not None and limits.is_over(note, asked_for))
    # Nothing will tell that they are of another dataset when the versions that show it are gone.
    foreign = (note for note in notes if note.version in read and read[note.version].uuid != note.uuid)
    done = (note for note in notes if note.uuid in recorded)
    store.delete_many({note.path for note in (*over, *foreign, *done)})
    return len(kept)


def _dated(note: JobNote, by_uuid: Mapping[str, Step]) -> JobNote:
    step = by_uuid.get(note.uuid) if note.version == 0 else None
    return note if step is None else replace(note, version=step.version, moment=step.moment)


def best_notes(notes: Iterable[JobNote]) -> list[JobNote]:
    """For each transaction the note that says most, the newest commit first."""
    best: dict[str, JobNote] = {}
    for note in notes:
        before = best.get(note.uuid)
        if before is None or (note.version, note.evidence) > (before.version, before.evidence):
            best[note.uuid] = note
    return sorted(best.values(), key=lambda note: note.version, reverse=True)


def was_built_on(store: Store, head: ManifestLocation, step: Step) -> bool:
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
