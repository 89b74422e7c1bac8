"""Folder of a job: its records below `_lance_ops/jobs`, each written once, put-if-absent.

Below a name made of the job key lie the header, which says that the job is open, and a folder for each time
that it was begun (an incarnation), so that what is left of one is never taken for the next:

    job                        key, operation, options, when it began, at which version; its incarnation
    <incarnation>/plan-*       groups of work, in rounds
    <incarnation>/reader       the rows that a reader gives values for, in its order
    <incarnation>/done-*       the result of a task, written by the task itself wherever it ran
    <incarnation>/driver-*     a heartbeat of who runs the job
    <incarnation>/commit-*     results that a driver is about to commit, or has committed
    <incarnation>/cancel       the wish that it end
    <incarnation>/closed       it has ended at a version, and what is left of it goes

A driver that finds a result there takes it over, so two drivers of one job share its plan and its tasks. The
files that tasks write are named for the job and its incarnation, so that a listing finds orphans.
Neither implementation's cleanup touches `_lance_ops`; ours leaves the files of jobs alone as well.
"""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Any

from lance_ops.errors import (
    AlreadyExistsError,
    FileMissingError,
    JobCancelledError,
    UnsupportedError,
)
from lance_ops.maintenance.jobs.sealed import is_of_other_form, seal, unseal
from lance_ops.storage import ObjectInfo, Store
from lance_ops.storage.paths import TEMPORARY_PREFIX
from lance_ops.storage.retry import unless_gone
from lance_ops.table.transaction.transaction import job_uuid_prefix, work_key

JOBS_DIRECTORY = "_lance_ops/jobs"
INDICES_DIRECTORY = "_indices"

HEADER = "job"
PLAN, DONE, DRIVER, COMMIT, CANCEL, CLOSED = "plan", "done", "driver", "commit", "cancel", "closed"
READER = "reader"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeader:
    """Header of an open job.

    Attributes:
        key: Job key.
        incarnation: Identifies this start of the job.
        operation: Its operation, e.g. "compact".
        version: Newest version at its start.
        began: Start, by the clock of its process; UTC.
        options: Options of the operation, as JSON values.
    """

    key: str
    incarnation: str
    operation: str
    version: int
    began: datetime
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobFolder:
    """An incarnation of a job; serializable for executors.

    Attributes:
        store: Root of the dataset.
        mark: Mark of the key, see `mark_of`.
        incarnation: See `JobHeader`.
    """

    store: Store
    mark: str
    incarnation: str

    @property
    def names(self) -> str:
        """Name part of the tasks' files, instead of a job key."""
        return work_key(self.mark, self.incarnation)

    @property
    def prefix(self) -> str:
        """Prefix of the names of these files."""
        return job_uuid_prefix(self.names)

    @property
    def root(self) -> str:
        """Folder of all incarnations."""
        return f"{JOBS_DIRECTORY}/{self.mark}"

    @property
    def path(self) -> str:
        """Folder of this incarnation."""
        return f"{self.root}/{self.incarnation}"

    @property
    def header_path(self) -> str:
        """File of the header."""
        return f"{self.root}/{HEADER}"

    def put(self, name: str, kind: str, values: Mapping[str, object]) -> bool:
        """Write a record; returns whether it is new, or equal to an existing one (after a lost response).

        Raises:
            StorageError: It may exist or not.
        """
        data = seal(kind, values)
        path = f"{self.path}/{name}"
        try:
            self.store.put(path, data, if_absent=True)
        except AlreadyExistsError:
            with contextlib.suppress(FileMissingError):
                return bytes(self.store.read(path)) == data
            return False
        return True

    def read(self, name: str, kind: str) -> dict[str, Any] | None:
        """Return the values of a record; None if missing or unreadable.

        Raises:
            InconsistentStoreError: The record is listed but not found.
        """
        path = f"{self.path}/{name}"
        data = unless_gone(self.store, path, partial(self.store.read, path))
        return None if data is None else unseal(kind, data)

    def list(self) -> dict[str, ObjectInfo]:
        """Return records of this incarnation by name."""
        cut = len(self.path) + 1
        return {info.path[cut:]: info for info in self.store.list(self.path)}

    def is_open(self) -> bool:
        """Return whether the job continues: its header exists, for this incarnation."""
        header = read_header_at(self.store, self.header_path)
        return header is not None and header.incarnation == self.incarnation

    def is_cancelled(self) -> bool:
        """Return whether the job was cancelled."""
        return self.store.exists(f"{self.path}/{CANCEL}")

    def check_open(self) -> None:
        """Check that the job continues.

        Raises:
            JobCancelledError: It was ended.
        """
        if not self.is_open():
            raise self.ended()

    def ended(self) -> JobCancelledError:
        """Return the error for a process whose job has ended."""
        return JobCancelledError(
            "another process ended the job during this run",
            path=f"{self.store.uri}/{self.root}",
            hint="run it again to start over",
        )

    def files(self, *, unfinished: bool = False) -> Iterator[ObjectInfo]:
        """Return data files of its tasks, with side files; on request also incomplete ones."""
        leads = [f"data/{self.prefix}"]
        if unfinished:
            leads.append(f"data/{TEMPORARY_PREFIX}{self.prefix}")
        for lead in leads:
            found = self.store.list("data", start_after=lead)
            yield from takewhile(lambda info, lead=lead: info.path.startswith(lead), found)  # type: ignore[misc]

    @property
    def segment_lead(self) -> str:
        """Prefix of the paths of its index segments."""
        return f"{INDICES_DIRECTORY}/{job_uuid_prefix(work_key(self.mark))}"

    def segments(self) -> set[str]:
        """Return folders of the index segments of this and earlier incarnations, each with a final slash.

        Their names do not distinguish incarnations: the next one may write some as soon as the header is
        removed.
        """
        lead = self.segment_lead
        found = self.store.list(INDICES_DIRECTORY, start_after=lead)
        own = takewhile(lambda info: info.path.startswith(lead), found)
        return {"/".join(info.path.split("/")[:2]) + "/" for info in own}


