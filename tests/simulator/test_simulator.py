"""Histories of the simulator with fixed seeds, and mutants that they catch; each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulator.__main__ import joined
from tests.simulator.mutants import CAUGHT_BY, MUTANTS
from tests.simulator.world import START, Choices, Killed, Process, World

ROOT = Path(__file__).parents[2]
HISTORIES = 5_000
SHARES = 4


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command: the clock and the dice of a whole process are replaced."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulator", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
    )


@pytest.mark.parametrize("share", range(SHARES))
def test_fixed_histories_keep_every_promise(tmp_path, share):
    size = HISTORIES // SHARES
    seeds = f"{share * size}:{(share + 1) * size}"
    done = simulate("run", "--seeds", seeds, "--minutes", "24", "--record", str(tmp_path / "record.json"))
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert f"histories{size:>27,}" in done.stdout


def test_known_seeds_catch_every_mutant():
    done = simulate("mutants", "--known")
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert done.stdout.count("caught") == len(CAUGHT_BY)


def test_there_are_enough_mutants_and_each_known_one_exists():
    assert len(CAUGHT_BY) >= 20
    assert CAUGHT_BY.keys() <= MUTANTS.keys()


def test_a_failing_seed_becomes_a_short_story():
    name = "manifests are put without a condition"
    done = simulate("story", str(CAUGHT_BY[name]), "--mutant", name)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.startswith(f"seed {CAUGHT_BY[name]}: ")
    assert "process 0" in done.stdout
    assert len(done.stdout.splitlines()) < 60


def test_a_campaign_goes_on_where_it_ended(tmp_path):
    record = str(tmp_path / "record.json")
    simulate("run", "--seeds", "0:3", "--record", record)
    done = simulate("run", "--seeds", "0:5", "--record", record)
    assert f"histories{5:>27,}" in done.stdout


def test_ranges_that_meet_are_one():
    assert joined([(5, 9), (0, 5), (20, 20), (12, 14)]) == [(0, 9), (12, 14)]


# The world


def test_processes_run_one_at_a_time_and_the_clock_follows_the_sleepers():
    world = World(0, None)
    seen: list[tuple[int, float]] = []

    def body(process: Process) -> None:
        for _ in range(2):
            world.sleep(10.0 * (process.number + 1))
            seen.append((process.number, world.now - START))

    world.start(body)
    world.start(body)
    world.run()
    assert seen == [(0, 10.0), (0, 20.0), (1, 20.0), (1, 40.0)] or sorted(seen) == [
        (0, 10.0),
        (0, 20.0),
        (1, 20.0),
        (1, 40.0),
    ]


def test_a_killed_process_makes_no_further_call():
    world = World(0, None, Choices({}, {(0, 2): "die after"}))
    done: list[str] = []

    def body(process: Process) -> None:
        try:
            for number in range(4):
                world.call(process, "put", str(number), lambda number=number: done.append(str(number)))
        except Killed:
            with pytest.raises(Killed):
                world.call(process, "put", "after", lambda: done.append("after"))
            raise

    world.start(body)
    world.run()
    assert done == ["0", "1"]


def test_a_late_request_is_carried_out_after_its_error():
    world = World(0, None, Choices({}, {(0, 1): "late"}))
    done: list[str] = []

    def body(process: Process) -> None:
        with pytest.raises(Exception, match="not been answered"):
            world.call(process, "put", "a", lambda: done.append("late"))
        assert not done

    world.start(body)
    world.run()
    assert done == ["late"]
