"""Earlier record: job keys as kept by releases before the record in the config (`job_record`).

A commit left two empty files, its notes: one before the attempt, one with the version that it made. A cleanup
gathered notes into segments, sorted files with the known lineage (`Lineage`). Without both, the names of
transaction files and data files are used, which begin with the digest of the job key.

The first commit with a job key imports all of it (`earlier_jobs`). The files stay, for a restore to a version
without a record. Processes of earlier releases refuse job keys from then on (`job_record.SEAL`); a commit
that one of them had in flight is found by its note for 90 days (`find_earlier_job` with a record). Remove
this module when no table has such files any more.
"""

import json
import re
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from lance_ops.errors import CorruptFileError, FileMissingError, JobUnprovenError, NotFoundError
from lance_ops.storage import Store
from lance_ops.storage.retry import retry
from lance_ops.table.commit.jobs.ancestry import Ancestry, Lineage, Place
from lance_ops.table.commit.jobs.job_record import (
    BEGUN,
    DIRECTORY,
    KEEP_JOB_KEYS,
    SEAL,
    JobEntry,
    JobRecord,
    begun_at,
    evidence_of,
    file_mark,
    unproven,
)
from lance_ops.table.commit.lineage import Standing, find_standing
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import ManifestLocation, list_versions, manifest_path
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import present_files
from lance_ops.table.transaction.transaction import (
    TRANSACTIONS_DIRECTORY,
    job_uuid_prefix,
    read_transaction,
)

NOTES = f"{DIRECTORY}/notes"
SEGMENTS = f"{DIRECTORY}/segments"

_NOTE = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.([0-9]{1,20})\.([0-9a-f]{16})"
    r"(?:\.([0-9]{1,20})\.([0-9]{1,18}))?"
)
# The third group begins with the 8 of a job; for some keys it is the second one, followed by a 4, which also
# occurs in some random transactions without job key.
_KEYED_FILE = re.compile(
    r"([0-9]{1,20})-([0-9a-f]{8}-(?:[0-9a-f]{4}-8[0-9a-f]{3}|8[0-9a-f]{3}-4[0-9a-f]{3})-[0-9a-f]{4}-[0-9a-f]{12})\.txn"
)
_SEGMENT = re.compile(r"[0-9a-f]{32}-([0-9]{1,9})-([0-9]{1,20})\.keys")
_FOOTER = 16
# Bytes of an entry: UUID, read version, version, microseconds, evidence.
_SIZE = 48
_PAUSES = (0.0,) * 4
_PREFIX = len(job_uuid_prefix(""))
_UUID = 36
_ATTEMPT_AGE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class JobNote:
    """An attempt of a job, or its commit.

    Attributes:
        uuid: Of the transaction, or of a file that the job added.
        read_version: Read version of the transaction.
        evidence: See `JobEntry`.
        version: Version that it made; 0 when that is not known.
        modified: When the note of an attempt was written.
    """

    uuid: str
    read_version: int
    evidence: int = 0
    version: int = 0
    modified: datetime | None = None


def has_record_files(store: Store) -> bool:
    """Return whether there are files of an earlier record, or a note that the table had a record."""
    return any(
        info.path == BEGUN or (info.path.startswith((NOTES, SEGMENTS)) and info.path != SEAL)
        for info in store.list(DIRECTORY)
    )


def find_earlier_job(
    store: Store, head: ManifestLocation, manifest: Manifest, prefix: str, record: JobRecord | None
) -> JobEntry | None:
    """Find a job that is not in the record of the newest version.

    Args:
        store: Root of the dataset.
        head: The newest version.
        manifest: Its manifest.
        prefix: Beginning of the UUIDs of the transactions of the job.
        record: Record of that version: only commits that it does not have are searched for.

    Raises:
        CorruptFileError: A segment is damaged.
        JobUnprovenError: The table had a record, no remaining version has it, and no file proves the job.
    """
    found, is_whole = _judged(Ancestry(store, head, manifest), prefix, record)
    if not found and not is_whole:
        raise unproven(store, "no remaining version has the record of job keys")
    return next(iter(found), None)


