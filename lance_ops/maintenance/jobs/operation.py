"""Unfinished jobs of a dataset: list them with progress, and cancel them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.maintenance.jobs.ending import end_job, end_left_over
from lance_ops.maintenance.jobs.folder import CANCEL, PLAN, JobFolder, find_open_job
from lance_ops.maintenance.jobs.lease import living_drivers
from lance_ops.maintenance.jobs.listing import FoundJob, find_jobs
from lance_ops.maintenance.jobs.results import newest_results
from lance_ops.maintenance.store_clock import store_now
from lance_ops.maintenance.target import Target, store_of
from lance_ops.storage import Store
from lance_ops.table.transaction.transaction import check_job_key

JobState = Literal["running", "broken off", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """An unfinished job.

    Attributes:
        key: Its job key.
        operation: Its operation, e.g. "compact".
        state: "running" if active within two minutes; "cancelled" if it is about to end; else "broken off":
            run it again with its key to resume.
        began: Start, by the clock of its process; UTC.
        last_word: Last activity, by the clock of the store; UTC.
        groups_done: Finished groups of its present plan, committed or not.
        groups_total: Groups of that plan; 0 without one.
        bytes_done: Bytes read by the finished groups.
        bytes_total: Bytes read by all groups.
    """

    key: str
    operation: str
    state: JobState
    began: datetime
    last_word: datetime
    groups_done: int = 0
    groups_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return all fields as JSON values."""
        moments = {"began": self.began.isoformat(), "last_word": self.last_word.isoformat()}
        return {**asdict(self), **moments}


@public(target="uri_or_dataset")
def list_jobs(uri_or_dataset: Target, *, storage_options: Mapping[str, str] | None = None) -> list[JobStatus]:
    """The jobs of a dataset that have begun and not ended, the oldest first.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        storage_options: For opening the store.

    Examples:
        >>> lo.list_jobs("events.lance")
        []
    """
    store = store_of(uri_or_dataset, storage_options)
    found = [job for job in find_jobs(store) if job.header is not None]
    if not found:
        return []
    now = store_now(store)
    return sorted((_status(job, now) for job in found), key=lambda job: job.began)


@public(target="uri_or_dataset")
def cancel_job(
    uri_or_dataset: Target,
    job_key: str,
    *,
    force: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> bool:
    """Cancel a job: its commits are kept, its other files are removed.

    A running process stops when it finds the cancellation, after a task or 15 seconds, and removes the files.
    Without one, this is done now.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        job_key: Key of the job.
        force: Do it now even if the job seems to run; its process fails.
        storage_options: Options of the store.

    Returns:
        True if it has ended; else it will, see above.

    Raises:
        InvalidArgumentError: No such job is under way.

    Examples:
        >>> for job in lo.list_jobs("events.lance"):
        ...     lo.cancel_job("events.lance", job.key)
    """
    check_job_key(job_key)
    store = store_of(uri_or_dataset, storage_options)
    found = find_open_job(store, job_key)
    # An interrupted cancellation left no header, and is finished now.
    ended = end_left_over(store, job_key, settle=True) if found is None else None
    if ended is not None:
        return ended.complete
    if found is None:
        raise InvalidArgumentError(
            f"no unfinished job {job_key!r}",
            path=store.uri,
            field="job_key",
            hint="lance-ops jobs lists the unfinished ones",
        )
    job, _ = found
    job.put(CANCEL, CANCEL, {})
    if not force and _is_running(store, job):
        return False
    return end_job(job, settle=True).complete


def _is_running(store: Store, job: JobFolder) -> bool:
    return bool(living_drivers(job.list(), store_now(store)))


def _status(found: FoundJob, now: datetime) -> JobStatus:
    header = found.header
    assert header is not None
    state: JobState = "running" if found.is_running(now) else "broken off"
    if CANCEL in found.records:
        state = "cancelled"
    done = newest_results(found.records)
    groups = _present_plan(found)
    sizes = {str(group["task"]): int(group["bytes"]) for group in groups}
    return JobStatus(
        key=header.key,
        operation=header.operation,
        state=state,
        began=header.began,
        last_word=found.last_word,
        groups_done=len(sizes.keys() & done.keys()),
        groups_total=len(sizes),
        bytes_done=sum(size for task, size in sizes.items() if task in done),
        bytes_total=sum(sizes.values()),
    )


def _present_plan(found: FoundJob) -> list[dict[str, Any]]:
    plans = [name for name in found.records if name.startswith(f"{PLAN}-")]
    if not plans:
        return []
    newest = max(plans, key=lambda name: (found.records[name].modified, name))
    values = found.folder.read(newest, PLAN)
    return [] if values is None else list(values["groups"])
