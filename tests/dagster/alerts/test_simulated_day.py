"""A day of alerts over a simulated clock: silence while all is well, each fault once, and its end once.

`LANCE_OPS_ALERT_DATASETS=300 LANCE_OPS_ALERT_TICK=60` runs the whole of it; the suite has a share.
"""

import os
import random
import sys
import time
from dataclasses import dataclass, field

import dagster as dg
import pytest

from lance_ops.alerts.values import is_end
from lance_ops.dagster import (
    LanceDatasetRef,
    Message,
    build_check_alert_sensor,
    build_failure_alert_sensor,
)
from lance_ops.dagster.checks.catalog import page_name
from tests.support.dagster import Daemon

# It has no public name in Dagster.
DagsterEvent = sys.modules[dg.DagsterEventType.__module__].DagsterEvent

DATASETS = int(os.environ.get("LANCE_OPS_ALERT_DATASETS", "8"))
FAULTS = 20 if DATASETS >= 300 else 6
TICK = int(os.environ.get("LANCE_OPS_ALERT_TICK", "900"))
HOUR, DAY = 3600, 86_400
# Dagster dates some rows by the clock of the machine, so the day begins now.
START = int(time.time())
CHECKS = ("manifest_readable", "files_present", "deletion_vectors_valid")
JOBS = ("lance_compact", "lance_cleanup")
JOB = {name: dg.GraphDefinition(name=name).to_job() for name in JOBS}


@dataclass
class Recipient:
    """Notes when an alert of a dataset came, and whether it was an end."""

    now: int = 0
    got: list = field(default_factory=list)

    def notify(self, alert):
        alerts = alert.alerts.values() if isinstance(alert, Message) else [alert]
        for item in alerts:
            what = item.check if item.kind == "check" else item.job
            self.got.append((item.dataset, what, is_end(item), self.now))


@dataclass(frozen=True)
class Fault:
    """A check or a job of a dataset that fails for some hours."""

    dataset: str
    what: str
    start: int
    stop: int


def faults_of(seed):
    made = random.Random(seed)
    chosen = []
    for number in range(FAULTS):
        what = (*CHECKS, *JOBS, "blocked")[number % 6]
        start = made.randrange(HOUR, DAY - 8 * HOUR)
        dataset = f"t{number % DATASETS}"
        if any(other.dataset == dataset for other in chosen):
            dataset = next(f"t{n}" for n in range(DATASETS) if f"t{n}" not in {c.dataset for c in chosen})
        chosen.append(Fault(dataset, what, start, start + made.randrange(2 * HOUR, 6 * HOUR)))
    return chosen


def events_of(faults):
    """What is evaluated and what runs, in its order: (second, dataset, check or job, passed, blocked)."""
    blocked = {fault.dataset: fault for fault in faults if fault.what == "blocked"}
    found = []
    for number in range(DATASETS):
        name = f"t{number}"
        for hour in range(24):
            at = hour * HOUR + number * 7 % 1800
            found.append((at, name, "fragmentation", False, _lasts(blocked.get(name), at)))
            # A compaction each hour, but for one that something blocks.
            if not _lasts(blocked.get(name), at + 1200):
                found.append((at + 1200, name, "fragmentation", True, False))
    for fault in faults:
        if fault.what == "blocked":
            found.append((fault.start, fault.dataset, "fragmentation", False, True))
            found.append((fault.stop, fault.dataset, "fragmentation", True, False))
            continue
        for at in range(fault.start, fault.stop, HOUR):
            found.append((at, fault.dataset, fault.what, False, False))
        found.append((fault.stop, fault.dataset, fault.what, True, False))
    return sorted(found)


def _lasts(fault, at):
    return fault is not None and fault.start <= at < fault.stop


def happen(instance, name, what, passed, blocked):
    if what in JOB:
        run = instance.create_run_for_job(JOB[what], tags={"lance_ops/dataset": name})
        if passed:
            instance.report_dagster_event(
                DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, what), run.run_id
            )
        else:
            instance.report_run_failed(run, "the process of the run ended")
        return
    warning = what == "fragmentation"
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(name),
            check_name=page_name(what),
            passed=passed,
            severity=dg.AssetCheckSeverity.WARN if warning else dg.AssetCheckSeverity.ERROR,
            metadata={"lance/blocked": "an index of an unknown kind"} if blocked else {},
        )
    )


@pytest.mark.parametrize("seed", [None, 1])
def test_a_day_without_faults_is_silent_and_each_fault_is_sent_once_and_ended_once(
    tmp_path, monkeypatch, seed
):
    refs = [LanceDatasetRef(f"t{n}", str(tmp_path / f"t{n}")) for n in range(DATASETS)]
    faults = [] if seed is None else faults_of(seed)
    team = Recipient()
    monkeypatch.setattr(time, "time", lambda: float(START + team.now))
    waiting = events_of(faults)
    with dg.DagsterInstance.ephemeral() as instance:
        sensors = [
            Daemon(build(refs, team), instance, resources={})
            for build in (build_check_alert_sensor, build_failure_alert_sensor)
        ]
        for now in range(0, DAY + 1, TICK):
            while waiting and waiting[0][0] <= now:
                at, *event = waiting.pop(0)
                team.now = at
                happen(instance, *event)
            team.now = now
            for sensor in sensors:
                sensor.tick()
    assert sorted((dataset, what, end) for dataset, what, end, _ in team.got) == sorted(
        (fault.dataset, "fragmentation" if fault.what == "blocked" else fault.what, end)
        for fault in faults
        for end in (False, True)
    )
    for fault in faults:
        times = {end: at for dataset, _, end, at in team.got if dataset == fault.dataset}
        assert 0 <= times[False] - fault.start <= 2 * TICK
        assert 0 <= times[True] - fault.stop <= 2 * TICK
