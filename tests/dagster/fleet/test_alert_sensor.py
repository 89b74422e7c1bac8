"""The sensor of a fleet's alerts: what the ledger knows is told, whoever looked."""

import dagster as dg
import pytest

from lance_ops.dagster import build_fleet_definitions
from lance_ops.dagster.fleet import alert_sensor
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.fleet.alerts.operation import Told as TellingResult
from lance_ops.fleet.survey.operation import survey_fleet
from tests.support.fleets import policy, write


class Told:
    def __init__(self):
        self.titles = []

    def notify(self, alert):
        self.titles.append(alert.title)


def test_a_tick_tells_what_a_look_elsewhere_found_once_whatever_becomes_of_the_cursor(tmp_path):
    write(tmp_path, "a.lance")
    told = Told()
    rules = policy(tmp_path, more="alerts: [{to: team, kinds: [damaged]}]\n")
    defs = build_fleet_definitions(rules, notifiers={"team": told}, running=True)
    sensor = defs.resolve_sensor_def("lance_fleet_alert_sensor")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    next((tmp_path / "a.lance" / "_versions").glob("*.manifest")).write_bytes(b"x" * 100)
    survey_fleet(rules)
    with dg.DagsterInstance.ephemeral() as instance:
        said = [sensor(dg.build_sensor_context(instance)).skip_message for _ in range(2)]
    assert told.titles == ["Lance: a.lance damaged"]
    assert said[0] == "told 1 alert in 1 message"
    assert said[1].startswith("told 0 alerts")


def test_a_tick_tells_apart_who_waits_from_who_refused_what_others_have(tmp_path, monkeypatch, capfd):
    write(tmp_path, "a.lance")
    found = TellingResult(messages=1, alerts=1, errors=("no network",), refused=("refused b@x.org",))
    monkeypatch.setattr(alert_sensor, "tell_alerts", lambda *_, **__: found)
    rules = policy(tmp_path, more="alerts: [{to: log, kinds: [damaged]}]\n")
    sensor = build_fleet_definitions(rules).resolve_sensor_def("lance_fleet_alert_sensor")
    with (
        dg.DagsterInstance.ephemeral() as instance,
        pytest.raises(AlertNotDeliveredError, match="1 message: no network"),
    ):
        sensor(dg.build_sensor_context(instance))
    said = capfd.readouterr().err
    assert "some recipients refused a message: refused b@x.org" in said


def test_a_policy_without_rules_has_no_sensor(tmp_path):
    write(tmp_path, "a.lance")
    names = {sensor.name for sensor in build_fleet_definitions(policy(tmp_path)).sensors or ()}
    assert "lance_fleet_alert_sensor" not in names
