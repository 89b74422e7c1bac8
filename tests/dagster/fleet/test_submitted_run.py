"""Runs of a fleet by submitted programs: same lease, ledger and bounds, also where drivers are killed.

Processes stand for `spark-submit`, with threads in the place of executors; one test submits to Spark.
"""

import os
import time
from collections import Counter
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceStoreResource, SparkSubmit
from lance_ops.dagster.fleet import submitted_run
from lance_ops.dagster.fleet.definitions import build_fleet_definitions
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.run.operation import run_fleet
from lance_ops.storage.lease import FOLDER, LEASE
from tests.support.spark import FAST_JVM
from tests.support.submitted import DIE_ONCE, submitting_store

NAMES = ("a", "b", "c")

# Imported by every Python that is started there: a driver is killed once at each place that is named.
KILL = (
    DIE_ONCE
    + """
import sys

places = {places!r}

def die_at(place):
    if place in places:
        die_once(place)

if any("lance_ops_program" in part for part in [*sys.argv, *sys.orig_argv]):
    import lance_ops.fleet.run.maintain as maintain
    import lance_ops.fleet.run.operation as operation
    shared, write, performed = operation._Run._shared, operation._Run._write, maintain.performed

    def _shared(self, tasks):
        die_at("before the work")
        return shared(self, tasks)

    def _write(self):
        die_at("before the ledger")
        return write(self)

    def of_one(*arguments, **options):
        done = performed(*arguments, **options)
        die_at("after a commit")
        return done

    operation._Run._shared, operation._Run._write, maintain.performed = _shared, _write, of_one
"""
)


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    monkeypatch.setattr(submitted_run, "AFTER_A_LOSS", 0.0)
    for name in NAMES:
        for start in range(5):
            lo.append(
                str(tmp_path / "lake" / f"{name}.lance"),
                pa.table({"id": [start]}),
                storage_options={"fsync": "false"},
            )
    return tmp_path / "lake"


def policy_of(fleet):
    return parse_policy(
        f"version: 1\nmode: auto\nstores: {{lake: {{root: {fleet}, options: {{fsync: '${{QUICK}}'}}}}}}\n"
        "classes: {default: {max_small_fragments: 3}}\n"
    )


def store_at(tmp_path, *places):
    """Programs that are killed once at each of these places; the secret of the policy is with them."""
    (tmp_path / "sitecustomize.py").write_text(KILL.format(folder=str(tmp_path), places=places))
    return submitting_store(tmp_path, environment={"QUICK": "false"})


def run(fleet, store, instance, monkeypatch, **config):
    monkeypatch.setenv("QUICK", "false")
    definitions = build_fleet_definitions(policy_of(fleet), store=store)
    return definitions.get_job_def("lance_fleet_run").execute_in_process(
        run_config={"ops": {"plan_fleet": {"config": config}}}, instance=instance, raise_on_error=False
    )


def done(fleet):
    """Compactions by dataset, in the histories."""
    found = Counter()
    for name in NAMES:
        history = lo.dataset(str(fleet / f"{name}.lance")).history()
        found[name] = sum(entry.upkeep == "compaction" for entry in history)
    return dict(found)


def told(fleet):
    rows = FleetLedger.of(policy_of(fleet)).operations()
    return sorted((row.dataset, row.operation, row.outcome) for row in rows)


ALL = [(f"{name}.lance", "compact", "done") for name in NAMES]


def test_a_submitted_program_maintains_what_is_due_and_tells_ledger_and_step(
    fleet, tmp_path, instance, monkeypatch
):
    result = run(fleet, store_at(tmp_path), instance, monkeypatch)
    assert result.success
    assert done(fleet) == dict.fromkeys(NAMES, 1)
    assert told(fleet) == ALL
    assert all(len(lo.dataset(str(fleet / f"{name}.lance")).fragments) == 1 for name in NAMES)
    assert result.output_for_node("maintain")["small"]["datasets"] == 3
    ledger = FleetLedger.of(policy_of(fleet))
    assert not list(ledger.journal.entries())
    assert [(row.done, row.failed) for row in ledger.runs()] == [(3, 0)]


def test_it_keeps_to_the_budget_of_the_run(fleet, tmp_path, instance, monkeypatch):
    result = run(fleet, store_at(tmp_path), instance, monkeypatch, budget="1 B")
    assert result.success
    assert done(fleet) == dict.fromkeys(NAMES, 0)


def test_drivers_that_are_killed_before_and_after_the_work_leave_nothing_undone_or_done_twice(
    fleet, tmp_path, instance, monkeypatch
):
    store = store_at(tmp_path, "before the work", "before the ledger")
    result = run(fleet, store, instance, monkeypatch)
    assert result.success
    assert {path.name for path in tmp_path.glob("killed *")} == {
        "killed before the work",
        "killed before the ledger",
    }
    assert done(fleet) == dict.fromkeys(NAMES, 1)
    assert told(fleet) == ALL
    restarts = [item for item in result.all_events if item.event_type_value == "STEP_UP_FOR_RETRY"]
    assert len(restarts) == 2


def test_the_dataset_that_a_driver_died_in_is_left_alone_until_its_lease_is_old(
    fleet, tmp_path, instance, monkeypatch
):
    store = store_at(tmp_path, "after a commit")
    assert run(fleet, store, instance, monkeypatch).success
    # The one in which it died has its commit, and nobody told; the others are done.
    assert done(fleet) == dict.fromkeys(NAMES, 1)
    assert len(told(fleet)) == 2
    (lease,) = [path for name in NAMES for path in (fleet / f"{name}.lance" / FOLDER).glob("lease-*")]
    old = time.time() - LEASE.total_seconds() - 1
    os.utime(lease, (old, old))
    assert run_fleet(policy_of(fleet)).broken_off == 1
    assert done(fleet) == dict.fromkeys(NAMES, 1)
    outcomes = [outcome for _, _, outcome in told(fleet)]
    assert sorted(outcomes) == ["broken off", "done", "done"]


@pytest.mark.spark
def test_on_spark_a_driver_that_is_killed_when_all_is_done_is_submitted_again_and_tells_it(
    fleet, tmp_path, instance, monkeypatch
):
    stand_in = store_at(tmp_path, "before the ledger")
    store = LanceStoreResource(
        runner="spark-submit",
        spark_master="local[2]",
        spark_config={"spark.driver.extraJavaOptions": FAST_JVM},
        submit=SparkSubmit(environment={**stand_in.submit.environment, "JDK_JAVA_OPTIONS": FAST_JVM}),
    )
    result = run(fleet, store, instance, monkeypatch)
    assert result.success
    assert Path(tmp_path / "killed before the ledger").exists()
    assert done(fleet) == dict.fromkeys(NAMES, 1)
    assert told(fleet) == ALL
