import shutil
import time
from datetime import timedelta
from pathlib import Path

import dagster as dg
import lance
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from lance_ops.dagster import (
    AlertOptions,
    CheckAlert,
    LanceDatasetRef,
    build_asset_checks,
    build_check_alert_sensor,
    build_manifest_sensor,
)
from lance_ops.dagster.alerts import check_sensor
from lance_ops.dagster.checks.catalog import page_name
from lance_ops.dagster.checks.records import latest_records
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.index.names import drop_index
from lance_ops.maintenance.index.operation import create_index
from tests.support.dagster import STORE, Daemon, Told, write
from tests.support.unknown_index import forget_kind

# A warning is an alert as soon as there is one.
AT_ONCE = AlertOptions(due_after=timedelta(0))


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def test_a_failed_check_is_told_once_and_its_end_as_well(ref, instance):
    told = Told()
    versions = Daemon(build_manifest_sensor([ref]), instance)
    alarm = Daemon(build_check_alert_sensor([ref], told, alerts=AT_ONCE), instance, resources={})
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
    alarm = Daemon(build_check_alert_sensor([ref], told, alerts=AT_ONCE), instance, resources={})
    write(ref.uri, 0, 10)
    delete(ref.uri, "a < 5")
    versions.tick()
    told.deaf = True
    assert "1 check fails; 1 alert waiting" in alarm.tick().skip_reason.skip_message
    # The first tick gives the cursor its name; from then on, a tick that cannot deliver fails.
    assert "1 check fails; 1 alert waiting: " in alarm.failed_tick()
    told.deaf = False
    alarm.tick()
    alarm.tick()
    assert len(told.alerts) == 1


@pytest.mark.peer
def test_what_blocks_maintenance_is_told_once_for_each_cause(tmp_path, instance, monkeypatch):
    forget_kind(monkeypatch, "BITMAP")
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"), policy=MaintenancePolicy(max_small_fragments=2))
    told = Told()
    versions = Daemon(build_manifest_sensor([ref]), instance)
    alarm = Daemon(build_check_alert_sensor([ref], told, alerts=AT_ONCE), instance, resources={})

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


@pytest.mark.parametrize("cursor", ["nonsense", "3", '{"failing": 3}', '[1, "numbers:deleted_ratio"]'])
def test_any_cursor_can_be_parsed(ref, instance, cursor):
    alarm = Daemon(build_check_alert_sensor([ref], Told()), instance, resources={}, cursor=cursor)
    alarm.tick()


def test_what_an_older_release_told_is_not_told_again(ref, instance):
    told = Told()
    write(ref.uri, 0, 10)
    delete(ref.uri, "a < 5")
    Daemon(build_manifest_sensor([ref]), instance).tick()
    cursor = '["numbers:deleted_ratio"]'
    Daemon(build_check_alert_sensor([ref], told), instance, resources={}, cursor=cursor).tick()
    assert told.alerts == []


def test_one_recipient_that_takes_nothing_keeps_back_no_other_and_does_not_cost_the_whole_tick(
    tmp_path, instance
):
    refs = [
        LanceDatasetRef(f"t{number}", str(tmp_path / f"t{number}"), owners=[f"team:{number}"])
        for number in range(30)
    ]
    report_failed(instance, refs)
    told, down = Told(), Told()
    down.deaf = True
    alarm = Daemon(build_check_alert_sensor(refs, {"a": down, "b": told}), instance, resources={})
    alarm.tick()
    assert sorted(alert.dataset for alert in told.alerts) == sorted(ref.name for ref in refs)
    assert down.asked == 3
    for _ in range(2):
        alarm.failed_tick()
    assert len(told.alerts) == 30
    down.deaf = False
    for _ in range(3):
        alarm.tick()
    assert sorted(alert.dataset for alert in down.alerts) == sorted(ref.name for ref in refs)
    assert len(told.alerts) == 30


def test_a_dataset_that_is_still_to_come_alerts_nobody_neither_before_nor_after(ref, instance):
    told = Told()
    versions = Daemon(build_manifest_sensor([ref]), instance)
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    evaluations = versions.tick().asset_events
    assert evaluations[0].check_name == "damage_manifest_readable"
    assert not any(evaluation.passed for evaluation in evaluations)
    alarm.tick()
    write(ref.uri, 0, 10)
    versions.tick()
    alarm.tick()
    assert told.alerts == []


def test_a_dataset_that_vanished_is_told_whoever_looks(ref, instance):
    """Also when the manifest sensor has lost its cursor, or somebody pressed the button."""
    told = Told()
    write(ref.uri, 0, 10)
    Daemon(build_manifest_sensor([ref]), instance).tick()
    shutil.rmtree(ref.uri)
    Daemon(build_manifest_sensor([ref]), instance).tick()
    Daemon(build_check_alert_sensor([ref], told), instance, resources={}).tick()
    (alert,) = told.alerts
    assert (alert.check, alert.severity) == ("manifest_readable", "ERROR")

    defs = dg.Definitions(
        assets=[dg.AssetSpec(ref.key)],
        asset_checks=build_asset_checks([ref]),
        jobs=[dg.define_asset_job("look", selection=dg.AssetSelection.all_asset_checks())],
        resources={"lance_store": STORE},
    )
    defs.resolve_job_def("look").execute_in_process(instance=instance, raise_on_error=False)
    told.alerts.clear()
    Daemon(build_check_alert_sensor([ref], told), instance, resources={}).tick()
    assert {alert.severity for alert in told.alerts} == {"ERROR"}


