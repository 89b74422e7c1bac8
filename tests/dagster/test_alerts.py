import dagster as dg
import lance
import pytest

from lance_ops.dagster import (
    CheckAlert,
    ConflictAlert,
    LanceDatasetRef,
    build_check_alert_sensor,
    build_conflict_alert_sensor,
    build_manifest_sensor,
)
from lance_ops.dagster.jobs import COMPACT, DELETE
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.maintenance.compact import compact
from lance_ops.maintenance.delete import delete
from lance_ops.maintenance.policy import MaintenancePolicy
from lance_ops.maintenance.reindex import drop_index
from lance_ops.table.dataset import Dataset
from tests.support.dagster import Daemon, run_job, write
from tests.support.tables import overwrite, rows


class Told:
    """A notifier that remembers, and fails when asked to."""

    def __init__(self):
        self.alerts, self.deaf = [], False

    def notify(self, alert):
        if self.deaf:
            raise AlertNotDeliveredError("deaf")
        self.alerts.append(alert)


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def tell(sensor, result, instance):
    event = result.get_run_failure_event()
    context = dg.build_run_status_sensor_context(sensor.name, event, instance, result.dagster_run)
    return sensor(context.for_run_failure())


def overwrite_while_rewriting(monkeypatch, ref):
    """Another writer replaces all rows after compaction has rewritten them, and before its commit."""
    from lance_ops.maintenance import compact as module

    original = module.commit_rewrites

    def late(*args, **options):
        overwrite(Dataset.open(ref.uri), rows(500, 510))
        return original(*args, **options)

    monkeypatch.setattr(module, "commit_rewrites", late)


def test_a_real_conflict_reaches_the_notifier_with_both_transactions(monkeypatch, ref, instance):
    for start in range(0, 30, 10):
        write(ref.uri, start, start + 10)
    overwrite_while_rewriting(monkeypatch, ref)
    told = Told()

    result = run_job(ref, COMPACT, instance, conflict_retries=0)
    assert not result.success
    tell(build_conflict_alert_sensor(told), result, instance)

    (alert,) = told.alerts
    assert isinstance(alert, ConflictAlert)
    assert alert.dataset == "numbers"
    assert alert.job == COMPACT
    assert alert.step == "compact"
    assert alert.run_id == result.run_id
    assert "Rewrite" in alert.ours
    assert "Overwrite" in alert.theirs
    assert alert.version == 5
    assert "Overwrite" in str(alert)
    assert Dataset.open(ref.uri).to_table()["a"].to_pylist() == list(range(500, 510))


def test_other_failures_are_no_conflicts(ref, instance):
    write(ref.uri, 0, 10)
    told = Told()
    result = run_job(ref, DELETE, instance, predicate="nothing = 1", dry_run=False)
    skipped = tell(build_conflict_alert_sensor(told), result, instance)
    assert told.alerts == []
    assert "another reason" in skipped.skip_message


def test_a_deaf_notifier_does_not_break_the_sensor(monkeypatch, ref, instance):
    for start in range(0, 30, 10):
        write(ref.uri, start, start + 10)
    overwrite_while_rewriting(monkeypatch, ref)
    told = Told()
    told.deaf = True
    result = run_job(ref, COMPACT, instance, conflict_retries=0)
    assert "1 conflicts" in tell(build_conflict_alert_sensor(told), result, instance).skip_message


def test_a_failed_check_is_told_once_and_its_end_as_well(ref, instance):
    told = Told()
    versions = Daemon(build_manifest_sensor([ref]), instance)
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    write(ref.uri, 0, 10)
    versions.tick()
    alarm.tick()
    assert told.alerts == []

    delete(ref.uri, "a < 5")
    versions.tick()
    alarm.tick()
    (alert,) = told.alerts
    assert isinstance(alert, CheckAlert)
    assert (alert.check, alert.passed, alert.severity, alert.version) == ("deleted_ratio", False, "WARN", 2)
    assert alert.metadata["lance/deleted_ratio"] == 0.5

    write(ref.uri, 10, 11)
    versions.tick()
    alarm.tick()
    assert len(told.alerts) == 1

    compact(ref.uri)
    versions.tick()
    alarm.tick()
    assert [(alert.check, alert.passed) for alert in told.alerts] == [
        ("deleted_ratio", False),
        ("deleted_ratio", True),
    ]


def test_what_could_not_be_told_is_told_later(ref, instance):
    told = Told()
    versions = Daemon(build_manifest_sensor([ref]), instance)
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    write(ref.uri, 0, 10)
    delete(ref.uri, "a < 5")
    versions.tick()
    told.deaf = True
    alarm.tick()
    told.deaf = False
    alarm.tick()
    alarm.tick()
    assert len(told.alerts) == 1


@pytest.mark.peer
def test_what_blocks_maintenance_is_told_once_for_each_cause(tmp_path, instance):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"), policy=MaintenancePolicy(max_small_fragments=2))
    told = Told()
    versions = Daemon(build_manifest_sensor([ref]), instance)
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})

    def look():
        versions.tick()
        alarm.tick()
        alerts = [alert for alert in told.alerts if alert.check == "fragmentation"]
        told.alerts.clear()
        return alerts

    for start in range(0, 40, 10):
        write(ref.uri, start, start + 10)
    (due,) = look()
    assert not due.passed
    assert "blocked" not in due.message
    lance.dataset(ref.uri).create_scalar_index("a", "BITMAP")
    (blocked,) = look()
    assert "compact is blocked: " in blocked.message
    assert "'a_idx'" in blocked.metadata["lance/blocked"]
    for start in range(40, 60, 10):
        write(ref.uri, start, start + 10)
        lance.dataset(ref.uri).optimize.optimize_indices()
        assert look() == []
    lance.dataset(ref.uri).create_scalar_index("b", "BITMAP")
    (other,) = look()
    assert "'b_idx'" in other.message
    drop_index(ref.uri, "a_idx")
    drop_index(ref.uri, "b_idx")
    assert look() == []
    compact(ref.uri)
    (cured,) = look()
    assert cured.passed


@pytest.mark.parametrize("cursor", ["nonsense", "3", '[1, "numbers:deleted_ratio"]'])
def test_any_cursor_can_be_parsed(ref, instance, cursor):
    alarm = Daemon(build_check_alert_sensor([ref], Told()), instance, resources={}, cursor=cursor)
    alarm.tick()
