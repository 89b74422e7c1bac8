"""Folder of a job: its records below `_lance_ops/jobs`, each written once, put-if-absent.

Below a name made of the job key lie the header, which says that the job is open, and a folder for each time
that it was begun (an incarnation), so that what is left of one is never taken for the next:

    job                        key, operation, options, when it began, at which version; its incarnation
    <incarnation>/plan-*       groups of work, in rounds
    <incarnation>/reader       the rows that a reader gives values for, in its order
    <incarnation>/done-*       the result of a task, written by the task itself wherever it ran
    <incarnation>/driver-*     a heartbeat of who runs the job
    <incarnation>/commit-*     results that somebody is about to commit, or has committed
    <incarnation>/cancel       the wish that it end
    <incarnation>/closed       it has ended at a version, and what is left of it goes

Whoever finds a result there takes it over, so two drivers of one job share its plan and its tasks. The files
that tasks write are named for the job and its incarnation, so that a listing finds those that nobody names.
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
    """What says that a job is open.

    Attributes:
        key: Of the job.
        incarnation: Tells this beginning of the job from others.
        operation: What it does, e.g. "compact".
        version: Newest version when it began.
        began: When, by the clock of who began it; UTC.
        options: Of the operation, as JSON values.
    """

    key: str
    incarnation: str
    operation: str
    version: int
    began: datetime
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobFolder:
    """An incarnation of a job; travels to executors.

    Attributes:
        store: Root of the dataset.
        mark: What the key is known by here, see `mark_of`.
        incarnation: See `JobHeader`.
    """

    store: Store
    mark: str
    incarnation: str

    @property
    def names(self) -> str:
        """What files of the tasks are named for, in place of a job key."""
        return work_key(self.mark, self.incarnation)

    @property
    def prefix(self) -> str:
        """What the names of these files begin with."""
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
        """Write a record; whether there was none of that name, or an equal one (whose answer was lost).

        Raises:
            StorageError: It may be there or not.
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
        """The values of a record; None where there is none that can be read.

        Raises:
            InconsistentStoreError: The record is listed and is not found.
        """
        path = f"{self.path}/{name}"
        data = unless_gone(self.store, path, partial(self.store.read, path))
        return None if data is None else unseal(kind, data)

    def list(self) -> dict[str, ObjectInfo]:
        """Records of this incarnation by their names."""
        cut = len(self.path) + 1
        return {info.path[cut:]: info for info in self.store.list(self.path)}

    def is_open(self) -> bool:
        """Whether the job goes on: its header is there, and of this incarnation."""
        header = read_header_at(self.store, self.header_path)
        return header is not None and header.incarnation == self.incarnation

    def is_cancelled(self) -> bool:
        """Whether somebody wished that it end."""
        return self.store.exists(f"{self.path}/{CANCEL}")

    def check_open(self) -> None:
        """See that the job goes on.

        Raises:
            JobCancelledError: Somebody ended it.
        """
        if not self.is_open():
            raise self.ended()

    def ended(self) -> JobCancelledError:
        """The error of who is at work on a job that has ended."""
        return JobCancelledError(
            "the job was ended by somebody else while this run was at work",
            path=f"{self.store.uri}/{self.root}",
            hint="run it again to begin anew",
        )

    def files(self, *, unfinished: bool = False) -> Iterator[ObjectInfo]:
        """Data files that its tasks wrote, and what lies beside them; those that are not whole, if asked."""
        leads = [f"data/{self.prefix}"]
        if unfinished:
            leads.append(f"data/{TEMPORARY_PREFIX}{self.prefix}")
        for lead in leads:
            found = self.store.list("data", start_after=lead)
            yield from takewhile(lambda info, lead=lead: info.path.startswith(lead), found)  # type: ignore[misc]

    @property
    def segment_lead(self) -> str:
        """What the paths of its index segments begin with."""
        return f"{INDICES_DIRECTORY}/{job_uuid_prefix(work_key(self.mark))}"

    def segments(self) -> set[str]:
        """Directories of the index segments of this and earlier incarnations, each with a slash at its end.

        Their names do not tell incarnations apart: the next one may write some as soon as the header is gone.
        """
        lead = self.segment_lead
        found = self.store.list(INDICES_DIRECTORY, start_after=lead)
        own = takewhile(lambda info: info.path.startswith(lead), found)
        return {"/".join(info.path.split("/")[:2]) + "/" for info in own}


def mark_of(key: str) -> str:
    """What stands for the key of a job in the names of its files and folders."""
    return job_uuid_prefix(key).rstrip("-")


def find_open_job(store: Store, key: str) -> tuple[JobFolder, JobHeader] | None:
    """The job that is open under a key; None when there is none."""
    mark = mark_of(key)
    header = read_header_at(store, f"{JOBS_DIRECTORY}/{mark}/{HEADER}")
    return None if header is None else (JobFolder(store, mark, header.incarnation), header)


def read_header_at(store: Store, path: str) -> JobHeader | None:
    """The header in a file; None when it is gone or cannot be read.

    Raises:
        InconsistentStoreError: The file is listed and is not found.
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
    """Begin a job, or join the one that is open under its key.

    Returns:
        Its folder, and whether it was there already.
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
                # Torn by a power cut: nobody can be at work on it.
                store.delete(path)
            if found != data:
                continue
        return JobFolder(store, mark, incarnation), False


def _refuse_newer(data: bytes, path: str) -> None:
    if is_of_other_form(HEADER, data):
        raise UnsupportedError(
            "the record of this job is of a form that this release of lance_ops does not write",
            path=path,
            hint="run the job with the release that wrote it, or give another job key",
        )
