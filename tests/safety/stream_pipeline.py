"""A pipeline of streams between datasets on real Spark, whose driver is killed at random times.

    python -m tests.safety.stream_pipeline URI MIRROR CHANGES CHECKPOINTS     one driver, until it is killed

One query appends what is added to the first dataset to a second one; another one writes the changes of rows
to a third one, from which the rows of the first one can be worked out.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import lance_ops as lo
from tests.support.spark import FAST_JVM, ROOT

_READY = "queries run"


def drive(source: str, mirror: str, changes: str, checkpoints: str, *, drain: bool) -> None:
    """Run the queries: until there is nothing new, or until somebody kills this process."""
    from lance_ops.spark import build_session

    spark = build_session("pipeline", "local[2]", config={"spark.driver.extraJavaOptions": FAST_JVM})
    spark.sparkContext.setLogLevel("ERROR")
    trigger = {"availableNow": True} if drain else {"processingTime": "0 seconds"}
    queries = []
    for mode, sink in (("append", mirror), ("changes", changes)):
        rows = spark.readStream.format("lance").option("mode", mode).option("startingVersion", 1)
        rows = rows.option("maxRowsPerTrigger", 200)
        rows = rows.option("skipChangeCommits", "true") if mode == "append" else rows
        writer = rows.load(source).writeStream.format("lance").option("compactEvery", 5)
        writer = writer.option("checkpointLocation", f"{checkpoints}/{mode}")
        queries.append(writer.trigger(**trigger).start(sink))
    sys.stdout.write(f"{_READY}\n")
    sys.stdout.flush()
    for query in queries:
        query.awaitTermination()


@dataclass
class Pipeline:
    """Where everything lies."""

    folder: Path

    def __post_init__(self) -> None:
        self.source, self.mirror, self.changes = (
            str(self.folder / f"{name}.lance") for name in ("source", "mirror", "changes")
        )

    @property
    def log(self) -> Path:
        """What the last driver said."""
        return self.folder / "driver.log"

    def command(self, *more: str) -> list[str]:
        """The driver's command line."""
        places = [self.source, self.mirror, self.changes, str(self.folder / "checkpoints")]
        return [sys.executable, "-W", "ignore", "-m", "tests.safety.stream_pipeline", *places, *more]

    def start(self) -> "subprocess.Popen[str]":
        """Start a driver; it leads a process group, which is what is killed."""
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
        with self.log.open("w") as log:
            return subprocess.Popen(
                self.command(),
                env={**os.environ, "PYTHONPATH": path},
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def runs(self, driver: "subprocess.Popen[str]") -> bool:
        """Whether a driver runs; one that ended by itself may not have met an error of ours.

        Spark gives up on Python processes that a busy machine is slow to start.
        """
        if driver.poll() is None:
            return True
        self.check_log()
        return False

    def check_log(self) -> None:
        """Fail if the last driver met an error of ours."""
        said = self.log.read_text()
        assert "lance_ops.errors" not in said, said[-4000:]

    def drain(self) -> bool:
        """Let a driver do all that is left; False when Spark failed."""
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
        with self.log.open("w") as log:
            done = subprocess.run(
                self.command("drain"),
                env={**os.environ, "PYTHONPATH": path},
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=log,
                check=False,
            )
        if done.returncode:
            self.check_log()
        return not done.returncode


def write_some(uri: str, dice: random.Random, first: int) -> int:
    """A commit of the source; returns the next id that is free."""
    count = dice.randint(1, 120)
    what = dice.random()
    if what < 0.7:
        lo.append(uri, pa.table({"id": pa.array(range(first, first + count)), "v": [f"v{first}"] * count}))
        return first + count
    some = f"id % 17 = {dice.randrange(17)} and id % 5 = {dice.randrange(5)}"
    if what < 0.8:
        lo.delete(uri, some)
    elif what < 0.9:
        lo.update(uri, {"v": f"'u{first}'"}, where=some)
    else:
        lo.compact(uri)
    return first


def kill_at_random(folder: Path, seed: int, kills: int, seconds: float) -> dict[str, int]:
    """Kill drivers at random times, `seconds` at most after their queries began; then compare all rows."""
    dice = random.Random(seed)
    pipeline = Pipeline(folder)
    lo.append(
        pipeline.source, pa.table({"id": pa.array([0], pa.int64()), "v": ["v"]}), enable_stable_row_ids=True
    )
    fresh, died = 1, 0
    for _ in range(kills):
        driver = pipeline.start()
        try:
            assert driver.stdout is not None
            while _READY not in driver.stdout.readline():
                if not pipeline.runs(driver):
                    break
            end = time.monotonic() + dice.uniform(0, seconds)
            while time.monotonic() < end and pipeline.runs(driver):
                fresh = write_some(pipeline.source, dice, fresh)
                time.sleep(0.05)
            died += not pipeline.runs(driver)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    while not pipeline.drain():
        died += 1
    return {**compare(pipeline, fresh), "ended by themselves": died}


def compare(pipeline: Pipeline, fresh: int) -> dict[str, int]:
    """Every id that was ever added is in the mirror once, and the changes add up to the source."""
    mirrored = lo.dataset(pipeline.mirror).to_table(["id"])["id"].to_pylist()
    assert len(mirrored) == len(set(mirrored)), "rows are doubled"
    assert set(mirrored) == set(range(fresh)), f"{fresh - len(mirrored)} rows are lost"
    bag: Counter[tuple[int, str]] = Counter()
    for row in lo.dataset(pipeline.changes).to_table().to_pylist():
        bag[row["id"], row["v"]] += -1 if row["_change_type"] in ("delete", "update_preimage") else 1
    rows = lo.dataset(pipeline.source).to_table().to_pylist()
    assert +bag == Counter((row["id"], row["v"]) for row in rows), "the changes do not add up to the rows"
    assert not -bag, "rows went that were not there"
    return {
        "ids": fresh,
        "source rows": len(rows),
        "mirrored": len(mirrored),
        "changes": lo.dataset(pipeline.changes).count_rows(),
        "mirror versions": lo.dataset(pipeline.mirror).version,
        "mirror fragments": len(lo.dataset(pipeline.mirror).fragments),
    }


if __name__ == "__main__":
    drive(*sys.argv[1:5], drain=sys.argv[5:] == ["drain"])
