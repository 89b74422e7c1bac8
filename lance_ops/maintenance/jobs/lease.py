"""Lease of a job: a file that its driver renews while it runs, with its age by the store's clock.

A recent file means a running driver; an old one means that this is unknown. So a lease decides nothing that
could do harm: ending the job of a slow driver makes that driver fail (`ending` shows why it cannot commit any
more). The lease shows people whether to wait, and cleanup how long to keep the job.
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
"""Time for which an interrupted job can be resumed; then the next cleanup or compaction removes it."""


@dataclass(slots=True)
class Driver:
    """Driver of a job: holds its lease during a `with` block.

    Attributes:
        job: The job.
        id: Identifies it among drivers of the job.
        cancelled: Set when a cancellation was found.
    """

    job: JobFolder
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    cancelled: threading.Event = field(default_factory=threading.Event)
    _heartbeat: Heartbeat | None = None

    @property
    def path(self) -> str:
        """Path of its file."""
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
        """Check that the job was not cancelled, as far as known.

        Raises:
            JobCancelledError: It was.
        """
        if self.cancelled.is_set():
            raise self.job.ended()

    def look(self) -> None:
        """Read from the store whether the job was cancelled or has ended."""
        store, header = self.job.store, self.job.header_path
        if self.job.is_cancelled() or not is_there(store, header):
            self.cancelled.set()

    def others(self) -> bool:
        """Return whether other drivers of the job are running."""
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
    """Return the time of the last activity on a job, tasks included, by the store's clock."""
    words = [info.modified for info in records.values()]
    return max([*words, *([] if began is None else [began])], default=None)


def living_drivers(records: Mapping[str, ObjectInfo], now: datetime) -> list[str]:
    """Return the ids of running drivers.

    Args:
        records: Records of the job, from `JobFolder.list`.
        now: The time by the store's clock.
    """
    lead = f"{DRIVER}-"
    return [
        name.removeprefix(lead)
        for name, info in records.items()
        if name.startswith(lead) and is_alive(info, now)
    ]
