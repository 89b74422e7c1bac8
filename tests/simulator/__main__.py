"""`make simulate` and `make mutants`: campaigns of the simulator."""

import argparse
import contextlib
import sys
import time
from pathlib import Path

from tests.simulator.campaign import Totals, explain, run_seeds
from tests.simulator.history import plan_of
from tests.simulator.mutants import CAUGHT_BY, MUTANTS
from tests.simulator.shrink import failure_of
from tests.simulator.virtual import virtual

RECORD = Path(".cache/simulator/campaign.json")
_CHUNK = 200


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the seeds of a range that the record does not have yet")
    run.add_argument("--seeds", default="0:1000000", help="first:end")
    run.add_argument("--minutes", type=float, default=20.0, help="stop after so long; a later call goes on")
    run.add_argument("--record", type=Path, default=RECORD, help="file with what is done")
    story = commands.add_parser("story", help="shrink a failing seed and print its story")
    story.add_argument("seed", type=int)
    story.add_argument("--mutant", choices=sorted(MUTANTS), help="with this fault in the product")
    mutants = commands.add_parser("mutants", help="find the first seed that catches each mutant")
    mutants.add_argument("names", nargs="*", help="parts of the names of mutants; all by default")
    mutants.add_argument("--most", type=int, default=10_000, help="histories for each")
    mutants.add_argument("--known", action="store_true", help="only the seeds that are known to catch them")
    mutants.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args(arguments)
    if options.command == "run":
        return campaign(options.seeds, options.minutes, options.record)
    if options.command == "story":
        with virtual() as use, MUTANTS[options.mutant]() if options.mutant else contextlib.nullcontext():
            print(explain(options.seed, use))
        return 0
    if options.known:
        return catch_again()
    return catch(options.names, options.first, options.most)


def campaign(seeds: str, minutes: float, record: Path) -> int:
    """Run what is left of a range, and print what all runs of the record covered."""
    first, end = map(int, seeds.split(":"))
    totals, done = Totals.load(record)
    before = len(totals.failures)
    deadline = time.monotonic() + 60 * minutes
    with virtual() as use:
        place = first
        while place < end and time.monotonic() < deadline:
            over = next((item for item in done if item[0] <= place < item[1]), None)
            if over is not None:
                place = over[1]
                continue
            last = min([end, place + _CHUNK, *(item[0] for item in done if item[0] > place)])
            ran = run_seeds(range(place, last), use, totals, stop=lambda: time.monotonic() >= deadline)
            done = joined([*done, (place, place + ran)])
            place += ran
            totals.save(record, done)
        print(totals.summary(), totals.matrix(), sep="\n\n")
        for seed, _ in totals.failures[before : before + 3]:
            with contextlib.suppress(ValueError):
                print("", explain(seed, use), sep="\n")
    for seed, what in totals.failures:
        print(f"seed {seed}: {what.splitlines()[0][:160]}")
    return 1 if totals.failures else 0


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, those that meet as one."""
    result: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if end <= first:
            continue
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result


def catch(names: list[str], first: int, most: int) -> int:
    """Find the first failing seed of each mutant."""
    survivors = 0
    with virtual() as use:
        for name, mutant in MUTANTS.items():
            if names and not any(part in name for part in names):
                continue
            for seed in range(first, first + most):
                with mutant():
                    kind, what, _ = failure_of(plan_of(seed), use)
                if kind:
                    first_line = what.splitlines()[0][:90]
                    print(f"caught    {name:48} seed {seed:>6}  {first_line}", flush=True)
                    break
            else:
                survivors += 1
                print(f"SURVIVES  {name:48} {most} histories", flush=True)
    return 1 if survivors else 0


def catch_again() -> int:
    """Run each mutant with the seed that is known to catch it, and that seed without a mutant."""
    wrong = 0
    with virtual() as use:
        for name, seed in CAUGHT_BY.items():
            sound, said, _ = failure_of(plan_of(seed), use)
            with MUTANTS[name]():
                kind, what, _ = failure_of(plan_of(seed), use)
            good = bool(kind) and not sound
            wrong += not good
            text = said if sound else what
            first_line = text.splitlines()[0][:90] if text else ""
            verdict = "caught" if good else "WRONG"
            print(f"{verdict:9} {name:48} seed {seed:>6}  {first_line}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
