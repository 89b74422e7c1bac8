"""The first query of a session: `python -m benchmarks.spark_first DOOR PATH` in a process of its own.

Prints seconds by the clock and of the processors, from the end of the session's start to the result.
"""

import sys
import time
from typing import Any

import psutil

from lance_ops.spark import build_session, read_dataset


def processor_seconds() -> float:
    """Of this process and all below it; what ended is counted by its parent, unless that ignores it."""
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def everything() -> list[Any]:
    """Aggregates that read all columns of the data of `benchmarks.spark`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    return [F.count("*"), F.sum("id"), F.sum("user"), F.sum("value"), F.max("name")]


def main(door: str, path: str) -> None:
    """Start a session, run one query, print what it cost."""
    spark = build_session("benchmark", "local[2]")
    clock, processor = time.perf_counter(), processor_seconds()
    frame = read_dataset(spark, path) if door == "read_dataset" else spark.read.format(door).load(path)
    frame.agg(*everything()).collect()
    print(f"took {time.perf_counter() - clock} {processor_seconds() - processor}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
