"""`lance-ops demo`: a year of flights through every operation, by Dagster on a local Spark, with a rival."""

import json
import logging
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console

from examples.demo.definitions import DELAYS_JOB, FLIGHTS, INGEST, MONTHS, build_demo_definitions, delays_uri
from examples.demo.instance import fresh_instance
from examples.demo.report import print_versions, version_rows
from lance_ops.dagster import Alert, Message
from lance_ops.dagster.jobs.operations import CLEANUP, COMPACT, DELETE, INDEX
from lance_ops.errors import TaskFailedError
from lance_ops.index.upkeep.statistics import describe_indices
from lance_ops.maintenance.fsck.operation import fsck
from lance_ops.maintenance.text import count_text
from lance_ops.table.dataset import Dataset

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

INDICES = [
    {"column": "flight"},
    {"column": "dest", "kind": "BITMAP"},
    {"column": "route", "kind": "INVERTED"},
]

FLOWN = 328_521
"""Flights of the year that were not cancelled."""


@dataclass(slots=True)
class _Alerts:
    """A notifier that keeps what it is told."""

    received: list[Alert | Message] = field(default_factory=list)

    def notify(self, alert: Alert | Message) -> None:
        self.received.append(alert)


@dataclass(slots=True)
class _Demo:
    folder: Path
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    alerts: _Alerts
    console: Console
    cursors: dict[str, str | None] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return str(self.folder / "flights.lance")

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def job(
        self,
        name: str,
        *,
        partition: str | None = None,
        config: Mapping[str, object] | None = None,
        op: str | None = None,
        tags: Mapping[str, str] | None = None,
        may_fail: bool = False,
    ) -> dg.ExecuteInProcessResult:
        """Run a job in this process, which keeps one Spark for all of them."""
        result = self.definitions.resolve_job_def(name).execute_in_process(
            instance=self.instance,
            partition_key=partition,
            run_config={**_QUIET, **({"ops": {op: {"config": dict(config or {})}}} if op else {})},
            tags=dict(tags or {}),
            raise_on_error=False,
        )
        if not result.success and not may_fail:
            raise TaskFailedError(f"run {result.run_id} of {name} failed", hint="make ui shows it under Runs")
        return result

    def tick(self) -> int:
        """One tick of the manifest sensor; runs what it asks for, and says how many runs that were."""
        answer = self.evaluate("lance_manifest_sensor")
        for request in answer.run_requests or []:
            self.job(request.job_name or DELAYS_JOB, partition=request.partition_key, tags=request.tags)
        return len(answer.run_requests or [])

    def evaluate(self, name: str) -> dg.SensorResult:
        """One tick of a sensor: its events are stored and its cursor is kept."""
        sensor = self.definitions.resolve_sensor_def(name)
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(name),
            definitions=self.definitions,
            resources=self.definitions.resources,
            sensor_name=name,
        ) as context:
            answer = sensor(context)
        assert isinstance(answer, dg.SensorResult)
        for event in answer.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursors[name] = answer.cursor
        return answer


def run_demo(folder: Path, *, as_json: bool = False) -> None:
    """Run the demo and print what happened.

    Args:
        folder: Where the datasets go; what is there from an earlier demo is removed.
        as_json: Print one JSON object at the end and nothing before.

    Raises:
        LanceOpsError: A step failed, or the result is not what it has to be.
    """
    started = time.perf_counter()
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    console = Console(stderr=as_json, quiet=as_json, width=None if sys.stdout.isatty() else 132)
    # What Dagster and its sensors log is in the UI; here it would hide what the demo says.
    logging.disable(logging.WARNING)
    alerts = _Alerts()
    with fresh_instance(folder) as instance:
        demo = _Demo(folder, instance, build_demo_definitions(folder, notifier=alerts), alerts, console)
        summary = _run(demo)
    summary["seconds"] = round(time.perf_counter() - started, 1)
    if as_json:
        sys.stdout.write(json.dumps(summary, default=str) + "\n")
        return
    demo.say(f"\n{summary['flights']:,} flights remain. The whole demo took {summary['seconds']} s.")
    demo.say("Open the Dagster UI on it with: make ui")


def _run(demo: _Demo) -> dict[str, Any]:
    from lance_ops.spark.session import build_session

    demo.say("Starting Spark ...")
    spark = build_session("lance_ops demo")
    # It warns that a month of flights travels inside a task.
    spark.sparkContext.setLogLevel("ERROR")
    try:
        _ingest(demo)
        _delete(demo)
        demo.say(
            "Building a BTREE on the flight number, a BITMAP on the destination, full text on the route ..."
        )
        demo.job(INDEX, partition=FLIGHTS, op="index", config={"indices": INDICES})
        demo.say(f"The manifest sensor looks: {_runs_text(demo.tick())}.")
        _lose(demo)
        rival = _win(demo)
        demo.say(f"The manifest sensor looks: {_runs_text(demo.tick())}.")
        demo.say("Compacting once more, now that the other writer is gone ...")
        demo.job(COMPACT, partition=FLIGHTS, op="compact", config={"target_rows_per_fragment": 1 << 20})
        demo.say(f"The manifest sensor looks after a compaction: {_runs_text(demo.tick())}.")
        demo.say("Bringing the indices up to date ...")
        demo.job(INDEX, partition=FLIGHTS, op="index", config={"indices": INDICES})
        rows = version_rows(Dataset.open(demo.uri), demo.instance)
        before = len(Dataset.open(demo.uri).versions())
        demo.say("Cleaning up all but the newest five versions ...")
        demo.job(
            CLEANUP,
            partition=FLIGHTS,
            op="cleanup",
            config={"dry_run": False, "older_than_days": 0, "retain_versions": 5},
        )
        dataset = Dataset.open(demo.uri)
        print_versions(demo.console, rows, kept={info.version for info in dataset.versions()})
        return _check(demo, dataset, rival, before, rows)
    finally:
        spark.stop()


