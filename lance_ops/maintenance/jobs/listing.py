"""Jobs of a dataset: which are open, who is at work on them, and the end of those that nobody will resume."""

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
        folder: Where they lie.
        header: None when it was ended, and something is left of it.
        records: By their names.
        last_word: When the newest of them was written, by the store's clock.
        unknown: Another release of lance_ops wrote the header, or a power cut tore it: it is left alone.
    """

    folder: JobFolder
    header: JobHeader | None
    records: dict[str, ObjectInfo]
    last_word: datetime
    unknown: bool = False

    def is_running(self, now: datetime) -> bool:
        """Whether a driver was heard of lately."""
        return self.header is not None and bool(living_drivers(self.records, now))

    def is_dead(self, now: datetime) -> bool:
        """Whether nobody is at work on it, and nobody will resume it."""
        if self.unknown:
            return False
        return self.header is None or now - self.last_word >= RESUMABLE_FOR


def find_jobs(store: Store) -> list[FoundJob]:
    """All jobs that have records, also what is left of those that ended."""
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
    """What the names of files begin with that jobs wrote which have records: nobody else removes these."""
    found = find_jobs(store)
    segments = {job_uuid_prefix(work_key(job.folder.mark)) for job in found}
    return frozenset({job.folder.prefix for job in found} | segments)


def job_prefix_of(path: str) -> str:
    """The part of the name of a data file or index segment, finished or not, that tells of its job."""
    name = path.split("/")[1] if "/" in path else path
    return name.removeprefix(TEMPORARY_PREFIX)[: len(job_uuid_prefix(""))]


def sweep_jobs(store: Store, now: datetime) -> int:
    """End the jobs that nobody is at work on and nobody will resume; headers that were never named go, too.

    What fails stays for the next time.

    Args:
        store: Root of the dataset.
        now: By the store's clock.

    Returns:
        How many were ended.
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
    """Whether a file is a header that its writer had not named yet: it belongs to no incarnation."""
    rest = path.removeprefix(f"{JOBS_DIRECTORY}/").partition("/")[2]
    return "/" not in rest and is_temporary(rest)
