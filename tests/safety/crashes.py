"""Stopping an operation at every call of the store, and what must hold afterwards."""

import contextlib
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import lance_ops as lo
from lance_ops.errors import CommitOutcomeUnknownError, LanceOpsError, NotFoundError
from lance_ops.storage import Store, lease
from lance_ops.table.commit import head
from lance_ops.table.manifest import listing
from lance_ops.table.manifest.listing import ManifestLocation
from tests.safety.actions import Action, Append, Cleanup, Compact, Rows
from tests.safety.rows import make_rows
from tests.safety.states import (
    check_sound,
    erase,
    is_same_set,
    litter,
    memory,
    objects,
    put_all,
    read_rows,
    read_versions,
    shape,
    telling_calls,
)
from tests.support.faulty_store import MUTATING, Call, FaultyStore

JOB = "the job"


def kind_of(call: Call) -> tuple[str, str]:
    """Method and folder of a call: equal in all runs, also where files are put side by side."""
    return call.name, call.path.partition("/")[0]


@contextlib.contextmanager
def timing(*, slow: bool) -> Iterator[None]:
    """Make the calls of a run independent of its speed.

    A head that was listed a moment ago is not listed again, and a lease is renewed now and then. Here each
    look counts as recent, or none does, and no lease is renewed.
    """

    def is_recent(location: ManifestLocation, _: float) -> bool:
        return not slow and location.newest_at is not None

    with (
        mock.patch.object(lease, "BEAT_SECONDS", 3600.0),
        mock.patch.object(listing, "was_newest_within", is_recent),
        mock.patch.object(head, "was_newest_within", is_recent),
    ):
        yield


@contextlib.contextmanager
def equal_names() -> Iterator[None]:
    """Draw the same UUIDs in each run: some random names look like those of a job, and cost further calls."""
    chance = random.Random(0)

    def draw() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128), version=4)

    with mock.patch.object(uuid, "uuid4", draw):
        yield


@dataclass
class Crash:
    """An operation on a start state, with the states that are allowed after it."""

    start: dict[str, bytes]
    action: Action
    slow: bool = False
    before: Rows = field(init=False)
    after: Rows = field(init=False)
    litter: frozenset[str] = field(init=False)
    calls: list[Call] = field(init=False)
    versions: dict[int, Rows] = field(init=False)
    checked: set[object] = field(default_factory=set)
    knows_start: bool = False

    def __post_init__(self) -> None:
        with self.table() as store:
            self.versions = read_versions(store)
            self.before = self.versions[max(self.versions)] if self.versions else []
            self.litter = litter(store) if self.versions else frozenset()
            counting = FaultyStore(store)
            with equal_names():
                self.run(counting)
            self.calls = counting.calls
            self.after = check_sound(lo.Dataset.open(store))
        expected = self.action.after(self.before, self.versions)
        assert self.after == expected or (self.action.moves_rows and is_same_set(self.after, expected))

    @contextlib.contextmanager
    def table(self) -> Iterator[Store]:
        with memory() as store:
            put_all(store, self.start)
            yield store

    def run(self, store: Store) -> Any:
        with timing(slow=self.slow):
            return self.action.run(store, **({"job_key": JOB} if self.action.takes_job_key else {}))

    def changing_calls(self) -> list[int]:
        """Numbers of the calls that change the store; crashes at others leave what one of these leaves."""
        return [number for number in telling_calls(self.calls) if self.calls[number - 1].name in MUTATING]

    def check_crash(self, number: int, when: str) -> None:
        """Crash at a call: the state is that before or after, and a re-run does the job once."""
        with self.table() as store:
            faulty = FaultyStore(store, fail_at=number, when=when, mode="crash", count="any")
            with contextlib.suppress(Exception), equal_names():
                self.run(faulty)
            self.check_hit(faulty, number)
            self.check_left(store)

    def check_error(self, number: int, when: str) -> None:
        """One call fails or its answer is lost: success and the rows are there, or a typed error."""
        with self.table() as store:
            faulty = FaultyStore(store, fail_at=number, when=when, mode="error", count="any")
            failure: LanceOpsError | None = None
            try:
                with equal_names():
                    self.run(faulty)
            except LanceOpsError as error:
                failure = error
            self.check_hit(faulty, number)
            if failure is None:
                assert read_rows(lo.Dataset.open(store)) == self.after, "success was reported"
            forgets = isinstance(self.action, Cleanup) or isinstance(failure, CommitOutcomeUnknownError)
            if self.versions and not forgets:
                # A process that lives on takes away what it wrote in vain. (A cleanup wrote nothing, and its
                # next run takes away the files of versions that are gone.)
                assert litter(store) <= self.litter, "files that no version uses"
            self.check_left(store)

    def check_hit(self, faulty: FaultyStore, number: int) -> None:
        """The fault was met, after the calls that were recorded."""
        assert faulty.fired, f"only {faulty.counted} of {len(self.calls)} calls"
        assert [*map(kind_of, faulty.calls[:number])] == [*map(kind_of, self.calls[:number])]

    def check_left(self, store: Store) -> None:
        """Look at what a failure left, thoroughly where nothing that looks like it was seen before."""
        content = objects(store)
        if content == self.start:
            # Nothing is left of the failure, to the byte: one look is enough.
            if self.knows_start:
                return
            self.knows_start = True
        look = shape(store)
        rows = self.check_rows(store, thoroughly=look not in self.checked)
        if look in self.checked:
            return
        self.checked.add(look)
        put_all(store, content)
        self.run(store)
        assert is_same_set(check_sound(lo.Dataset.open(store)), self.after), "run again"
        if self.action.takes_job_key:
            done = [entry for entry in lo.Dataset.open(store).history() if entry.job_key == JOB]
            assert len(done) <= 1, "the job was done twice"
        put_all(store, content)
        if rows is not None:
            self.check_life_goes_on(store, rows)

    def check_rows(self, store: Store, *, thoroughly: bool) -> Rows | None:
        try:
            dataset = lo.Dataset.open(store)
        except NotFoundError:
            assert not self.versions, "the dataset is gone"
            return None
        rows = check_sound(dataset) if thoroughly else read_rows(dataset)
        self.action.check(dataset)
        if self.action.moves_rows and not self.action.changes_rows:
            assert is_same_set(rows, self.before)
        else:
            assert rows in (self.before, self.after), "neither the state before nor that after"
        if thoroughly and not isinstance(self.action, Cleanup):
            for version, known in self.versions.items():
                assert read_rows(lo.Dataset.open(store, version)) == known, f"version {version} changed"
        return rows

    def check_life_goes_on(self, store: Store, rows: Rows) -> None:
        Append(first=10_000, count=2).run(store)
        Compact().run(store)
        Cleanup(retain=1, delete_unverified=True).run(store)
        assert is_same_set(check_sound(lo.Dataset.open(store)), rows + make_rows(10_000, 2))


def state_of(*actions: Action) -> dict[str, bytes]:
    """The objects of a table after some operations."""
    with memory() as store:
        for action in actions:
            action.run(store)
        content = objects(store)
        erase(store)
    return content
