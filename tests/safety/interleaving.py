"""Another writer does its whole work between two store calls of an operation, at every place where it can."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import lance_ops as lo
from lance_ops.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    FileMissingError,
    LanceOpsError,
    TaskFailedError,
    VersionNotFoundError,
)
from lance_ops.storage import Store
from lance_ops.table.history.refs import TAGS_DIRECTORY
from tests.safety.actions import Action, Cleanup, Restore, Rows, Tag, Then
from tests.safety.states import (
    check_sound,
    is_same_set,
    litter,
    memory,
    put_all,
    read_rows,
    read_versions,
    shape,
)
from tests.support.faulty_store import READING, Call, FaultyStore


@dataclass
class Interleaving:
    """Two operations on a start state.

    Attributes:
        start: Objects of the table.
        ours: The operation that is interrupted.
        theirs: What happens meanwhile.
        place: Makes an empty store.
        act: Does `theirs` as the peer; None when we do it ourselves.
    """

    start: dict[str, bytes]
    ours: Action
    theirs: Action
    place: Callable[[], contextlib.AbstractContextManager[Store]] = memory
    act: Callable[[Action, Store], object] | None = None
    before: Rows = field(init=False)
    versions: dict[int, Rows] = field(init=False)
    calls: list[Call] = field(init=False)
    checked: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        with self.table() as store:
            self.versions = read_versions(store)
            self.before = self.versions[max(self.versions)]
            counting = FaultyStore(store)
            self.ours.run(counting)
            self.calls = counting.calls

    @contextlib.contextmanager
    def table(self) -> Iterator[Store]:
        with self.place() as store:
            put_all(store, self.start)
            yield store

    @property
    def cleans(self) -> bool:
        """Whether the other writer removes versions."""
        parts = self.theirs.parts if isinstance(self.theirs, Then) else (self.theirs,)
        return any(isinstance(part, Cleanup) for part in parts)

    def is_hopeless(self, number: int) -> bool:
        """Whether nothing can help, as the peer has no way to hold a version that is to be used.

        What is to be restored goes between our last look and the put, or a tag comes while its version goes.
        Between us, nothing is hopeless.
        """
        if self.act is None:
            return False
        call = self.calls[number - 1]
        if isinstance(self.ours, Restore) and self.cleans:
            return call.name == "put" and call.path.endswith(".manifest")
        if isinstance(self.ours, Tag) and self.cleans:
            return call.name == "put"
        if not (isinstance(self.ours, Cleanup) and isinstance(self.theirs, Tag)):
            return False
        # It looks once more at the end, to tell what came too late.
        names = [one.name if one.path.endswith(".manifest") else "" for one in self.calls]
        before = self.calls[: names.index("delete")]
        return number > max(n for n, one in enumerate(before, 1) if one == Call("list", TAGS_DIRECTORY))

    def commutes(self, number: int) -> bool:
        """Whether a call gives the same before and after what the other writer does.

        Files of rows and of indices never change, and only a cleanup removes them: to be let in before such
        a read is to be let in before the call that follows.
        """
        call = self.calls[number - 1]
        is_read = call.name in READING - {"list", "list_dirs"}
        return is_read and call.path.startswith(("data/", "_deletions/", "_indices/")) and not self.cleans

    def _act(self, store: Store) -> None:
        if self.act is None:
            self.theirs.run(store)
        else:
            self.act(self.theirs, store)

    def check(self, number: int) -> str:
        """Let the other writer in before call `number`; says how ours ended."""
        with self.table() as store:
            made = 0
            refused: list[LanceOpsError] = []

            def meddle(_call: Call) -> bool:
                nonlocal made
                made += 1
                if made == number:
                    try:
                        self._act(store)
                    except (VersionNotFoundError, CommitConflictError) as error:
                        # Ours removed the version that theirs wants, or is about to.
                        refused.append(error)
                return False

            failure: LanceOpsError | None = None
            try:
                self.ours.run(FaultyStore(store, fail_at=meddle))
            except (CommitConflictError, CommitOutcomeUnknownError) as error:
                failure = error
            except AlreadyExistsError as error:
                assert isinstance(self.ours, Tag), "only a tag may be taken"
                failure = error
            except (VersionNotFoundError, FileMissingError, TaskFailedError) as error:
                assert self.cleans, "nobody removed anything"
                failure = error
            outcomes = [False] if failure else [True]
            if isinstance(failure, CommitOutcomeUnknownError):
                outcomes = [False, True]
            self.check_outcome(store, ours=outcomes, theirs=not refused)
        return "done" if failure is None else type(failure).__name__

    def check_outcome(self, store: Store, *, ours: list[bool], theirs: bool) -> None:
        """The table is what both give one after the other in either order, or that of the one that worked."""
        allowed = []
        for done in ours:
            first = [self.ours] if done else []
            second = [self.theirs] if theirs else []
            for order in ([*first, *second], [*second, *first]):
                expected = self.before
                for action in order:
                    expected = action.after(expected, self.versions)
                allowed.append(expected)
        dataset = lo.Dataset.open(store)
        look = shape(store)
        rows = read_rows(dataset)
        same = is_same_set if self.ours.moves_rows or self.theirs.moves_rows else list.__eq__
        if not any(same(rows, expected) for expected in allowed):
            ids = [[item.id for item in table] for table in (rows, *allowed)]
            raise AssertionError(f"{self.ours} with {self.theirs}: ids {ids[0]}, allowed {ids[1:]}")
        if look in self.checked:
            return
        self.checked.add(look)
        check_sound(dataset)
        for name in dataset.tags:
            read_rows(dataset.checkout_version(name))
        if len(ours) == 1:
            assert not litter(store), "files that no version uses"
        Cleanup(retain=1, delete_unverified=True).run(store)
        assert check_sound(lo.Dataset.open(store)) == rows