def earlier_jobs(
    store: Store, head: ManifestLocation, manifest: Manifest, restored: Manifest | None = None
) -> tuple[list[JobEntry], bool]:
    """Return all jobs in the lineage of a version; jobs that cannot be proven have version 0.

    Also returns whether the list is complete: the table may have had a record that was lost.

    Args:
        store: Root of the dataset.
        head: The newest version.
        manifest: Its manifest.
        restored: An earlier version to start from instead.

    Raises:
        CorruptFileError: A segment is damaged.
    """
    jobs, is_whole = _judged(Ancestry(store, head, manifest, restored or manifest), "", None)
    return jobs[::-1], is_whole


def _judged(ancestry: Ancestry, prefix: str, record: JobRecord | None) -> tuple[list[JobEntry], bool]:
    """Return jobs that are done, or may be, one entry each, newest first; and whether no record is lost."""
    found, done, is_whole = _candidates(ancestry, prefix, record)
    present = frozenset(map(file_mark, present_files(ancestry.start))) if found else frozenset()
    untold: dict[str, JobEntry] = {}
    for note in found:
        job = note.uuid[:_PREFIX]
        if job in done:
            continue
        place = Place.UNKNOWN
        if not note.version:
            step, is_known = ancestry.find(note.uuid, max(note.read_version, record.since if record else 0))
            if step is not None and step.below is not None and step.job_key is None:
                # One in 16 random UUIDs looks like one of a job.
                continue
            if step is not None and _was_built_on(ancestry, step.version):
                note = replace(note, version=step.version)
            elif is_known:
                place = Place.OUTSIDE
        if note.evidence in present:
            # If the version is unknown, it is above the read version.
            version = note.version or note.read_version + 1
            done[job] = JobEntry(note.uuid, version, note.evidence)
            continue
        if note.version:
            place = ancestry.place(note.uuid, note.version)
        if place is Place.INSIDE:
            done[job] = JobEntry(note.uuid, note.version, note.evidence)
        elif place is Place.UNKNOWN:
            untold[job] = JobEntry(note.uuid, 0, note.evidence)
    return [*done.values(), *(entry for job, entry in untold.items() if job not in done)], is_whole


def _candidates(
    ancestry: Ancestry, prefix: str, record: JobRecord | None
) -> tuple[list[JobNote], dict[str, JobEntry], bool]:
    """Return notes of transactions that may belong to a job, newest first, and jobs that are done.

    Also returns whether the done jobs are complete, as far as a record had them.
    """
    store = ancestry.store
    found: list[JobNote] = []
    done: dict[str, JobEntry] = {}
    is_whole = True
    if record is None or datetime.now(UTC) - record.begun < KEEP_JOB_KEYS:
        # In this order: notes are written into a segment before they are removed.
        notes = _list_notes(store, prefix)
        segments, gathered, lineage, is_sealed = _read_segments(store, 0 if record is None else record.since)
        if notes or gathered:
            ancestry.known = _of_this_dataset(ancestry, lineage)
        found = [note for note in (*notes, *gathered) if note.uuid.startswith(prefix)]
        if record is None and (is_sealed or not segments):
            found += [note for note in _unrecorded(ancestry) if note.uuid.startswith(prefix)]
            # A failed commit leaves the seal alone.
            begun = begun_at(store) if is_sealed else None
            lost = [] if begun is None else _lost_record(ancestry, begun)
            is_whole = lost is not None
            done = {job.uuid[:_PREFIX]: job for job in lost or () if job.uuid.startswith(prefix)}
    files: dict[str, list[str]] = {}
    for path, name in _named_files(ancestry.start):
        if name.startswith(prefix) if prefix else is_of_job(name):
            files.setdefault(name[:_PREFIX], []).append(path)
    best: dict[str, JobNote] = {}
    for note in found:
        before = best.get(note.uuid)
        if before is None or (note.version, note.evidence) > (before.version, before.evidence):
            best[note.uuid] = note
    notes = [note for note in best.values() if record is None or _is_beside(note, record)]
    marks = {note.evidence for note in notes if note.version}
    untold = {job: paths for job, paths in files.items() if marks.isdisjoint(map(file_mark, paths))}
    notes += _notes_of_files(ancestry, untold)
    return sorted(notes, key=lambda note: note.version, reverse=True), done, is_whole


