"""Lease of a job: a file that its driver writes anew while it is at work, aged by the store's clock.

Where the file is young, somebody is at work; where it is old, nobody knows. So a lease decides nothing that
could do harm: a job that is ended while its driver is only slow makes that driver fail (`ending` says why it
cannot commit any more). It tells people whether to wait, and cleanup for how long a job is to be left alone.
"""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from lance_ops.maintenance.jobs.folder import DRIVER, JobFolder
from lance_ops.maintenance.jobs.sealed import seal
from lance_ops.storage import ObjectInfo
from lance_ops.storage.lease import Heartbeat, is_alive
from lance_ops.storage.retry import discard, is_there

RESUMABLE_FOR = timedelta(days=1)
"""How long a job that nobody runs is kept to be resumed; then the next cleanup or compaction removes it."""


@dataclass(slots=True)
class Driver:
    """Who runs a job: holds its lease while a `with` block lasts.

    Attributes:
        job: The job.
        id: Tells it apart from other drivers of the job.
        cancelled: Set when the job was seen to be cancelled.
    """

    job: JobFolder
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    cancelled: threading.Event = field(default_factory=threading.Event)
    _heartbeat: Heartbeat | None = None

    @property
    def path(self) -> str:
        """Its file."""
        return f"{self.job.path}/{DRIVER}-{self.id}"

    def __enter__(self) -> Self:
        self._beat()
        self._heartbeat = Heartbeat(self._renew)
        return self

    def __exit__(self, *_: object) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        # What is broken off shows as that at once.
        discard(self.job.store, self.path)

    def check(self) -> None:
        """See that the job was not cancelled, as far as is known.

        Raises:
            JobCancelledError: It was.
        """
        if self.cancelled.is_set():
            raise self.job.ended()

    def look(self) -> None:
        """Ask the store whether the job is to stop or has ended."""
        store, header = self.job.store, self.job.header_path
        if self.job.is_cancelled() or not is_there(store, header):
            self.cancelled.set()

    def others(self) -> bool:
        """Whether other drivers of the job count as at work."""
        self._beat()
        records = self.job.list()
        mine = records[self.path.rpartition("/")[2]]
        return living_drivers(records, mine.modified) != [self.id]

    def _renew(self) -> None:
        self.look()
        if not self.cancelled.is_set():
            self._beat()

    def _beat(self) -> None:
        self.job.store.put(self.path, seal(DRIVER, {}), durable="never")


def last_word(records: Mapping[str, ObjectInfo], began: datetime | None = None) -> datetime | None:
    """When anybody at work on a job was heard of last, tasks included, by the store's clock."""
    words = [info.modified for info in records.values()]
    return max([*words, *([] if began is None else [began])], default=None)


def living_drivers(records: Mapping[str, ObjectInfo], now: datetime) -> list[str]:
    """Ids of the drivers that count as at work.

    Args:
        records: Of the job, as `JobFolder.list` names them.
        now: By the store's clock.
    """
    lead = f"{DRIVER}-"
    return [
        name.removeprefix(lead)
        for name, info in records.items()
        if name.startswith(lead) and is_alive(info, now)
    ]
