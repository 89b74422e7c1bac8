"""Jobs of a dataset: open ones, their drivers, and the end of abandoned ones."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.jobs.ending import end_job
from lance_ops.maintenance.jobs.folder import HEADER, JOBS_DIRECTORY, JobFolder, JobHeader, read_header_at
from lance_ops.maintenance.jobs.lease import RESUMABLE_FOR, last_word, living_drivers
from lance_ops.storage import ObjectInfo, Store, is_temporary
from lance_ops.storage.lease import LEASE
from lance_ops.storage.paths import TEMPORARY_PREFIX
from lance_ops.table.transaction.transaction import job_uuid_prefix, work_key


@dataclass(frozen=True, slots=True)
class FoundJob:
    """An incarnation of a job that has records.

    Attributes:
        folder: Folder of the records.
        header: None if it was ended with remaining records.
        records: Records by name.
        last_word: Time of the newest record, by the store's clock.
        unknown: Another release of lance_ops wrote the header, or a power failure truncated it: it is not
            changed.
    """

    folder: JobFolder
    header: JobHeader | None
    records: dict[str, ObjectInfo]
    last_word: datetime
    unknown: bool = False

    def is_running(self, now: datetime) -> bool:
        """True if a driver was recently active."""
        return self.header is not None and bool(living_drivers(self.records, now))

    def is_dead(self, now: datetime) -> bool:
        """True if no process runs or will resume it."""
        if self.unknown:
            return False
        return self.header is None or now - self.last_word >= RESUMABLE_FOR


def find_jobs(store: Store) -> list[FoundJob]:
    """Return all jobs with records, ended ones included."""
    return _jobs_among(store, store.list(JOBS_DIRECTORY))


def _jobs_among(store: Store, infos: Iterable[ObjectInfo]) -> list[FoundJob]:
    headers: dict[str, ObjectInfo] = {}
    records: dict[tuple[str, str], dict[str, ObjectInfo]] = {}
    for info in infos:
        mark, _, rest = info.path.removeprefix(f"{JOBS_DIRECTORY}/").partition("/")
        incarnation, _, name = rest.partition("/")
        if rest == HEADER:
            headers[mark] = info
        elif name:
            records.setdefault((mark, incarnation), {})[name] = info
    return list(_found(store, headers, records))


def _found(
    store: Store,
    headers: dict[str, ObjectInfo],
    records: dict[tuple[str, str], dict[str, ObjectInfo]],
) -> Iterator[FoundJob]:
    unknown: set[str] = set()
    for mark, info in headers.items():
        header = read_header_at(store, info.path)
        if header is None:
            unknown.add(mark)
            continue
        folder = JobFolder(store, mark, header.incarnation)
        found = records.pop((mark, header.incarnation), {})
        word = last_word(found, info.modified)
        assert word is not None
        yield FoundJob(folder, header, found, word)
    for (mark, incarnation), found in records.items():
        word = last_word(found)
        assert word is not None
        yield FoundJob(JobFolder(store, mark, incarnation), None, found, word, mark in unknown)


def job_prefixes(store: Store) -> frozenset[str]:
    """Return the prefixes of files of jobs with records: others must not remove these."""
    found = find_jobs(store)
    segments = {job_uuid_prefix(work_key(job.folder.mark)) for job in found}
    return frozenset({job.folder.prefix for job in found} | segments)


def job_prefix_of(path: str) -> str:
    """Return the job prefix in the name of a data file or index segment, finished or not."""
    name = path.split("/")[1] if "/" in path else path
    return name.removeprefix(TEMPORARY_PREFIX)[: len(job_uuid_prefix(""))]


def sweep_jobs(store: Store, now: datetime) -> int:
    """End abandoned jobs; removes headers without an incarnation, too.

    Failures are left to the next call.

    Args:
        store: Root of the dataset.
        now: The time by the store's clock.

    Returns:
        Number of ended jobs.
    """
    ended = 0
    infos = list(store.list(JOBS_DIRECTORY))
    for info in infos:
        if _is_unnamed_header(info.path) and now - info.modified >= LEASE:
            with contextlib.suppress(LanceOpsError):
                store.delete(info.path)
    for job in _jobs_among(store, infos):
        if job.is_dead(now):
            try:
                ended += end_job(job.folder, settle=False).complete
            except LanceOpsError:
                continue
    return ended


def _is_unnamed_header(path: str) -> bool:
    """Return whether a file is a header without an incarnation, which its writer had not named yet."""
    rest = path.removeprefix(f"{JOBS_DIRECTORY}/").partition("/")[2]
    return "/" not in rest and is_temporary(rest)