def _lost_record(ancestry: Ancestry, begun: int) -> list[JobEntry] | None:
    """Return jobs of the record that the lineage had before pylance replaced the whole config.

    None if it is unknown, because versions, or its file, were removed since then.
    """
    for version in ancestry.walk():
        if version is not None and version < begun:
            break
        if version is None or ancestry.step(version) is None:
            return None
        path = manifest_path(version, ancestry.head.scheme)
        location = ManifestLocation(version, path, scheme=ancestry.head.scheme)
        manifest = read_manifest(ancestry.store, location)
        record = JobRecord.of(manifest.config, ancestry.store.uri, manifest.base_paths)
        if record is not None and _was_built_on(ancestry, version):
            try:
                return [*record.filed(ancestry.store), *record.recent]
            except JobUnprovenError:
                return None
    return []


def _is_beside(note: JobNote, record: JobRecord) -> bool:
    """Return whether a process of an earlier release may have committed it since the table has a record."""
    if note.version:
        return note.version >= record.since
    # A process tries right after it has written the note.
    return note.modified is not None and note.modified > record.begun - _ATTEMPT_AGE


def _unrecorded(ancestry: Ancestry) -> Iterator[JobNote]:
    """Commits of jobs from before any record."""
    store = ancestry.store
    names = {info.path.rpartition("/")[2] for info in store.list(TRANSACTIONS_DIRECTORY)}
    if ancestry.manifest.transaction_file in names:
        for found in filter(None, map(_KEYED_FILE.fullmatch, names)):
            yield JobNote(found[2], int(found[1]))
        return
    # Without transaction files, or in a copy without them, the manifests are read.
    for location in reversed(list_versions(store)):
        step = ancestry.step(location.version)
        if step is not None and step.job_key is not None:
            yield JobNote(step.uuid, step.version - 1, version=step.version)


def _notes_of_files(ancestry: Ancestry, files: Mapping[str, Sequence[str]]) -> Iterator[JobNote]:
    """Return notes of the commits that added files to a version.

    Only a commit of the job puts its files into a version, so a version that uses one has the job in its
    lineage. If the commit can no longer be read, its note has the UUID of a file, and the newest version
    that may have been the job's own; 0 where that is not known.
    """
    unread = dict(files)
    last = 0
    for version in ancestry.walk() if unread else ():
        step = None if version is None else ancestry.step(version)
        if version is None or step is None:
            last = version or 0
            break
        if (
            step.job_key is not None
            and (paths := unread.pop(job_uuid_prefix(step.job_key), None)) is not None
        ):
            yield JobNote(step.uuid, step.version - 1, evidence_of(paths), step.version)
        if not unread:
            break
    for paths in unread.values():
        yield JobNote(min(paths).split("/")[1][:_UUID], 0, evidence_of(paths), last)


