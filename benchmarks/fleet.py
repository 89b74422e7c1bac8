"""The fleet plane on 1,000 and 10,000 datasets: first contact, everything due, a distant store, forecasts.

    python -m benchmarks.fleet [--folder FOLDER] [--datasets 1000] [--only PART ...] [--write]

Each part runs in a process of its own on a copy of the fleet of `fleet_data`. Seconds are of the clock and of
the processor; on a busy machine only the latter say much.
"""

import argparse
import datetime as dt
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import psutil

import lance_ops as lo
from benchmarks import fleet_dagster
from benchmarks.fleet_data import rows, write_fleet
from benchmarks.fleet_goals import goals
from benchmarks.report import keep_text, machine, today
from lance_ops.fleet.adopt.operation import adopt_fleet
from lance_ops.fleet.alerts.operation import tell_alerts
from lance_ops.fleet.forecast.operation import estimate_errors
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.run import maintain
from lance_ops.fleet.run.operation import RunOptions, run_fleet
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import open_store

MARKED = "fleet"
DELAY = 0.1
MANY = 10_000
_MOST_VERSIONS = 5
_LIMITS = f"{{max_small_fragments: 2, max_versions: {_MOST_VERSIONS}, older_than: 0s, retain_versions: 1}}"


def fleet_policy(root: Path, mode: str = "auto") -> FleetPolicy:
    """A policy under which every dataset of three fragments is due."""
    return parse_policy(
        f"version: 1\nmode: {mode}\nstores: {{s: {{root: {root}, options: {{fsync: 'false'}}}}}}\n"
        f"classes: {{default: {_LIMITS}}}\n"
    )


def first_contact(root: Path) -> dict[str, Any]:
    """`fleet adopt`: find, measure, write the ledger and the policy."""
    found = adopt_fleet(str(root), root / "lance_fleet.yaml", options={"fsync": "false"})
    looks = found.survey.looks
    return {
        "datasets": len(looks),
        "requests_per_dataset": found.survey.requests / len(looks),
        "policy": (root / "lance_fleet.yaml").stat().st_size,
    }


