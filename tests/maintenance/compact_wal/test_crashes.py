"""MemWAL compaction that dies: at each change of the store, and by kill -9 beside a writer that dies, too.

`python -m tests.maintenance.compact_wal.test_crashes 200` crashes at each change, and runs that many
histories of killed processes.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from itertools import count
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import TaskFailedError
from lance_ops.storage import open_store
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.mem_wal import (
    as_rows,
    create,
    has_key_indices,
    keys,
    new_shard,
    peer_agrees,
    read_all,
    settle,
    shards,
    table,
    writer,
)

pytestmark = pytest.mark.peer

BASE = {key: key for key in range(6)}
ROOT = Path(__file__).parents[3]


def run_crashes(folder: Path, step: int) -> int:
    """Crash before every so many changes of the store; return how many crashes there were.

    Each state that a dead compactor leaves is read whole, by both, and the next run completes it.
    """
    whole = folder / "whole.lance"
    create(whole, BASE)
    with writer(whole, new_shard(), rows=3) as opened:
        opened.put(table({1: 10, 2: 20, 9: 9}))
        settle(opened)
        opened.delete(keys([2, 3]))
    model = {0: 0, 1: 10, 4: 4, 5: 5, 9: 9}
    for crashes, moment in enumerate(count(1, step)):
        uri = folder / f"{moment}.lance"
        shutil.copytree(whole, uri)
        store = FaultyStore(open_store(str(uri)), moment)
        try:
            lo.compact_wal(store, max_bytes=1, remove_after=timedelta(0))
        except (InjectedCrash, TaskFailedError):
            assert read_all(uri) == model, moment
            assert peer_agrees(uri, model), moment
            lo.compact_wal(uri, remove_after=timedelta(0))
            assert read_all(uri) == as_rows(lance.dataset(str(uri)).to_table()) == model, moment
            shutil.rmtree(uri)
        else:
            assert store.counted < moment
            return crashes
    raise AssertionError


def test_a_crash_at_a_change_of_the_store_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert run_crashes(tmp_path, 5) > 3


# Processes that are killed

WRITE = """
import json, random, sys
from pathlib import Path
from tests.support.mem_wal import keys, table, writer

uri, shard, journal, seed = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
rng = random.Random(seed)
with open(journal, "a", buffering=1) as done, writer(uri, shard, rows=6) as opened:
    for value in range(seed * 10_000, seed * 10_000 + 5_000):
        if rng.random() < 0.25:
            change = {"delete": [rng.randrange(12)]}
        else:
            change = {"put": {rng.randrange(12): value for _ in range(rng.randint(1, 4))}}
        done.write(json.dumps({"begun": change}) + "\\n")
        if "put" in change:
            opened.put(table(change["put"]))
        else:
            opened.delete(keys(change["delete"]))
        done.write(json.dumps({"stored": True}) + "\\n")
"""

COMPACT = """
import random, sys
from datetime import timedelta
import lance_ops as lo

uri, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
print("ready", flush=True)
while True:
    lo.compact_wal(uri, max_bytes=rng.choice([1, 1 << 20]), remove_after=rng.choice([None, timedelta(0)]))
    if rng.random() < 0.2:
        lo.compact(uri)
    if rng.random() < 0.2:
        lo.cleanup(uri, retain_versions=1)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Start a program in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process at once; fails if it ended by itself, with an error."""
    ended = process.poll()
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert not ended, errors.decode()[-3000:]


def wait_for(journal: Path, lines: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a writer has noted some changes."""
    deadline = time.monotonic() + 90
    while not journal.exists() or journal.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()[1].decode()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def after(model: dict[int, int], journal: Path) -> list[dict[int, int]]:
    """States that the changes of a journal may leave: the last one may or may not be stored."""
    states = [dict(model)]
    begun = None
    for line in journal.read_text().splitlines():
        found = json.loads(line)
        if "begun" in found:
            begun = dict(states[-1])
            for key in found["begun"].get("delete", ()):
                begun.pop(key, None)
            begun |= {int(key): value for key, value in found["begun"].get("put", {}).items()}
            continue
        assert begun is not None
        states, begun = [begun], None
    return states if begun is None else [states[-1], begun]


def run_killed(seed: int, folder: Path, rounds: int = 2) -> None:
    """Kill writer and compactor in turn, start them again, and look for every row after each round."""
    rng = random.Random(seed)
    uri, model, shard = folder / "t.lance", dict(BASE), new_shard()
    create(uri, model)
    compactors = [start(COMPACT, uri, seed * 100 + number) for number in range(2)]
    try:
        for number in range(rounds):
            journal = folder / f"{number}.jsonl"
            writing = start(WRITE, uri, shard, journal, seed * 10 + number + 1)
            try:
                wait_for(journal, rng.randrange(20, 120), writing)
            finally:
                kill(writing)
            kill(compactors[number % 2])
            states = after(model, journal)
            found = read_all(uri)
            assert found in states, (seed, number)
            model = found
            compactors[number % 2] = start(COMPACT, uri, seed * 100 + 10 + number)
    finally:
        for process in compactors:
            kill(process)
    assert read_all(uri) == model
    with writer(uri, shard) as opened:
        if has_key_indices(uri):
            assert as_rows(opened.lsm_scanner().to_table()) == model
    assert peer_agrees(uri, model)
    lo.compact_wal(uri, remove_after=timedelta(0))
    assert as_rows(lance.dataset(str(uri)).to_table()) == model
    assert as_rows(lo.dataset(uri).to_table()) == model
    assert not any(item.generations for item in shards(uri))


def test_killed_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    run_killed(1, tmp_path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        run_crashes(Path(place), 1)
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        with tempfile.TemporaryDirectory() as place:
            run_killed(seed, Path(place), rounds=4)
