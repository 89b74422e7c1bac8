"""The long campaign of streams: crashes of the sink, histories for the source, kills of a whole pipeline.

python -m tests.safety.streams [--foreign N] [--seeds N] [--kills N] [--only PART]      (`make streams`)
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.safety.stream_crashes import KINDS, crash_everywhere
from tests.safety.stream_histories import check_history
from tests.safety.stream_pipeline import kill_at_random


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--foreign", type=int, default=1000, help="commits of others before a restart")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="of sinks")
    parser.add_argument("--every", type=int, default=1, help="crash at every so many calls only")
    parser.add_argument("--seeds", type=int, default=200, help="histories")
    parser.add_argument("--commits", type=int, default=40, help="commits of a history")
    parser.add_argument("--kills", type=int, default=10, help="of the driver of a pipeline")
    parser.add_argument("--seconds", type=float, default=30, help="that a driver lives at most")
    parts = {"sink": sink, "source": source, "pipeline": pipeline}
    parser.add_argument("--only", choices=list(parts), action="append")
    given = parser.parse_args()
    for part in given.only or parts:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for line in parts[part](Path(folder), given):
                sys.stdout.write(f"{part}: {line} ({time.monotonic() - begun:,.0f} s)\n")
                sys.stdout.flush()


def sink(folder: Path, given: argparse.Namespace) -> Iterator[str]:
    for kind in given.kinds:
        for cleaner in ("ours", "theirs"):
            place = folder / f"{kind}-{cleaner}"
            place.mkdir()
            ends = crash_everywhere(place, kind, given.foreign, cleaner, compacts=False, every=given.every)
            yield f"{kind}, cleaned up by {cleaner}, {given.foreign} commits of others: {ends}"


def source(folder: Path, given: argparse.Namespace) -> Iterator[str]:
    found = [check_history(folder, seed, given.commits) for seed in range(given.seeds)]
    versions, rows = (sum(numbers) for numbers in zip(*found, strict=True))
    yield f"{given.seeds} histories, {versions:,} versions, {rows:,} rows delivered, all as the snapshots"


def pipeline(folder: Path, given: argparse.Namespace) -> Iterator[str]:
    yield f"{given.kills} kills: {kill_at_random(folder, 1, given.kills, given.seconds)}"


if __name__ == "__main__":
    main()