def _ingest(demo: _Demo) -> None:
    months = MONTHS.get_partition_keys()
    with demo.console.status("Appending the year month by month ...") as status:
        for number, month in enumerate(months, 1):
            status.update(f"Appending {month[:7]} ({number} of {len(months)}) ...")
            demo.job(f"{INGEST}_job", partition=month, tags={"lance_ops/backfill": "year-2013"})
    demo.say(f"Appended {len(months)} months: {Dataset.open(demo.uri).count_rows():,} flights.")


def _delete(demo: _Demo) -> None:
    before = Dataset.open(demo.uri).count_rows()
    demo.job(
        DELETE, partition=FLIGHTS, op="delete", config={"predicate": "dep_time IS NULL", "dry_run": False}
    )
    demo.say(f"Deleted {before - Dataset.open(demo.uri).count_rows():,} cancelled flights.")


def _lose(demo: _Demo) -> None:
    """Compact while another process appends and restores: the run has to fail, and somebody is told."""
    demo.say("Another process appends flights and takes them back by a restore, while we compact ...")
    with _second_writer(demo, "undo"):
        result = demo.job(
            COMPACT, partition=FLIGHTS, op="compact", config={"conflict_retries": 0}, may_fail=True
        )
    if result.success:
        demo.say("The compaction slipped in between.")
        return
    demo.say("The compaction gave up and changed nothing: a restore made its plan void.")
    _raise_alarm(demo, result)


def _win(demo: _Demo) -> dict[str, int]:
    """Compact while another process deletes from the same fragments: the run plans afresh until it fits."""
    demo.say("Another process appends charter flights and cancels them one by one, while we compact ...")
    with _second_writer(demo, "cancel") as deeds:
        result = demo.job(
            COMPACT, partition=FLIGHTS, op="compact", config={"conflict_retries": 0}, may_fail=True
        )
    if result.success:
        demo.say(
            f"The compaction won, having met some of the {deeds['commits']} commits of the other writer."
        )
    else:
        demo.say("The compaction gave up after several attempts, and changed nothing.")
        _raise_alarm(demo, result)
    return deeds


@contextmanager
def _second_writer(demo: _Demo, act: str) -> Iterator[dict[str, int]]:
    """Run the second writer meanwhile; what it did is in the yielded dict afterwards."""
    deeds: dict[str, int] = {}
    writer = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "examples.demo.second_writer", demo.uri, act],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    try:
        if writer.stdout.readline() != "ready\n":
            raise TaskFailedError("the second writer ended before it began")
        yield deeds
    finally:
        writer.stdin.close()
        lines = writer.stdout.read().split("\n")
        writer.wait(60)
    deeds |= json.loads(lines[0])


def _runs_text(runs: int) -> str:
    return f"it starts {count_text(runs, 'Spark run')} downstream" if runs else "it starts nothing"


def _raise_alarm(demo: _Demo, result: dg.ExecuteInProcessResult) -> None:
    if result.success:
        return
    known = len(demo.alerts.received)
    demo.evaluate("lance_failure_alert_sensor")
    for alert in demo.alerts.received[known:]:
        demo.say(f"Alert: {alert}")


def _check(
    demo: _Demo, dataset: Dataset, rival: Mapping[str, int], versions_before: int, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    flights = dataset.count_rows()
    expected = FLOWN + rival["appended"] - rival["cancelled"]
    if flights != expected:
        raise TaskFailedError(f"{flights:,} flights remain, it should be {expected:,}", path=demo.uri)
    found = fsck(dataset, deep=True)
    if not found.ok:
        raise TaskFailedError(f"the dataset is not sound: {found}", path=demo.uri)
    demo.say(str(found))
    indices = describe_indices(dataset)
    for item in indices:
        demo.say(
            f"Index {item.name} ({item.index_type}) covers {item.coverage:.0%} of the rows, in "
            f"{count_text(item.num_segments, 'segment')}."
        )
    return {
        "indices": {item.index_type: item.coverage for item in indices},
        "uri": demo.uri,
        "delays_uri": delays_uri(demo.folder),
        "flights": flights,
        "second_writer": dict(rival),
        "alerts": [str(alert) for alert in demo.alerts.received],
        "versions_before_cleanup": versions_before,
        "versions": rows,
    }
