"""Jobs that the files of a version tell of: the record of job keys may be lost, the rows are there.

The names of the files that are written under a job key begin with a digest of the key. Only a commit of the
job puts them into a version, so a version that uses one has the job in its lineage, whoever removed the
version that the job made, its transaction and the record (a copy of the folder may lack it).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from lance_ops.table.commit.jobs.ancestry import Ancestry, Step
from lance_ops.table.commit.jobs.job_record import JobNote, evidence_of, is_of_job
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.transaction import job_uuid_prefix

_PREFIX = len(job_uuid_prefix(""))
_UUID = 36


def files_of_job(manifest: Manifest, prefix: str) -> list[str]:
    """Paths of the files of a job that a version uses."""
    return [path for path, name in _named_files(manifest) if name.startswith(prefix)]


def files_of_jobs(manifest: Manifest) -> Mapping[str, Sequence[str]]:
    """Paths of the files that are those of jobs for certain, by the prefix of the job."""
    found: dict[str, list[str]] = {}
    for path, name in _named_files(manifest):
        if is_of_job(name):
            found.setdefault(name[:_PREFIX], []).append(path)
    return found


def notes_of_files(
    ancestry: Ancestry, files: Mapping[str, Sequence[str]], now: datetime
) -> Iterator[JobNote]:
    """Notes of the commits that brought files to the newest version.

    Where a commit cannot be read any more, its note has a UUID that is none of a transaction, and the newest
    version that may have been the job's own; 0 where that is not known.

    Args:
        ancestry: Of the newest version.
        files: Some of its files, by the prefix of their job.
        now: The moment from which on such notes are kept.
    """
    unread = dict(files)
    last = 0
    for version in ancestry.walk() if unread else ():
        step = None if version is None else ancestry.step(version)
        if version is None or step is None:
            last = version or 0
            break
        if step.job_key is not None and unread.pop(job_uuid_prefix(step.job_key), None) is not None:
            yield note_of_step(step)
        if not unread:
            break
    for paths in unread.values():
        yield JobNote(_name(min(paths)), 0, evidence_of(paths), version=last, moment=now)


def note_of_step(step: Step) -> JobNote:
    """What a version says of its own commit, as a note."""
    return JobNote(step.uuid, max(0, step.version - 1), version=step.version, moment=step.moment)


def _named_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Files that may be named for a job, as `present_files` has them, and their UUIDs.

    Those of other bases belong to other datasets, whose jobs are not these.
    """
    for fragment in manifest.fragments:
        for file in fragment.files:
            if file.base_id is None and len(file.path) == _UUID + len(".lance"):
                yield f"data/{file.path}", file.path[:_UUID]
    for index in manifest.indices:
        if index.base_id is None:
            yield f"{index.directory}/", str(index.uuid)


def _name(path: str) -> str:
    return path.split("/")[1][:_UUID]
