"""Every operation is stopped, or loses an answer, at every call of the store: as before or as after."""

import itertools

import pytest

from tests.safety.actions import (
    Action,
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Delete,
    DropIndex,
    OptimizeIndices,
    Overwrite,
    ReplaceWhere,
    Restore,
    Tag,
    Update,
    UpdateConfig,
    Upsert,
)
from tests.safety.column_actions import (
    AddColumn,
    Cast,
    CompactColumns,
    MergeColumn,
    PartitionedUpsert,
    ReplaceColumn,
    Truncate,
    UpdateInPlace,
)
from tests.safety.crashes import Crash, kind_of, state_of
from tests.safety.profile import SIMULATING
from tests.safety.rows import compare, either, remainder
from tests.safety.states import telling_calls
from tests.support.faulty_store import crash_moments, error_moments

START = (
    Create(count=10, rows_per_file=4),
    Delete(remainder(5, 2)),
    CreateIndex("v"),
    Append(first=20, count=5, pattern=1, rows_per_file=3),
    Tag(name="kept", version=2),
)

ACTIONS: dict[str, Action] = {
    "append": Append(first=30, count=5, rows_per_file=2),
    "overwrite": Overwrite(first=40, count=3),
    "delete": Delete(either(compare("v", ">", 1.0), compare("id", "<", 4))),
    "update": Update(either(compare("v", ">", 1.0), compare("id", "<", 4))),
    "update in place": UpdateInPlace(either(compare("v", ">", 1.0), compare("id", "<", 4))),
    "upsert": Upsert(first=8, count=6, pattern=2),
    "replace where": ReplaceWhere(first=0, count=9, pattern=1, predicate=compare("id", "<", 6)),
    "compact": Compact(),
    "compact in steps": Compact(target=5, commit_every=1),
    "compact and remap later": Compact(defer=True),
    "create index": CreateIndex("id"),
    "rebuild index": CreateIndex("v", rows_per_task=6),
    "optimize indices": OptimizeIndices(),
    "add a segment": OptimizeIndices(merge_segments=0),
    "drop index": DropIndex(),
    "restore": Restore(version=1),
    "update config": UpdateConfig(),
    "cleanup": Cleanup(retain=2),
    "tag": Tag(name="new", version=3),
    "upsert by partitions": PartitionedUpsert(first=8, count=6, pattern=2),
    "add a column": AddColumn(),
    "merge a column": MergeColumn(),
    "replace a column": ReplaceColumn(),
    "cast a column": Cast(),
    "truncate": Truncate(),
}


@pytest.fixture(scope="module")
def start() -> dict[str, bytes]:
    return state_of(*START)


@pytest.fixture(scope="module")
def crashes(start):
    made = {name: Crash(start, action) for name, action in ACTIONS.items()}
    split = Crash(state_of(*START, ReplaceColumn()), CompactColumns())
    slow = {f"slow {name}": Crash(start, ACTIONS[name], slow=True) for name in SLOW}
    return {"create": Crash({}, Create()), "join data files": split, **made, **slow}


SLOW = ("compact in steps",)
"""Operations of several commits, which look for the newest version again when the last look is old."""

LONG = frozenset(
    {"add a column", "merge a column", "replace a column", "cast a column", "slow compact in steps"}
)
"""Jobs with records, of many calls: a part of these, unless it is to take long."""

NAMES = pytest.mark.parametrize(
    "name", ["create", "join data files", *ACTIONS, *(f"slow {name}" for name in SLOW)]
)


def test_a_slow_run_looks_for_the_newest_version_before_each_commit(crashes):
    for name in SLOW:
        assert len(crashes[f"slow {name}"].calls) > len(crashes[name].calls)


@pytest.mark.parametrize("slow", [False, True])
def test_the_calls_of_two_runs_are_the_same(start, slow):
    for action in ACTIONS.values():
        first, second = Crash(start, action, slow), Crash(start, action, slow)
        assert [*map(kind_of, first.calls)] == [*map(kind_of, second.calls)]


@NAMES
def test_a_crash_at_any_call_leaves_the_table_before_or_after(crashes, name):
    crash = crashes[name]
    if SIMULATING or name in LONG:
        calls = range(1, len(crash.calls) + 1) if SIMULATING else crash.changing_calls()[::4]
        moments = itertools.product(calls, ("before", "after"))
    else:
        moments = crash_moments(crash.changing_calls())
    for number, when in moments:
        crash.check_crash(number, when)


@NAMES
def test_one_failed_call_ends_in_success_or_in_a_typed_error(crashes, name):
    crash = crashes[name]
    calls = telling_calls(crash.calls)[:: 10 if name in LONG else 1]
    for number, when in error_moments(crash.calls, range(1, len(crash.calls) + 1) if SIMULATING else calls):
        crash.check_error(number, when)
