"""A dataset that is found no more is told of once, and is in no report or forecast."""

import shutil
from datetime import UTC, datetime, timedelta

from lance_ops.fleet.alerts.operation import tell_alerts
from lance_ops.fleet.forecast.operation import forecast_fleet
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.report.operation import write_report
from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet
from tests.support.fleets import policy, write

BEGIN = datetime.now(UTC) - timedelta(days=1)


class Heard:
    def __init__(self):
        self.said = []

    def notify(self, alert):
        self.said += [(row.kind, row.dataset, row.state) for row in alert.rows]


def test_one_that_is_gone_is_told_of_once_and_so_is_that_it_is_back(tmp_path):
    write(tmp_path, "a.lance", 5)
    write(tmp_path, "b.lance")
    rules = policy(tmp_path, more="alerts: [{to: me, kinds: [gone, recovered], quiet: 1s}]")
    heard, ledger = Heard(), FleetLedger.of(rules)

    def step(hours):
        now = BEGIN + timedelta(hours=hours)
        survey_fleet(rules, now=now)
        tell_alerts(rules, notifiers={"me": heard}, now=now)
        said, heard.said = heard.said, []
        return said

    assert step(0) == []
    shutil.move(tmp_path / "a.lance", tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(tmp_path / "_hidden")
    assert step(1) == [("gone", "a.lance", "waiting")]
    assert step(2) == []
    assert set(ledger.latest()) == {"b.lance"}
    assert ledger.verdicts() == {"b.lance": "healthy"}
    report = write_report(rules, tmp_path / "fleet.html")
    assert [look.dataset for look in report.looks] == ["b.lance"]
    foreseen = forecast_fleet(
        rules, ledger.latest(), ledger.looks(), ledger.operations(), now=datetime.now(UTC)
    )
    assert foreseen.backlog_bytes == 0
    (tmp_path / "_hidden").rename(tmp_path / "a.lance")
    assert step(3) == [("gone", "a.lance", "mended")]
    assert ledger.latest()["a.lance"].since is None


def test_a_damage_that_is_gone_is_not_told_as_well_again(tmp_path):
    write(tmp_path, "a.lance")
    next((tmp_path / "a.lance" / "_versions").glob("*.manifest")).write_bytes(b"junk")
    rules = policy(tmp_path, more="alerts: [{to: me}]")
    heard = Heard()
    survey_fleet(rules)
    tell_alerts(rules, notifiers={"me": heard})
    shutil.rmtree(tmp_path / "a.lance")
    survey_fleet(rules)
    tell_alerts(rules, notifiers={"me": heard})
    assert heard.said == [("damaged", "a.lance", "waiting"), ("gone", "a.lance", "waiting")]


def test_what_a_deadline_left_out_is_not_gone(tmp_path):
    write(tmp_path, "a.lance")
    rules = policy(tmp_path)
    survey_fleet(rules)
    survey_fleet(rules, SurveyOptions(seconds=0))
    assert set(FleetLedger.of(rules).latest()) == {"a.lance"}


def test_another_dataset_at_the_path_of_one_that_was_gone_is_another_one(tmp_path):
    write(tmp_path, "a.lance", 2)
    rules = policy(tmp_path)
    survey_fleet(rules)
    shutil.rmtree(tmp_path / "a.lance")
    survey_fleet(rules)
    write(tmp_path, "a.lance", 2)
    assert survey_fleet(rules).known["a.lance"].since is not None