def test_an_alert_about_damage_says_what_to_do(ref, instance):
    told = Told()
    write(ref.uri, 0, 10)
    versions = Daemon(build_manifest_sensor([ref]), instance)
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    (path,) = (Path(ref.uri) / "data").iterdir()
    path.unlink()
    versions.tick()
    alarm.tick()
    (alert,) = told.alerts
    assert f"`lance-ops restore {ref.uri} VERSION`" in alert.hint
    assert alert.hint in str(alert)
    assert str(alert).count("lance-ops restore") == 1


def test_a_store_that_cannot_be_reached_is_no_dataset_still_to_come(instance):
    told = Told()
    ref = LanceDatasetRef("t", "nosuchscheme://bucket/t.lance")
    Daemon(build_manifest_sensor([ref]), instance).tick()
    Daemon(build_check_alert_sensor([ref], told), instance, resources={}).tick()
    assert [alert.check for alert in told.alerts] == ["manifest_readable"]


def report_failed(instance, refs):
    for ref in refs:
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=ref.key, check_name=page_name("fragmentation"), passed=False, metadata={}
            )
        )


@pytest.mark.parametrize("sent", [True, False])
def test_an_index_that_is_dropped_ends_what_its_checks_found(ref, instance, monkeypatch, sent):
    told = Told()
    versions = Daemon(build_manifest_sensor([ref]), instance)
    options = AT_ONCE if sent else AlertOptions(due_after=timedelta(hours=24))
    alarm = Daemon(build_check_alert_sensor([ref], told, alerts=options), instance, resources={})

    def look(*, later=0.0):
        versions.tick()
        with monkeypatch.context() as patch:
            now = time.time() + later
            patch.setattr(check_sensor.time, "time", lambda: now)
            alarm.tick()
        return [(alert.check, alert.passed) for alert in told.alerts if alert.check == "index_coverage"]

    write(ref.uri, 0, 10)
    create_index(ref.uri, "a")
    write(ref.uri, 10, 20)
    assert look() == [("index_coverage", False)] * sent

    drop_index(ref.uri, "a_idx")
    ends = [("index_coverage", False), ("index_coverage", True)] * sent
    assert look() == ends
    assert look(later=90_000.0) == ends

    create_index(ref.uri, "a")
    write(ref.uri, 20, 40)
    look()
    assert look(later=90_000.0) == [*ends, ("index_coverage", False)]


def test_two_hundred_datasets_cost_one_look_into_the_event_log(tmp_path):
    refs = [LanceDatasetRef(f"t{number}", str(tmp_path / f"t{number}")) for number in range(200)]
    told = Told()
    statements = []

    def count(connection, cursor, statement, *args):
        statements.append(statement)

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        report_failed(instance, refs[:20])
        alarm = Daemon(build_check_alert_sensor(refs, told), instance, resources={})
        event.listen(Engine, "before_cursor_execute", count)
        try:
            for _ in range(2):
                statements.clear()
                alarm.tick()
                assert len([text for text in statements if "asset_check_executions" in text]) == 1
                assert len(statements) < 24
                assert len(told.alerts) == 20
        finally:
            event.remove(Engine, "before_cursor_execute", count)


def report(instance, ref, passed):
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=ref.key, check_name=page_name("fragmentation"), passed=passed, metadata={}
        )
    )


def test_after_the_first_looks_evaluations_that_came_since_are_told_each_once(tmp_path, monkeypatch):
    refs = [LanceDatasetRef(f"t{number:02d}", str(tmp_path / f"t{number}")) for number in range(40)]
    told, looked = Told(), []

    def note(instance, some):
        looked.append(len(some))
        return latest_records(instance, some)

    monkeypatch.setattr(check_sensor, "latest_records", note)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for ref in refs:
            report(instance, ref, True)
        alarm = Daemon(build_check_alert_sensor(refs, told), instance, resources={})
        alarm.tick()
        alarm.tick()
        assert looked == [40, 40]
        report(instance, refs[7], False)
        report(instance, refs[8], False)
        report(instance, refs[8], True)
        report(instance, LanceDatasetRef("of_others", str(tmp_path / "others")), False)
        for _ in range(3):
            alarm.tick()
        # What was over between two ticks is sent with its end.
        assert [(alert.dataset, bool(alert.until)) for alert in told.alerts] == [
            ("t07", False),
            ("t08", True),
        ]
        report(instance, refs[7], True)
        for _ in range(12):
            alarm.tick()
        assert [(alert.dataset, alert.passed) for alert in told.alerts[2:]] == [("t07", True)]
        assert looked[2:] == [4] * 15


