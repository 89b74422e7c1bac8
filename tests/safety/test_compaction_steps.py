"""Compactions with others between their steps (plan, tasks, commit): rows, ids and versions stay right."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import CommitConflictError, VersionNotFoundError
from tests.safety.profile import FACTOR

pytestmark = pytest.mark.peer

CREATED, UPDATED = "_row_created_at_version", "_row_last_updated_at_version"


@dataclass(frozen=True)
class Known:
    """A row as it should be."""

    value: int
    id: int
    created: int
    updated: int


State = dict[int, Known]


def table(keys: Sequence[int], value: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys), pa.int64())})


@dataclass
class World:
    """A table, and what it should be at each of its versions."""

    uri: str
    stable: bool
    by_peer: bool = False
    states: dict[int, State] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    next_key: int = 100
    branches: int = 0

    @property
    def version(self) -> int:
        return lo.dataset(self.uri).version

    @property
    def now(self) -> State:
        """The state that the newest version should have: compactions in between changed nothing."""
        return self.states[max(self.states)]

    def read(self, by_us: bool) -> dict[int, tuple[int, ...]]:
        names = ["k", "v", *([CREATED, UPDATED] if self.stable else [])]
        ds: Any = lo.dataset(self.uri) if by_us else lance.dataset(self.uri)
        rows = ds.to_table(columns=names, with_row_id=self.stable).to_pylist()
        found = {row["k"]: tuple(row[name] for name in row if name != "k") for row in rows}
        assert len(found) == len(rows), "a row is there twice"
        return found

    def check(self) -> None:
        """Both readers find the rows, the ids and the versions that should be."""
        ours = self.read(by_us=True)
        assert ours == self.read(by_us=False)
        assert set(ours) == set(self.now)
        for key, row in self.now.items():
            wanted = (row.value, row.created, row.updated, row.id) if self.stable else (row.value,)
            assert ours[key] == wanted, key

    def learn(self, values: dict[int, int], touched: set[int], *, moved: bool = True) -> None:
        """Take note of what an operation did; only ids of rows that are new are taken from the table.

        Args:
            values: All rows as they should be.
            touched: Those that the operation wrote.
            moved: They keep their ids, where they were there.
        """
        version, before, found = self.version, self.now, self.read(by_us=True)
        state: State = {}
        for key, value in values.items():
            old = before.get(key)
            if key not in touched:
                assert old is not None
                state[key] = old
            elif old is not None and moved:
                state[key] = Known(value, old.id, old.created, version)
            else:
                number = found[key][3] if self.stable else 0
                assert not self.stable or number not in self.used, "an id was given twice"
                self.used.add(number)
                state[key] = Known(value, number, version, version)
        self.states[version] = state

    def values(self) -> dict[int, int]:
        return {key: row.value for key, row in self.now.items()}

    # What others do

    def delete(self, by_peer: bool, digit: int) -> None:
        where = f"k % 5 = {digit}"
        if by_peer:
            lance.dataset(self.uri).delete(where)
        else:
            lo.delete(self.uri, where)
        self.learn({key: value for key, value in self.values().items() if key % 5 != digit}, set())

    def update(self, by_peer: bool, digit: int) -> None:
        where, value = f"k % 3 = {digit % 3}", digit + 1000 * self.version
        if by_peer:
            lance.dataset(self.uri).update({"v": str(value)}, where=where)
        else:
            lo.update(self.uri, {"v": str(value)}, where)
        touched = {key for key in self.now if key % 3 == digit % 3}
        self.learn(self.values() | dict.fromkeys(touched, value), touched)

    def upsert(self, by_peer: bool, digit: int) -> None:
        keys = [*sorted(self.now)[digit::4], self.next_key, self.next_key + 1]
        self.next_key += 2
        value = digit + 1000 * self.version
        if by_peer:
            merge = lance.dataset(self.uri).merge_insert("k")
            merge.when_matched_update_all().when_not_matched_insert_all().execute(table(keys, value))
        else:
            lo.merge_insert(
                self.uri, table(keys, value), "k", when_matched="update_all", when_not_matched="insert_all"
            )
        self.learn(self.values() | dict.fromkeys(keys, value), set(keys))

    def append(self, by_peer: bool, digit: int) -> None:
        keys = list(range(self.next_key, self.next_key + 1 + digit))
        self.next_key += 1 + digit
        if by_peer:
            lance.write_dataset(table(keys, digit), self.uri, mode="append")
        else:
            lo.append(self.uri, table(keys, digit))
        self.learn(self.values() | dict.fromkeys(keys, digit), set(keys))

    def overwrite(self, by_peer: bool, digit: int) -> None:
        keys = list(range(self.next_key, self.next_key + 3))
        self.next_key += 3
        if by_peer:
            lance.write_dataset(table(keys, digit), self.uri, mode="overwrite")
        else:
            lo.write_dataset(table(keys, digit), self.uri, mode="overwrite", max_rows_per_file=2)
        self.learn(dict.fromkeys(keys, digit), set(keys), moved=False)

    def restore(self, by_peer: bool, digit: int) -> None:
        known = sorted(self.states)[-1 - digit % len(self.states)]
        try:
            lo.restore(self.uri, known)
        except VersionNotFoundError:
            return
        self.states[self.version] = self.states[known]

    def cleanup(self, by_peer: bool, digit: int) -> None:
        if by_peer:
            lance.dataset(self.uri).cleanup_old_versions(timedelta(0), delete_unverified=False)
        else:
            lo.cleanup(self.uri, older_than=timedelta(0), retain_versions=1 + digit % 2)

    def compact(self, by_peer: bool, digit: int) -> None:
        if by_peer:
            lance.dataset(self.uri).optimize.compact_files(target_rows_per_fragment=10)
        else:
            lo.compact(self.uri, target_rows_per_fragment=10)

    def index(self, by_peer: bool, digit: int) -> None:
        if by_peer:
            lance.dataset(self.uri).create_scalar_index("k", "BTREE", replace=True)
        else:
            lo.create_index(self.uri, "k", replace=True)

    def branch(self, by_peer: bool, digit: int) -> None:
        """A branch that changes its rows: those of the table stay."""
        self.branches += 1
        line = lo.create_branch(self.uri, f"b{self.branches}")
        lo.delete(line, f"k % 2 = {digit % 2}")
        lo.compact(line.uri)
        assert set(lo.dataset(line.uri).to_table()["k"].to_pylist()) == {
            key for key in self.now if key % 2 != digit % 2
        }


ACTS = [
    "delete",
    "update",
    "upsert",
    "append",
    "overwrite",
    "restore",
    "cleanup",
    "compact",
    "index",
    "branch",
]
STEPS = st.lists(
    st.tuples(st.sampled_from([*ACTS, "delete", "update", "upsert"]), st.booleans(), st.integers(0, 4)),
    max_size=2,
)


@dataclass
class Between:
    """A runner and a listener that let others in: after the plan, after each task, before the commit."""

    let_in: list[Callable[[], None]]

    def next(self) -> None:
        if self.let_in:
            self.let_in.pop(0)()

    def map(self, function: Callable[..., Any], tasks: Sequence[Any], *, on_done: Any = None) -> Any:
        self.next()
        results = []
        for number, task in enumerate(tasks):
            results.append(function(task))
            if on_done is not None:
                on_done(number, results[-1])
            self.next()
        return results

    def __call__(self, event: lo.ProgressEvent) -> None:
        if event.message == "committing":
            self.next()


@settings(max_examples=12 * max(1, FACTOR))
@given(
    st.booleans(),
    st.sampled_from(["copy", "rewrite"]),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.lists(STEPS, min_size=1, max_size=4),
)
def test_rows_ids_and_versions_are_right_after_each_step(
    tmp_path_factory, stable, method, commit_every, indexed, moments
):
    uri = str(tmp_path_factory.mktemp("steps") / "t")
    world = World(uri, stable)
    world.states[0] = {}
    keys = list(range(30))
    lo.write_dataset(table(keys, 0), uri, max_rows_per_file=4, enable_stable_row_ids=stable)
    world.learn(dict.fromkeys(keys, 0), set(keys))
    del world.states[0]
    if indexed:
        world.index(by_peer=False, digit=0)
    world.delete(by_peer=False, digit=1)

    def others(steps: list[tuple[str, bool, int]]) -> Callable[[], None]:
        def run() -> None:
            for name, by_peer, digit in steps:
                # Index builds and compactions may lose to ours, which leaves the rows as they are.
                losers = (CommitConflictError, OSError) if name in ("compact", "index") else ()
                with suppress(*losers):
                    getattr(world, name)(by_peer, digit)
                world.check()

        return run

    between = Between([others(steps) for steps in moments])
    with suppress(CommitConflictError):
        lo.compact(
            uri,
            method=method,
            target_rows_per_fragment=10,
            materialize_deletions_threshold=0.0,
            commit_every=commit_every,
            runner=between,
            progress=between,
        )
    world.check()
    assert lo.fsck(uri, deep=True).ok
    assert sorted(lo.dataset(uri).to_table(["k"], "k < 9")["k"].to_pylist()) == sorted(
        key for key in world.now if key < 9
    )
    lo.compact(uri)
    world.check()