def _named_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Return files that may be named for a job, with their UUIDs; none of other bases."""
    for fragment in manifest.fragments:
        for file in fragment.files:
            if file.base_id is None and len(file.path) == _UUID + len(".lance"):
                yield f"data/{file.path}", file.path[:_UUID]
    for index in manifest.indices:
        if index.base_id is None:
            yield f"{index.directory}/", str(index.uuid)


def is_of_job(name: str) -> bool:
    """Return whether a UUID is certainly derived from a job key; some that are do not show it.

    Args:
        name: The UUID, or the name of a file that begins with one; names that pylance gives have no hyphens.
    """
    return name[14:15] == "8" and name[13:14] == "-" == name[18:19]


def _was_built_on(ancestry: Ancestry, version: int) -> bool:
    """Return whether others built on a version: a writer that died after its put could not check that."""
    store, head = ancestry.store, ancestry.head
    if version >= head.version:
        return True
    location = ManifestLocation(version, manifest_path(version, head.scheme), scheme=head.scheme)
    try:
        manifest = read_manifest(store, location)
        transaction = read_transaction(store, manifest)
    except NotFoundError:
        return False
    if transaction is None:
        return False
    return find_standing(store, location, manifest, transaction) is not Standing.ORPHANED


def _of_this_dataset(ancestry: Ancestry, lineage: Lineage) -> Lineage:
    """Return the record, unless it belongs to a dataset that was at this location before."""
    if lineage.anchor > ancestry.head.version:
        return Lineage()
    step = ancestry.step(lineage.anchor) if lineage.anchor else None
    return Lineage() if step is not None and step.file_name != lineage.anchor_file else lineage


def _list_notes(store: Store, prefix: str) -> list[JobNote]:
    # The oldest releases put keys of two characters in a folder of that name, which is in the same range.
    lead = f"{NOTES}/{prefix[:2]}"
    notes = []
    for info in takewhile(
        lambda info: info.path.startswith(lead), store.list(NOTES, start_after=lead if prefix else None)
    ):
        found = _NOTE.fullmatch(info.path.rpartition("/")[2])
        if found is not None:
            name, read_version, evidence, version, _ = found.groups()
            notes.append(
                JobNote(name, int(read_version), int(evidence, 16), int(version or 0), info.modified)
            )
    return notes


def _read_segments(store: Store, since: int) -> tuple[int, list[JobNote], Lineage, bool]:
    """Read the segments that were written when there was a version, and see whether there is the seal."""

    def read_listed() -> tuple[int, list[JobNote], Lineage, bool]:
        notes: list[JobNote] = []
        lineage, number, is_sealed = Lineage(), 0, False
        for info in store.list(SEGMENTS):
            found = _SEGMENT.fullmatch(info.path.rpartition("/")[2])
            is_sealed |= info.path == SEAL
            if found is None or info.path == SEAL or int(found[2]) < since:
                continue
            more, known = _read_segment(store, info.path, int(found[1]))
            notes += more
            lineage = lineage.join(known)
            number += 1
        return number, notes, lineage, is_sealed

    # A cleanup of an earlier release put a listed segment into another one.
    return retry(read_listed, _PAUSES, on=FileMissingError)


def _read_segment(store: Store, path: str, count: int) -> tuple[list[JobNote], Lineage]:
    data = bytes(memoryview(store.read(path)))
    body, footer = data[:-_FOOTER], data[-_FOOTER:]
    split = count * _SIZE
    if len(body) < split or footer != b"LOJK\1\0\0\0" + zlib.crc32(body).to_bytes(8, "little"):
        if not count:
            # Truncated by a power failure. No key is lost, and less lineage never gives a wrong answer.
            return [], Lineage()
        raise CorruptFileError(
            "the earlier record of job keys is damaged, so the finished jobs are unknown",
            path=f"{store.uri}/{path}",
            hint="restore the file from a copy; without it, jobs would run a second time",
        )
    notes = [_entry(body[place : place + _SIZE]) for place in range(0, split, _SIZE)]
    return notes, Lineage.from_json(json.loads(body[split:]))


def _entry(data: bytes) -> JobNote:
    read_version, version, _, evidence = (
        int.from_bytes(data[place : place + 8], "little") for place in range(16, _SIZE, 8)
    )
    return JobNote(str(uuid.UUID(bytes=data[:16])), read_version, evidence, version)
