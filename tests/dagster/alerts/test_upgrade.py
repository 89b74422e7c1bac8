"""State of alerts that release 0.1.0 wrote: what it sent is not sent again, what it owed is sent."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, build_check_alert_sensor, build_failure_alert_sensor
from lance_ops.dagster.checks.catalog import page_name
from lance_ops.fleet.alerts.operation import tell_alerts
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look, OperationRow
from lance_ops.fleet.policy.load import parse_policy
from tests.support.dagster import Daemon, Told

STATE = Path(__file__).parents[2] / "fixtures" / "alert-state-0.1.0"
NAMES = ("told", "owed", "passed", "worn", "well")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def refs():
    return [LanceDatasetRef(name, f"/lake/{name}.lance") for name in NAMES]


def evaluate(instance, name, passed):
    worn = name == "worn"
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(name),
            check_name=page_name("fragmentation" if worn else "manifest_readable"),
            passed=passed,
            severity=dg.AssetCheckSeverity.WARN if worn else dg.AssetCheckSeverity.ERROR,
            metadata={"lance/version": 3},
            description="it says so",
        )
    )


@pytest.mark.parametrize("down", [False, True])
def test_the_cursor_of_the_check_sensor(instance, down):
    told = Told()
    for name in NAMES:
        evaluate(instance, name, passed=name in ("well", "passed"))
    cursor = (STATE / "check_cursor.json").read_text()
    alarm = Daemon(build_check_alert_sensor(refs(), told), instance, resources={}, cursor=cursor)
    told.deaf = down
    alarm.tick()
    if down:
        alarm.failed_tick()
        told.deaf = False
    for _ in range(3):
        alarm.tick()
    assert {(alert.dataset, alert.passed, bool(alert.until)) for alert in told.alerts} == {
        ("owed", False, False),
        ("passed", False, True),
    }
    assert "it says so" in next(str(alert) for alert in told.alerts if alert.dataset == "owed")
    for name in NAMES:
        evaluate(instance, name, passed=True)
    for _ in range(3):
        alarm.tick()
    assert sorted((alert.dataset, alert.passed) for alert in told.alerts[2:]) == [
        ("owed", True),
        ("told", True),
        ("worn", True),
    ]


def test_the_cursor_of_the_failure_sensor(instance):
    told = Told()
    cursor = (STATE / "failure_cursor.json").read_text()
    alarm = Daemon(build_failure_alert_sensor(refs(), told), instance, resources={}, cursor=cursor)
    for _ in range(3):
        alarm.tick()
    (alert,) = told.alerts
    assert (alert.dataset, alert.message, alert.at[:10]) == ("owed", "the worker is gone", "2026-11-27")
    job = dg.GraphDefinition(name="lance_compact").to_job()
    job.execute_in_process(instance=instance, tags={"lance_ops/dataset": "owed"})
    for _ in range(3):
        alarm.tick()
    assert [(item.dataset, item.recovered) for item in told.alerts[1:]] == [("owed", True)]


def test_the_ledger_of_a_fleet(tmp_path):
    shutil.unpack_archive(STATE / "ledger.zip", tmp_path)
    at = datetime(2026, 11, 23, 12, tzinfo=UTC)
    policy = parse_policy(
        f"""
version: 1
stores: {{s: {tmp_path}}}
assign: [{{match: '*', owner: ops@example.org}}]
alerts: [{{to: team, kinds: [damaged, failure, recovered], owners: [ops@example.org]}}, {{to: log}}]
"""
    )
    sent = []

    class Team:
        def notify(self, message):
            sent.append(message.title)

    def look(verdict, minute):
        return Look(
            key=f"l/{minute}", survey="l", at=at + timedelta(minutes=minute), dataset="open.lance", store="s",
            uri="/lake/open.lance", class_name="default", owner="ops@example.org", verdict=verdict,
            schema="x", why="a file is gone", version=7,
        )  # fmt: skip

    def tell(verdict, minute):
        tell_alerts(
            policy,
            looks=[look(verdict, minute)],
            now=at + timedelta(minutes=minute),
            notifiers={"team": Team()},
        )

    for minute in (1, 2):
        tell("damaged", minute)
    assert sent == ["Lance: owed.lance has a failed run"]
    FleetLedger.of(policy).add_operations(
        [
            OperationRow(
                key="r2/owed", run="r2", at=at + timedelta(minutes=3), dataset="owed.lance", store="s",
                uri="/lake/owed.lance", operation="compact", outcome="done",
            )
        ]
    )  # fmt: skip
    for minute in (4, 5):
        tell("healthy", minute)
    assert sorted(sent[1:]) == [
        "Lance: open.lance recovered (damaged)",
        "Lance: owed.lance recovered (has a failed run)",
    ]