def mark_of(key: str) -> str:
    """Return the mark of a job key in names of files and folders."""
    return job_uuid_prefix(key).rstrip("-")


def find_open_job(store: Store, key: str) -> tuple[JobFolder, JobHeader] | None:
    """Return the open job of a key; None without one."""
    mark = mark_of(key)
    header = read_header_at(store, f"{JOBS_DIRECTORY}/{mark}/{HEADER}")
    return None if header is None else (JobFolder(store, mark, header.incarnation), header)


def read_header_at(store: Store, path: str) -> JobHeader | None:
    """Return the header in a file; None if missing or unreadable.

    Raises:
        InconsistentStoreError: The file is listed but not found.
    """
    data = unless_gone(store, path, partial(store.read, path))
    values = None if data is None else unseal(HEADER, data)
    if values is None:
        return None
    return JobHeader(
        key=str(values["key"]),
        incarnation=str(values["incarnation"]),
        operation=str(values["operation"]),
        version=int(values["version"]),
        began=datetime.fromisoformat(values["began"]),
        options=values["options"],
    )


def open_job(
    store: Store, key: str, *, operation: str, version: int, options: Mapping[str, object]
) -> tuple[JobFolder, bool]:
    """Start a job, or join the open one with its key.

    Returns:
        Its folder, and whether it existed.
    """
    mark = mark_of(key)
    path = f"{JOBS_DIRECTORY}/{mark}/{HEADER}"
    while True:
        header = read_header_at(store, path)
        if header is not None:
            return JobFolder(store, mark, header.incarnation), True
        incarnation = uuid.uuid4().hex[:12]
        values: dict[str, object] = {
            "key": key,
            "incarnation": incarnation,
            "operation": operation,
            "version": version,
            "began": datetime.now(UTC).isoformat(),
            "options": options,
        }
        data = seal(HEADER, values)
        try:
            store.put(path, data, if_absent=True)
        except AlreadyExistsError:
            try:
                found = bytes(store.read(path))
            except FileMissingError:
                continue
            if found != data and unseal(HEADER, found) is None:
                _refuse_newer(found, f"{store.uri}/{path}")
                # Truncated by a power failure: no process can run it.
                store.delete(path)
            if found != data:
                continue
        return JobFolder(store, mark, incarnation), False


def _refuse_newer(data: bytes, path: str) -> None:
    if is_of_other_form(HEADER, data):
        raise UnsupportedError(
            "the record of this job has a form that this release of lance_ops does not write",
            path=path,
            hint="run the job with the release that wrote it, or give another job key",
        )
