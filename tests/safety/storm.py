"""A storm: compactions one after the other while four processes delete and update at random everywhere.

    python -m tests.safety.storm [COMPACTIONS] [SEED]      also as `make storm`

Each writer owns every fourth id and keeps a model of its rows, so that at the end every row is accounted for.
Two of the writers use the official library. The same load is then run with its compaction, to compare.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import CommitConflictError
from lance_ops.maintenance.compact.rewrite import RewriteTask

WRITERS = 4
Rows = dict[int, int]


def table(rows: Rows) -> pa.Table:
    return pa.table({"id": pa.array(rows, pa.int64()), "v": pa.array(rows.values(), pa.int64())})


@dataclass
class Writer:
    """One process that changes its own rows.

    Attributes:
        number: Which ids it owns.
        of: How many writers there are.
        uri: The dataset.
        rows: Its rows as they should be.
        done: Commits that were acknowledged.
        lost: Operations that ended in a conflict, by name.
    """

    number: int
    of: int
    uri: str
    rows: Rows
    done: int = 0
    lost: Counter[str] = field(default_factory=Counter)

    def run(self, seed: int, stop: Event, started: Semaphore) -> None:
        chance = random.Random(seed * self.of + self.number)
        ours = self.number % 2 == 0
        acts = [self.delete, self.update, self.update, self.upsert]
        while not stop.is_set():
            act = chance.choice(acts)
            try:
                changed = act(chance, ours)
            except (CommitConflictError, OSError, RuntimeError) as error:
                if "onflict" not in str(error) and not isinstance(error, CommitConflictError):
                    raise
                self.lost[f"{'our' if ours else 'their'} {act.__name__}"] += 1
                continue
            self.rows = changed
            self.done += 1
            if self.done == 1:
                started.release()

    def _some(self, chance: random.Random) -> list[int]:
        return chance.sample(sorted(self.rows), min(len(self.rows), chance.randint(1, 4)))

    def delete(self, chance: random.Random, ours: bool) -> Rows:
        gone = self._some(chance)
        predicate = f"id in ({', '.join(map(str, gone))})"
        lo.delete(self.uri, predicate) if ours else lance.dataset(self.uri).delete(predicate)
        return {key: value for key, value in self.rows.items() if key not in gone}

    def update(self, chance: random.Random, ours: bool) -> Rows:
        chosen, value = self._some(chance), chance.randrange(1 << 30)
        where = f"id in ({', '.join(map(str, chosen))})"
        if ours:
            lo.update(self.uri, {"v": str(value)}, where=where)
        else:
            lance.dataset(self.uri).update({"v": str(value)}, where=where)
        return self.rows | dict.fromkeys(chosen, value)

    def upsert(self, chance: random.Random, ours: bool) -> Rows:
        fresh = [chance.randrange(1 << 20) * self.of + self.number for _ in range(6)]
        new = dict.fromkeys([*self._some(chance), *fresh], chance.randrange(1 << 30))
        if ours:
            lo.merge_insert(
                self.uri, table(new), on=["id"], when_matched="update_all", when_not_matched="insert_all"
            )
        else:
            merge = lance.dataset(self.uri).merge_insert("id")
            merge.when_matched_update_all().when_not_matched_insert_all().execute(table(new))
        return self.rows | new


def write(writer: Writer, seed: int, stop: Event, started: Semaphore, results: Any) -> None:
    try:
        writer.run(seed, stop, started)
    finally:
        results.put(writer)


@dataclass
class CountingRunner:
    """Runs tasks here and counts the rows that compactions read."""

    rows_read: int = 0

    def map(self, function: Callable[..., Any], tasks: Sequence[Any], *, on_done: Any = None) -> Any:
        self.rows_read += sum(task.group.live_rows for task in tasks if isinstance(task, RewriteTask))
        return lo.LocalRunner(2).map(function, tasks, on_done=on_done)


@dataclass
class Outcome:
    """What came of a storm.

    Attributes:
        compactions: How often it was compacted with success.
        lost: How often in vain, or with groups given up.
        replanned: Groups that were planned and read afresh after a conflict.
        rows_written: Rows of the new fragments.
        rows_twice: Rows that were read for nothing.
        writes: Commits of the writers.
        writes_lost: Their operations that failed, by name.
        seconds: How long it took.
    """

    compactions: int = 0
    lost: int = 0
    replanned: int = 0
    rows_written: int = 0
    rows_twice: int = 0
    writes: int = 0
    writes_lost: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lost = ", ".join(f"{number} {name}" for name, number in self.writes_lost.items()) or "none"
        return (
            f"{self.compactions} compactions, {self.lost} lost, {self.replanned} planned again, "
            f"{self.rows_written:,} rows written, {self.rows_twice:,} read twice; {self.writes} writes, "
            f"lost: {lost}; {self.seconds:.0f} s"
        )


def compact_ours(uri: str, outcome: Outcome) -> None:
    runner = CountingRunner()
    try:
        result = lo.compact(
            uri, target_rows_per_fragment=400, materialize_deletions_threshold=0.02, runner=runner
        )
    except CommitConflictError as error:
        outcome.lost += 1
        outcome.rows_twice += runner.rows_read
        outcome.lines.append(str(error))
        return
    afresh = [line for line in result.conflicts if "planned again" in line or "gave some" in line]
    outcome.lines += afresh
    outcome.replanned += len(afresh)
    outcome.lost += sum("gave some" in line for line in afresh)
    outcome.compactions += result.commits > 0
    outcome.rows_written += result.rows_written
    outcome.rows_twice += runner.rows_read - result.rows_written


def compact_peer(uri: str, outcome: Outcome) -> None:
    try:
        done = lance.dataset(uri).optimize.compact_files(
            target_rows_per_fragment=400, materialize_deletions_threshold=0.02
        )
    except (OSError, RuntimeError, CommitConflictError) as error:
        if "onflict" not in str(error):
            raise
        outcome.lost += 1
        return
    outcome.compactions += done.fragments_removed > 0


def storm(
    uri: str,
    *,
    compactions: int,
    seed: int,
    compact: Callable[[str, Outcome], None] = compact_ours,
    stable: bool = False,
    btree: bool = True,
    rows: int = 4000,
    writers: int = WRITERS,
) -> Outcome:
    """Run one, and see that no row is lost, doubled or back again.

    Raises:
        AssertionError: Rows are not what the writers made of them, or the two libraries do not agree.
    """
    start = dict.fromkeys(range(rows), 0)
    lance.write_dataset(table(start), uri, max_rows_per_file=200, enable_stable_row_ids=stable)
    if btree:
        lance.dataset(uri).create_scalar_index("id", "BTREE")
    context = multiprocessing.get_context("spawn")
    stop, started, results, outcome = context.Event(), context.Semaphore(0), context.Queue(), Outcome()
    owners = [
        Writer(number, writers, uri, {key: 0 for key in start if key % writers == number})
        for number in range(writers)
    ]
    processes = [
        context.Process(target=write, args=(owner, seed, stop, started, results)) for owner in owners
    ]
    for process in processes:
        process.start()
    try:
        for _ in processes:
            assert started.acquire(timeout=120), "a writer did not get to work"
        began = time.monotonic()
        while outcome.compactions + outcome.lost < compactions and all(p.exitcode is None for p in processes):
            compact(uri, outcome)
    finally:
        stop.set()
    done = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0, "a writer failed with something else than a conflict"
    outcome.seconds = time.monotonic() - began
    outcome.writes = sum(writer.done for writer in done)
    outcome.writes_lost = sum((writer.lost for writer in done), Counter())
    check(uri, {key: value for writer in done for key, value in writer.rows.items()})
    return outcome


def check(uri: str, expected: Rows) -> None:
    wanted = table(dict(sorted(expected.items())))
    ds, peer = lo.dataset(uri), lance.dataset(uri)
    peer.validate()
    for name, found in (("ours", ds.to_table()), ("the peer", peer.to_table())):
        assert found.sort_by("id").equals(wanted), (
            f"{name}: {found.num_rows} rows, {wanted.num_rows} expected"
        )
    some = random.Random(1).sample(sorted(expected), min(20, len(expected)))
    for key in some:
        for found in (ds.to_table(filter=f"id = {key}"), peer.to_table(filter=f"id = {key}")):
            assert found.to_pylist() == [{"id": key, "v": expected[key]}]
    report = lo.fsck(uri, deep=True)
    assert report.ok, str(report)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compactions", type=int, nargs="?", default=50)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--stable", action="store_true", help="with stable row ids")
    parser.add_argument("--no-peer", action="store_true", help="without the official library's compaction")
    arguments = parser.parse_args()
    sides = [("ours", compact_ours), ("the peer's", compact_peer)]
    for name, compact in sides[:1] if arguments.no_peer else sides:
        with tempfile.TemporaryDirectory() as folder:
            uri = str(Path(folder) / "table")
            found = storm(
                uri,
                compactions=arguments.compactions,
                seed=arguments.seed,
                compact=compact,
                stable=arguments.stable,
            )
            sys.stdout.write("\n    ".join([f"{name}: {found}", *found.lines]) + "\n")


if __name__ == "__main__":
    main()
