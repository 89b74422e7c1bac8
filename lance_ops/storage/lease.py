"""Lease of a folder: one process at a time maintains a dataset, or makes a clone or a branch.

A lease is a file below the folder, put if absent under the next number, renewed during the work, and removed
at its end; an expired one is ignored. Ages are measured by the clock of the store. After its put, a process
lists all leases: of two put at the same time at least one sees the other and withdraws. Usually there is no
other lease: the first number is put without a listing before, so a lease costs a put, a listing and a
removal. The lease only saves work. If a lease expires in a process that was stopped for minutes, commits
still prevent lost or repeated work: the second process finds the fragments replaced, and plans again.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from lance_ops.errors import AlreadyExistsError, FileMissingError, LanceOpsError, LeaseHeldError
from lance_ops.storage.store import ObjectInfo, Store

FOLDER = "_lance_ops/fleet"
"""Folder of the leases of maintenance runs."""
LEASE = timedelta(minutes=2)
"""How long a lease holds that is not renewed."""
BEAT_SECONDS = 15.0
"""How often a lease is renewed."""

_NAME = "lease-"
_CLAIM = "claim-"


class Heartbeat:
    """Calls a function every `BEAT_SECONDS` on a thread of its own, from its making until `stop`.

    Args:
        beat: The function. Its errors are ignored: a store that fails for a while makes a lease old, and
            nothing else.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lance-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; a call that is under way ends first."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with contextlib.suppress(Exception):
                self._beat()


@dataclass(slots=True)
class Lease:
    """Lease of one folder, held during a `with` block.

    Attributes:
        store: Root of the dataset.
        run: Holder of the lease.
        folder: Folder of the lease files, relative to `store`: one folder for each kind of work.
        work: Work of the holder, for errors.

    Raises:
        LeaseHeldError: Another process holds it.
    """

    store: Store
    run: str
    folder: str = FOLDER
    work: str = "maintains this dataset"
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    _number: int = 0
    _renewed: float = 0.0
    _heartbeat: Heartbeat | None = None

    def __enter__(self) -> Self:
        passed: dict[int, ObjectInfo] = {}
        if not self._is_first():
            passed = _list(self.store, self.folder)
            if passed:
                self._check_stale(passed)
            self._number = max(passed, default=0) + 1
            self._put_mine()
        try:
            self._step_back_if_not_alone(by_content=not self.store.supports_put_if_absent)
        except BaseException:
            with contextlib.suppress(LanceOpsError):
                self.store.delete(self._path)
            raise
        for number in passed:
            with contextlib.suppress(LanceOpsError):
                self.store.delete(_path(self.folder, number))
        self._heartbeat = Heartbeat(self.renew)
        return self

    def __exit__(self, *_: object) -> None:
        # A renewal that is under way ends first: it would bring the file back.
        if self._heartbeat is not None:
            self._heartbeat.stop()
        with contextlib.suppress(LanceOpsError):
            # Who was stopped for long may have been passed over, and the number given again.
            if not self._may_be_old or _content(self.store, self._path) == self._content:
                self.store.delete(self._path)

    def check(self) -> None:
        """Check that it is still held; the store is read if it was not renewed recently.

        Raises:
            LeaseHeldError: Another process holds it now.
        """
        if self._may_be_old:
            self._step_back_if_not_alone()

    @property
    def _may_be_old(self) -> bool:
        return time.monotonic() - self._renewed > LEASE.total_seconds() / 2

    @property
    def _path(self) -> str:
        return _path(self.folder, self._number)

    @property
    def _content(self) -> bytes:
        return json.dumps({"run": self.run, "id": self.id}).encode()

    def _is_first(self) -> bool:
        """Take the first number if it is free; only on stores with put-if-absent."""
        if not self.store.supports_put_if_absent:
            return False
        self._number = 1
        try:
            self._put_mine()
        except LeaseHeldError:
            return False
        return True

    def _put_mine(self) -> None:
        """Put the file of the number.

        Raises:
            LeaseHeldError: Another process has put it.
        """
        self._renewed = time.monotonic()
        try:
            self.store.put(
                self._path, self._content, if_absent=self.store.supports_put_if_absent, durable="never"
            )
        except AlreadyExistsError:
            # A client that lost the answer to its first attempt meets its own file.
            if _content(self.store, self._path) != self._content:
                raise self._held(self._path) from None
        except BaseException:
            # The store may have written it and lost the answer.
            with contextlib.suppress(LanceOpsError):
                if _content(self.store, self._path) == self._content:
                    self.store.delete(self._path)
            raise

    def _check_stale(self, leases: dict[int, ObjectInfo]) -> None:
        """Check that all existing leases have expired, by the clock of the store."""
        claim = f"{self.folder}/{_CLAIM}{self.id}"
        self.store.put(claim, b"", durable="never")
        try:
            infos = {info.path: info for info in self.store.list(self.folder)}
        finally:
            with contextlib.suppress(LanceOpsError):
                self.store.delete(claim)
        now = infos[claim].modified if claim in infos else None
        for number in leases:
            found = infos.get(_path(self.folder, number))
            if found is not None and (now is None or is_alive(found, now)):
                raise self._held(found.path)

    def _step_back_if_not_alone(self, *, by_content: bool = True) -> None:
        """Check that no other process has a lease, and that the file of the number is still ours.

        Args:
            by_content: Read it; a file that was put just now is ours.
        """
        leases = _list(self.store, self.folder)
        mine = leases.get(self._number)
        by_content = by_content or self._may_be_old
        if mine is None or (by_content and _content(self.store, self._path) != self._content):
            raise LeaseHeldError("the lease was taken over", path=self.store.uri)
        for number, info in leases.items():
            if number != self._number and is_alive(info, mine.modified):
                raise self._held(info.path)

    def renew(self) -> None:
        """Make it young again, unless it was taken over."""
        if _content(self.store, self._path) == self._content:
            self.store.put(self._path, self._content, durable="never")
            self._renewed = time.monotonic()

    def _held(self, path: str) -> LeaseHeldError:
        who = "somebody"
        content = _content(self.store, path)
        if content is not None:
            with contextlib.suppress(ValueError, AttributeError):
                who = f"run {json.loads(content).get('run')}"
        return LeaseHeldError(
            f"{who} {self.work} at the moment",
            path=self.store.uri,
            hint=f"the lease of a killed run expires after {LEASE.total_seconds():.0f} s",
        )


def is_held(store: Store) -> bool:
    """Return whether another process seems to maintain a dataset.

    Expired leases do not count; ages are measured without a write, by the clock of this machine.
    """
    now = datetime.now(UTC)
    return any(is_alive(info, now) for info in _list(store, FOLDER).values())


def _list(store: Store, folder: str) -> dict[int, ObjectInfo]:
    found: dict[int, ObjectInfo] = {}
    for info in store.list(folder):
        name = info.path.rpartition("/")[2]
        if name.startswith(_NAME) and name.removeprefix(_NAME).isdecimal():
            found[int(name.removeprefix(_NAME))] = info
    return found


def _path(folder: str, number: int) -> str:
    return f"{folder}/{_NAME}{number:012d}"


def is_alive(info: ObjectInfo, now: datetime) -> bool:
    """Whether a file was written or renewed within `LEASE`."""
    return now - info.modified < LEASE


def _content(store: Store, path: str) -> bytes | None:
    try:
        return bytes(store.read(path))
    except FileMissingError:
        return None
