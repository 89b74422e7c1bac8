"""A storm of upserts: processes upsert, delete, update and compact the very same rows at once.

    python -m tests.safety.upsert_storm [SECONDS] [SEED]

Every acknowledged operation tells its version, so that all of them can be done again, one after the other, on
a dict. The table has to be what that dict is.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import lance_ops as lo
from lance_ops.errors import CommitConflictError
from tests.safety.storm import Rows, check, table


@dataclass(frozen=True)
class Done:
    """An operation that was committed.

    Attributes:
        version: The version that it made.
        read_version: The version in which it found its rows.
        kind: What it did.
        keys: Rows that it was about.
        value: What they became.
    """

    version: int
    read_version: int
    kind: str
    keys: tuple[int, ...]
    value: int


@dataclass
class Tally:
    """What one process did.

    Attributes:
        done: Operations that were committed.
        lost: Operations that ended in a conflict, by name.
        rebased: Operations that were carried over commits of others without planning again.
        replanned: Plannings again, of all operations.
    """

    done: list[Done] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    rebased: int = 0
    replanned: int = 0


def act(uri: str, chance: random.Random, keys: int, share: int) -> tuple[Any, Done | None]:
    """One operation at random, on keys of all processes."""
    kind = chance.choice(["upsert", "upsert", "insert", "delete", "update", "compact"])
    chosen = tuple(chance.sample(range(keys), share))
    value = chance.randrange(1 << 30)
    where = f"id in ({', '.join(map(str, chosen))})"
    if kind == "compact":
        result = lo.compact(uri, target_rows_per_fragment=400, materialize_deletions_threshold=0.02)
        return result, None
    if kind == "delete":
        result = lo.delete(uri, where)
    elif kind == "update":
        way = chance.choice(["rows", "columns"])
        result = lo.update(uri, {"v": str(value)}, where=where, rewrite=way, max_replans=30)
    else:
        matched = "update_all" if kind == "upsert" else "do_nothing"
        data = table(dict.fromkeys(chosen, value))
        result = lo.merge_insert(uri, data, on="id", when_matched=matched, when_not_matched="insert_all")
    changed = result.version != result.read_version
    return result, Done(result.version, result.read_version, kind, chosen, value) if changed else None


def work(
    uri: str, seed: int, seconds: float, operations: int, keys: int, share: int, ready: Barrier, out: Any
) -> None:
    chance, tally = random.Random(seed), Tally()
    ready.wait(120)
    until = time.monotonic() + seconds
    while operations > 0 and time.monotonic() < until:
        operations -= 1
        try:
            result, done = act(uri, chance, keys, share)
        except CommitConflictError as error:
            tally.lost[str(error.ours)[:40]] += 1
            continue
        tally.replanned += sum("planned again" in line for line in result.conflicts)
        if done is not None:
            tally.done.append(done)
            tally.rebased += bool(result.rebased_over)
    out.put(tally)


def replay(rows: Rows, done: list[Done], first: int) -> Rows:
    """What operations make of rows, one after the other."""
    states = {first: rows}
    by_version = {item.version: item for item in done}
    assert len(by_version) == len(done), "two operations made one version"
    for version in range(first + 1, max(by_version, default=first) + 1):
        state = states[version - 1]
        item = by_version.get(version)
        if item is not None:
            # What others add after the read version is not deleted, nor changed by a condition.
            seen = states[item.read_version]
            found = [key for key in item.keys if key in state and key in seen]
            if item.kind == "upsert":
                state = state | dict.fromkeys(item.keys, item.value)
            elif item.kind == "insert":
                state = dict.fromkeys(item.keys, item.value) | state
            elif item.kind == "update":
                state = state | dict.fromkeys(found, item.value)
            else:
                state = {key: value for key, value in state.items() if key not in set(found)}
        states[version] = state
    return states[max(states)]


def upsert_storm(
    uri: str,
    *,
    seed: int,
    seconds: float = 60,
    operations: int = 1 << 30,
    stable: bool = False,
    btree: bool = False,
    keys: int = 2000,
    share: int = 6,
    processes: int = 4,
) -> Tally:
    """Run one, and see that no row is lost, doubled or back again.

    Raises:
        AssertionError: The table is not what the operations, one after the other, make of it.
    """
    start = dict.fromkeys(range(0, keys, 2), 0)
    lo.write_dataset(table(start), uri, max_rows_per_file=200, enable_stable_row_ids=stable)
    if btree:
        lo.create_index(uri, "id", "BTREE")
    first = lo.dataset(uri).version
    context = multiprocessing.get_context("spawn")
    ready, out = context.Barrier(processes), context.Queue()
    running = [
        context.Process(
            target=work, args=(uri, seed * processes + number, seconds, operations, keys, share, ready, out)
        )
        for number in range(processes)
    ]
    for process in running:
        process.start()
    tallies = [out.get(timeout=seconds + 240) for _ in running]
    for process in running:
        process.join(60)
        assert process.exitcode == 0
    total = Tally(
        [item for tally in tallies for item in tally.done],
        sum((tally.lost for tally in tallies), Counter()),
        sum(tally.rebased for tally in tallies),
        sum(tally.replanned for tally in tallies),
    )
    check(uri, replay(start, total.done, first))
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=30)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--stable", action="store_true", help="with stable row ids")
    parser.add_argument("--btree", action="store_true", help="with an index on the key")
    parser.add_argument("--keys", type=int, default=2000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = upsert_storm(
            str(Path(folder) / "table"),
            seed=arguments.seed,
            seconds=arguments.seconds,
            stable=arguments.stable,
            btree=arguments.btree,
            keys=arguments.keys,
        )
    kinds = Counter(item.kind for item in found.done)
    sys.stdout.write(
        f"{len(found.done)} commits ({dict(kinds)}), {found.rebased} rebased, "
        f"{found.replanned} planned again, lost: {dict(found.lost) or 'none'}\n"
    )


if __name__ == "__main__":
    main()