def everything_due(root: Path) -> dict[str, Any]:
    """`fleet run`, twice: the second has nothing to do. Memory is looked at after each tenth of the way."""
    sizes: list[int] = []
    this = psutil.Process()

    def note(event: Any) -> None:
        if event.operation == "fleet run" and event.total and not event.done % max(1, event.total // 10):
            sizes.append(this.memory_info().rss)

    done = run_fleet(fleet_policy(root), runner=LocalRunner(2), progress=note)
    return {
        "datasets": done.row.datasets,
        "operations": done.row.operations,
        "before": dict(done.before),
        "after": dict(done.after),
        "failed": done.row.failed,
        "memory_tenth": sizes[0] if sizes else 0,
        "memory_end": sizes[-1] if sizes else 0,
    }


def pure_work(root: Path) -> dict[str, Any]:
    """The same operations by hand, one after the other, where they are due by the same limits."""
    paths = sorted(root.glob("*/*.lance"))
    operations = 0
    options = {"fsync": "false"}
    for path in paths:
        uri = str(path)
        lo.compact(uri, runner=LocalRunner(1), storage_options=options)
        operations += 1
        dataset = lo.dataset(uri)
        # Every index of this fleet lacks the last append, which is more than the policy allows.
        if dataset.indices:
            lo.optimize_indices(uri, runner=LocalRunner(1), storage_options=options)
            operations += 1
        if len(list((path / "_versions").glob("*.manifest"))) > _MOST_VERSIONS:
            lo.cleanup(uri, older_than=timedelta(0), retain_versions=1, storage_options=options)
            operations += 1
    return {"datasets": len(paths), "operations": operations}


def on_spark(root: Path) -> dict[str, Any]:
    """`fleet run --spark local[2]`: Spark jobs, processor time and memory of all processes, JVM included."""
    from lance_ops.spark.runner import SparkRunner
    from lance_ops.spark.session import build_session

    session = build_session("fleet", "local[2]")
    tracker = session.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    with Tree() as tree:
        began, work = time.perf_counter(), tree.processor
        done = run_fleet(fleet_policy(root), runner=SparkRunner(session))
        seconds, work = time.perf_counter() - began, tree.look() - work
    jobs = len(tracker.getJobIdsForGroup(None)) - before
    session.stop()
    return {
        "datasets": done.row.datasets,
        "operations": done.row.operations,
        "jobs": jobs,
        "after": dict(done.after),
        "failed": done.row.failed,
        "run_seconds": seconds,
        "run_work": work,
        "memory_third": tree.memory_at(1 / 3),
        "memory_end": tree.memory_at(1.0),
    }


class Tree:
    """This process and all below it, looked at each half second: processor time, and memory of their own.

    The time of a process that has ended since counts as it was when it was last seen.
    """

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._sizes: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def processor(self) -> float:
        """Seconds of all of them."""
        return sum(self._times.values())

    def look(self) -> float:
        """Look now; returns `processor`."""
        this, size = psutil.Process(), 0
        for process in [this, *this.children(recursive=True)]:
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._times[process.pid] = times.user + times.system
                # What forked workers share with their parent is there once.
                size += process.memory_full_info().uss
        self._sizes.append(size)
        return self.processor

    def memory_at(self, share: float) -> int:
        """Bytes when such a share of the looks had been taken."""
        return self._sizes[max(0, round(share * len(self._sizes)) - 1)]

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self.look()


def forecasts(root: Path) -> dict[str, Any]:
    """Every other dataset teaches what operations take here; the errors are those of the others."""
    policy = fleet_policy(root)
    names = sorted(str(path.relative_to(root)) for path in root.glob("*/*.lance"))
    run_fleet(policy, RunOptions(only=frozenset(names[::2])), runner=LocalRunner(1))
    done = run_fleet(policy, RunOptions(survey=None), runner=LocalRunner(1))
    return {
        item.operation: {"count": item.count, "seconds": item.seconds, "bytes": item.bytes}
        for item in estimate_errors(done.rows)
    }


def forecasts_of_work(root: Path) -> dict[str, Any]:
    """The same with seconds of the processor instead of the clock: what a busy machine can tell."""
    clock = SimpleNamespace(time=time.time, monotonic=time.process_time)
    with patch.object(maintain, "time", clock):
        return forecasts(root)


class Distant:
    """A store whose every request takes a tenth of a second; it maps no file and watches no folder."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name in ("map_file", "list_names"):
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if name == "child":
            return lambda relative: Distant(found(relative))
        if not callable(found):
            return found

        def late(*arguments: Any, **options: Any) -> Any:
            time.sleep(DELAY)
            return found(*arguments, **options)

        return late

    @property
    def uri(self) -> str:
        """Of another scheme, so that nobody takes it for a folder of this machine."""
        return "distant://" + self._inner.uri.lstrip("/")

    @property
    def supports_put_if_absent(self) -> bool:
        """As the store below."""
        return bool(self._inner.supports_put_if_absent)


def distant_survey(root: Path) -> dict[str, Any]:
    """A survey through a store with 100 ms a request, and another when nothing has changed."""
    policy = fleet_policy(root)
    found: dict[str, Any] = {}
    for name in ("first", "again"):
        stores = FleetStores(policy)
        stores.use("s", Distant(open_store(str(root))))  # type: ignore[arg-type]
        began = time.perf_counter()
        survey = survey_fleet(policy, stores=stores)
        found[name] = {
            "seconds": time.perf_counter() - began,
            "requests_per_dataset": survey.requests / len(survey.looks),
            "datasets": len(survey.looks),
        }
    return found


def many(root: Path) -> dict[str, Any]:
    """10,000 datasets, surveyed in eight shards; memory after the first and after the last."""
    one = root / "one.lance"
    lo.append(str(one), rows(0), storage_options={"fsync": "false"})
    fleet = root / "many"
    for number in range(MANY):
        shutil.copytree(one, fleet / f"{number % 100:02d}" / f"{number:05d}.lance")
    policy, this = fleet_policy(fleet), psutil.Process()
    sizes, seconds, looks = [], [], 0
    for shard in range(8):
        began = time.process_time()
        looks += len(survey_fleet(policy, SurveyOptions(shard=(shard, 8))).looks)
        seconds.append(time.process_time() - began)
        sizes.append(this.memory_info().rss)
    return {
        "datasets": looks,
        "memory_first": sizes[0],
        "memory_last": sizes[-1],
        "shard_seconds": statistics.median(seconds),
    }


def alert_work(root: Path) -> dict[str, Any]:
    """Telling of 1,000 datasets: everything, nothing, one change, nothing; processor seconds each."""
    policy = parse_policy(
        f"version: 1\nmode: auto\nstores: {{s: {{root: {root}, options: {{fsync: 'false'}}}}}}\n"
        f"classes: {{default: {_LIMITS}}}\nalerts: [{{to: log}}, {{to: log, kinds: [damaged, overdue]}}]\n"
    )
    now = dt.datetime.now(dt.UTC)
    ledger = FleetLedger.of(policy)
    looks = [
        Look(
            key=f"x/{number}",
            survey="x",
            at=now,
            dataset=f"d{number:05d}.lance",
            store="s",
            uri=f"{root}/d{number:05d}.lance",
            class_name="default",
            verdict="blocked" if number % 10 == 0 else "healthy",
            why="no way" if number % 10 == 0 else "",
            schema="s",
        )
        for number in range(1000)
    ]
    ledger.add_looks(looks, key="x")
    found: dict[str, Any] = {}
    changed = replace(looks[1], verdict="damaged", at=now + timedelta(seconds=1), key="y/1")
    for name, more in (("all", ()), ("nothing", ()), ("one", (changed,)), ("nothing_again", ())):
        ledger.add_looks(more, key=name)
        began = time.process_time()
        told = tell_alerts(policy, ledger=ledger)
        found[name] = time.process_time() - began
        found[f"{name}_told"] = told.alerts
    return found


PARTS: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "contact": first_contact,
    "run": everything_due,
    "pure": pure_work,
    "spark": on_spark,
    "forecast": forecasts,
    "forecast_work": forecasts_of_work,
    "distant": distant_survey,
    "many": many,
    "alerts": alert_work,
    **fleet_dagster.PARTS,
}


def measured(part: str, folder: Path) -> dict[str, Any]:
    """Run a part in this process."""
    began, work = time.perf_counter(), time.process_time()
    found = PARTS[part](folder)
    return {
        **found,
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - work,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    }


def lines(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The table of the report."""
    yield "| work | result |"
    yield "|---|---|"
    for part, values in found.items():
        shown = ", ".join(f"{name} {_text(name, value)}" for name, value in values.items())
        yield f"| {(PARTS[part].__doc__ or '').splitlines()[0]} | {shown} |"
    if "run" in found and "pure" in found:
        ratio = found["run"]["processor"] / found["pure"]["processor"]
        yield f"| processor time of the run over that of the pure work | {ratio:.2f} |"


def _text(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key} {_text(key, item)}" for key, item in value.items()) + ")"
    if name.startswith(("memory", "peak")):
        return f"{value / 1e6:.0f} MB"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def main() -> None:
    """Parse the arguments, write the fleet, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--folder", type=Path, help="a fleet that is there already, of fleet_data --least 3")
    parser.add_argument("--datasets", type=int, default=1000)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--write", action="store_true", help="keep the results in benchmarks/README.md")
    parser.add_argument("--part", nargs=2, metavar=("PART", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(measured(arguments.part[0], Path(arguments.part[1]))))
        return
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="lance-ops-fleet-") as scratch:
        source = arguments.folder
        if source is None:
            source = Path(scratch) / "fleet"
            for _ in write_fleet(source, arguments.datasets, least=3):
                pass
        for part in arguments.only:
            copy = Path(scratch) / part
            if part in ("many", "many_ticks"):
                copy.mkdir()
            else:
                shutil.copytree(source, copy)
            command = [sys.executable, "-m", "benchmarks.fleet", "--part", part, str(copy)]
            ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[part] = json.loads(ended.stdout.splitlines()[-1])
            print(part, found[part], flush=True)
            shutil.rmtree(copy)
    table = [*goals(found), "", *lines(found)]
    print("\n".join(table))
    if arguments.write:
        keep_text(MARKED, [f"{today()}, {machine()}.", "", *table])


if __name__ == "__main__":
    main()