def test_a_tick_whose_cursor_was_lost_loses_no_alert(tmp_path):
    refs = [LanceDatasetRef(f"t{number:02d}", str(tmp_path / f"t{number}")) for number in range(40)]
    told = Told()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        alarm = Daemon(build_check_alert_sensor(refs, told), instance, resources={})
        for _ in range(3):
            alarm.tick()
        before = alarm.cursor
        report(instance, refs[35], False)
        alarm.tick()
        alarm.cursor = before
        alarm.tick()
        alarm.tick()
        # It is kept beside the cursor after each message.
        assert [alert.dataset for alert in told.alerts] == ["t35"]


def test_what_was_refused_waits_although_nothing_new_is_said_of_it(tmp_path):
    refs = [LanceDatasetRef(f"t{number:02d}", str(tmp_path / f"t{number}")) for number in range(40)]
    told = Told()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        alarm = Daemon(build_check_alert_sensor(refs, told), instance, resources={})
        for _ in range(3):
            alarm.tick()
        told.refused = {"t35"}
        report(instance, refs[35], False)
        for _ in range(4):
            alarm.failed_tick()
        assert not told.alerts
        told.refused = set()
        alarm.tick()
        assert [alert.dataset for alert in told.alerts] == ["t35"]


def test_a_check_that_fails_and_passes_while_nothing_can_be_sent_is_sent(ref, instance):
    told = Told()
    told.deaf = True
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    alarm.tick()
    report(instance, ref, False)
    alarm.failed_tick()
    report(instance, ref, True)
    assert "0 checks fail; 1 alert waiting: " in alarm.failed_tick()
    told.deaf = False
    for _ in range(3):
        alarm.tick()
    (alert,) = told.alerts
    assert (alert.passed, alert.recovered, bool(alert.until)) == (False, False, True)
    assert "over since" in str(alert)


@pytest.mark.parametrize("blocked", [False, True])
def test_upkeep_that_is_due_between_two_compactions_is_no_alert_until_it_is_due_for_long(
    ref, instance, monkeypatch, blocked
):
    told = Told()
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    now = time.time()
    clock = type("Clock", (), {"time": staticmethod(lambda: now)})
    monkeypatch.setattr(check_sensor, "time", clock)
    warning = dg.AssetCheckSeverity.WARN

    def evaluate(passed, **metadata):
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=ref.key,
                check_name=page_name("fragmentation"),
                passed=passed,
                severity=warning,
                metadata=metadata,
            )
        )

    for _ in range(3):
        evaluate(passed=False)
        alarm.tick()
        evaluate(passed=True)
        alarm.tick()
    assert told.alerts == []
    evaluate(passed=False, **({"lance/blocked": "an index of an unknown kind"} if blocked else {}))
    assert "1 check fails" in alarm.tick().skip_reason.skip_message
    assert len(told.alerts) == blocked
    now += 25 * 3600
    alarm.tick()
    alarm.tick()
    (alert,) = told.alerts
    assert alert.rule_kind == ("blocked" if blocked else "overdue")
    assert ("lance_compact" in str(alert)) is not blocked
    evaluate(passed=True)
    alarm.tick()
    assert [alert.passed for alert in told.alerts] == [False, True]


def test_a_table_that_cannot_be_read_is_one_incident(ref, instance):
    told = Told()
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    alarm.tick()
    for check in ("manifest_readable", "files_present", "deletion_vectors_valid"):
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(asset_key=ref.key, check_name=page_name(check), passed=False)
        )
    for _ in range(12):
        alarm.tick()
    assert [alert.check for alert in told.alerts] == ["manifest_readable"]
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(asset_key=ref.key, check_name=page_name("manifest_readable"), passed=True)
    )
    for _ in range(12):
        alarm.tick()
    assert {(alert.check, alert.passed) for alert in told.alerts[1:]} == {
        ("manifest_readable", True),
        ("files_present", False),
        ("deletion_vectors_valid", False),
    }


def test_a_check_that_could_not_be_evaluated_neither_opens_nor_ends_an_incident(ref, instance, monkeypatch):
    told = Told()
    alarm = Daemon(build_check_alert_sensor([ref], told), instance, resources={})
    now = time.time()
    monkeypatch.setattr(check_sensor, "time", type("Clock", (), {"time": staticmethod(lambda: now)}))

    def evaluate(check, grey, severity="WARN"):
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=ref.key,
                check_name=page_name(check),
                passed=False,
                severity=dg.AssetCheckSeverity[severity],
                metadata={"lance/not_evaluated": True} if grey else {},
            )
        )
        alarm.tick()

    evaluate("files_present", grey=True)
    evaluate("fragmentation", grey=False)
    evaluate("deletion_vectors_valid", grey=False, severity="ERROR")
    evaluate("fragmentation", grey=True)
    evaluate("deletion_vectors_valid", grey=True)
    now += 25 * 3600
    alarm.tick()
    assert [(alert.check, alert.passed) for alert in told.alerts] == [("deletion_vectors_valid", False)]
    evaluate("fragmentation", grey=False)
    alarm.tick()
    assert [alert.check for alert in told.alerts[1:]] == ["fragmentation"]
