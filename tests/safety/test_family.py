"""Random histories of a dataset, its branches, clones and detached versions, by both writers, with deaths."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.safety.actions import (
    Action,
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Delete,
    OptimizeIndices,
    Overwrite,
    Restore,
    Update,
    Upsert,
)
from tests.safety.family import CrashAt, Family
from tests.safety.profile import SIMULATING, examples
from tests.safety.rows import PREDICATES, compare, either, remainder
from tests.safety.states import telling_calls
from tests.safety.strategies import COLUMNS, CREATES, PATTERNS
from tests.support.faulty_store import MUTATING

pytestmark = pytest.mark.peer

LINES = st.integers(0, 11)
CRASHES = st.none() | st.builds(CrashAt, st.integers(1, 60), st.sampled_from(["before", "after"]))


@dataclass(frozen=True)
class Work:
    """An operation on a line."""

    at: int
    action: Action
    crash: CrashAt | None = None
    by_peer: bool = False

    def __call__(self, family: Family) -> None:
        family.work(self.at, self.action, self.crash, by_peer=self.by_peer)


@dataclass(frozen=True)
class Branch:
    """A new branch."""

    at: int
    version: int = 50
    crash: CrashAt | None = None
    by_peer: bool = False

    def __call__(self, family: Family) -> None:
        family.branch(self.at, self.version, self.crash, by_peer=self.by_peer)


@dataclass(frozen=True)
class RemoveBranch:
    """A branch that goes."""

    at: int
    crash: CrashAt | None = None

    def __call__(self, family: Family) -> None:
        family.remove(self.at, self.crash)


@dataclass(frozen=True)
class Clone:
    """A new clone."""

    at: int
    version: int = 50
    crash: CrashAt | None = None
    deep: bool = False

    def __call__(self, family: Family) -> None:
        family.clone(self.at, self.version, self.crash, deep=self.deep)


@dataclass(frozen=True)
class Detach:
    """A detached version."""

    at: int
    count: int = 2
    crash: CrashAt | None = None

    def __call__(self, family: Family) -> None:
        family.detach(self.at, self.count, self.crash)


ROWS_CHANGE = st.one_of(
    st.builds(Append, count=st.integers(0, 6), pattern=PATTERNS, rows_per_file=st.integers(1, 9)),
    st.builds(Delete, PREDICATES),
    st.builds(Update, PREDICATES, st.sampled_from(["a", "", "zz"])),
    st.builds(Upsert, first=st.integers(0, 20), count=st.integers(1, 5), pattern=PATTERNS),
    st.builds(Restore, st.integers(0, 50)),
)
COMPACTIONS = st.builds(
    Compact, target=st.sampled_from([1, 3, 6, 20, 1 << 20]), threshold=st.sampled_from([0.0, 0.1, 1.0])
)
OURS = st.one_of(
    ROWS_CHANGE,
    ROWS_CHANGE,
    COMPACTIONS,
    st.builds(Overwrite, count=st.integers(0, 6), pattern=PATTERNS),
    st.builds(CreateIndex, COLUMNS),
    st.builds(OptimizeIndices),
)
# What a cleanup of a clone would do is refused, and the peer's heeds no branches.
CLEANUPS = st.builds(Cleanup, retain=st.integers(1, 3), delete_unverified=st.booleans())

STEPS = st.one_of(
    st.builds(Work, LINES, OURS, CRASHES),
    st.builds(Work, LINES, OURS, CRASHES),
    # On a branch the peer's compaction loses index files.
    st.builds(Work, LINES, ROWS_CHANGE, st.none(), st.just(True)),
    st.builds(Work, st.just(0), CLEANUPS, CRASHES),
    st.builds(Branch, LINES, st.integers(0, 50), CRASHES),
    st.builds(Branch, LINES, st.integers(0, 50), st.none(), st.just(True)),
    st.builds(RemoveBranch, LINES, CRASHES),
    st.builds(Clone, LINES, st.integers(0, 50), CRASHES, st.booleans()),
    st.builds(Detach, LINES, st.integers(1, 3), CRASHES),
)


@examples(7)
@given(create=CREATES, steps=st.lists(STEPS, max_size=9))
def test_a_family_holds_what_it_should_for_both_readers(create, steps):
    with tempfile.TemporaryDirectory() as folder:
        family = Family(Path(folder))
        family.work(0, create)
        for step in steps:
            step(family)
            family.check()
        for line in family.lines:
            line.check_history()


START: tuple[Work | Branch | Clone | Detach, ...] = (
    Work(0, Delete(remainder(5, 2))),
    Work(0, CreateIndex("v")),
    Work(0, Append(count=5, pattern=1, rows_per_file=3)),
    Branch(0),
    Work(1, Append(count=3)),
    Clone(1),
    Clone(0, deep=True),
    Detach(1),
)
MAIN, BRANCH, SHALLOW, DEEP = range(4)
SOME = either(compare("v", ">", 1.0), compare("id", "<", 4))

DEATHS: dict[str, Callable[[CrashAt], Work | Branch | RemoveBranch | Clone | Detach]] = {
    "branch off main": lambda crash: Branch(MAIN, 50, crash),
    "branch off a branch": lambda crash: Branch(BRANCH, 50, crash),
    "remove a branch": lambda crash: RemoveBranch(4, crash),
    "shallow clone": lambda crash: Clone(MAIN, 50, crash),
    "shallow clone of a branch": lambda crash: Clone(BRANCH, 50, crash),
    "deep clone": lambda crash: Clone(MAIN, 50, crash, deep=True),
    "deep clone of a shallow clone": lambda crash: Clone(SHALLOW, 50, crash, deep=True),
    "detached on a branch": lambda crash: Detach(BRANCH, 2, crash),
    "detached on a clone": lambda crash: Detach(SHALLOW, 2, crash),
    "cleanup with branches and clones": lambda crash: Work(MAIN, Cleanup(retain=1), crash),
    **{
        f"{name} on {where}": lambda crash, at=at, action=action: Work(at, action, crash)
        for where, at in (("a branch", BRANCH), ("a clone", SHALLOW))
        for name, action in (
            ("append", Append(count=5, rows_per_file=2)),
            ("delete", Delete(SOME)),
            ("update", Update(SOME)),
            ("upsert", Upsert(first=8, count=6, pattern=2)),
            ("compact", Compact()),
            ("create index", CreateIndex("k")),
            ("optimize indices", OptimizeIndices()),
            ("restore", Restore(0)),
        )
    },
}


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable row ids"])
def start(request, tmp_path_factory) -> Iterator[tuple[Family, Path]]:
    """A family, and a copy of its files."""
    folder = tmp_path_factory.mktemp("family")
    family = Family(folder / "now")
    family.work(0, Create(count=10, stable_row_ids=request.param))
    for step in START:
        step(family)
    # Last, so that nothing starts from it.
    family.branch(0, 50)
    shutil.copytree(folder / "now", folder / "start")
    yield family, folder / "start"
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_at_any_call_changes_no_line_but_as_a_whole(start, name):
    family, files = start

    def again() -> Family:
        shutil.rmtree(family.folder)
        shutil.copytree(files, family.folder)
        return family.copied()

    never = CrashAt(1 << 30)
    counting = again()
    DEATHS[name](never)(counting)
    counting.check()
    calls = counting.calls
    numbers = [number for number in telling_calls(calls) if calls[number - 1].name in MUTATING]
    # Else some calls of each operation, others of the next one.
    some = numbers[list(DEATHS).index(name) % 10 :: 10]
    numbers = list(range(1, len(calls) + 1)) if SIMULATING else some
    for place, number in enumerate(numbers):
        for when in ("before", "after") if SIMULATING else (("before", "after")[place % 2],):
            died = again()
            DEATHS[name](CrashAt(number, when))(died)
            died.check()
