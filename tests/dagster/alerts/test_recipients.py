"""Who gets which alerts: notifiers are checked when code is loaded, rules choose, group and hold back."""

from datetime import timedelta

import dagster as dg
import pytest

from lance_ops.dagster import (
    AlertOptions,
    AlertRule,
    LanceDatasetRef,
    LogNotifier,
    Message,
    PagerDutyNotifier,
    SlackNotifier,
    WebhookNotifier,
    build_check_alert_sensor,
    build_failure_alert_sensor,
    build_lance_definitions,
)
from lance_ops.dagster.alerts import check_sensor
from lance_ops.dagster.checks.catalog import page_name
from lance_ops.dagster.fleet.alert_sensor import build_fleet_alert_sensor
from lance_ops.errors import InvalidArgumentError
from tests.support.dagster import Daemon, Told
from tests.support.fleets import policy


class TwoArguments:
    def notify(self, alert, more):
        pass


class NotCallable:
    notify = "x"


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("https://hooks.example.com/s3cret", "WebhookNotifier"),
        (print, "def|class with a method"),
        (object(), "object with a method"),
        (Told, r"Told\(\.\.\.\)"),
        (TwoArguments(), "self, alert"),
        (NotCallable(), "object with a method"),
        (3, "object with a method"),
        ({"a": LogNotifier(), "b": "https://hooks.example.com/s3cret"}, "WebhookNotifier"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_take_alerts_is_refused_when_the_code_is_loaded(tmp_path, wrong, hint):
    refs = [LanceDatasetRef("t", str(tmp_path / "t"))]
    named = wrong if isinstance(wrong, dict) else {"a": wrong}
    builders = [
        lambda: build_lance_definitions(refs, notifier=wrong),
        lambda: build_check_alert_sensor(refs, wrong),
        lambda: build_failure_alert_sensor(refs, wrong),
        lambda: build_fleet_alert_sensor(policy(tmp_path, more="alerts: [{to: log}]\n"), notifiers=named),
    ]
    for build in builders:
        with pytest.raises(InvalidArgumentError, match=hint) as caught:
            build()
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SlackNotifier("xoxb-s3cret", "#a"),
        lambda: SlackNotifier(object(), "#a"),
        lambda: SlackNotifier(type("Slack", (), {"get_client": None})(), ""),
        lambda: SlackNotifier(type("Slack", (), {"get_client": None})(), {None: ""}),
        lambda: PagerDutyNotifier("s3cret"),
        lambda: PagerDutyNotifier(print),
        lambda: WebhookNotifier("hooks.example.com/s3cret"),
        lambda: AlertOptions(rules=[AlertRule("log", severity="bad")]),
        lambda: AlertOptions(rules=[AlertRule("webhook")]),
        lambda: AlertOptions(rules=[AlertRule("log", kinds=("nonsense",))]),
        lambda: AlertOptions(webserver_base_url="dagster.example.com"),
        lambda: AlertOptions(due_after=timedelta(-1)),
    ],
)
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(InvalidArgumentError) as caught:
        make()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("notifier", "rules"),
    [
        (None, [AlertRule("team")]),
        ({"a": LogNotifier()}, [AlertRule("b")]),
        (LogNotifier(), [AlertRule("log")]),
    ],
)
def test_a_rule_names_a_notifier_and_a_notifier_has_a_rule(tmp_path, notifier, rules):
    refs = [LanceDatasetRef("t", str(tmp_path / "t"))]
    with pytest.raises(InvalidArgumentError, match="rule sends alerts to"):
        build_check_alert_sensor(refs, notifier, alerts=AlertOptions(rules=rules))


def fail(instance, name, check="files_present", severity="ERROR", passed=False, **metadata):
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(name),
            check_name=page_name(check),
            passed=passed,
            severity=dg.AssetCheckSeverity[severity],
            metadata=metadata,
        )
    )


def refs_of(tmp_path, **owners):
    return [LanceDatasetRef(name, str(tmp_path / name), owners=owner) for name, owner in owners.items()]


def test_rules_choose_by_kind_owner_and_severity(tmp_path, instance):
    refs = refs_of(tmp_path, a=["team:x"], b=["team:y", "team:x"], c=[])
    got = {name: Told() for name in ("x", "errors", "damage", "all")}
    rules = [
        AlertRule("x", owners=("team:x",)),
        AlertRule("errors", severity="error"),
        AlertRule("damage", kinds=("damaged",)),
        AlertRule("all"),
    ]
    options = AlertOptions(rules=rules, due_after=timedelta(0))
    alarm = Daemon(build_check_alert_sensor(refs, got, alerts=options), instance, resources={})
    for name in "abc":
        fail(instance, name)
        fail(instance, name, "fragmentation", "WARN")
    alarm.tick()
    for name in "abc":
        fail(instance, name, passed=True)
    alarm.tick()
    found = {
        name: sorted((a.dataset, a.rule_kind, a.passed) for a in told.alerts) for name, told in got.items()
    }
    damaged = [(name, "damaged", passed) for name in "abc" for passed in (False, True)]
    overdue = [(name, "overdue", False) for name in "abc"]
    assert found["errors"] == damaged
    assert found["damage"] == [item for item in damaged if not item[2]]
    assert found["all"] == sorted(damaged + overdue)
    assert found["x"] == sorted(item for item in damaged + overdue if item[0] in "ab")


def test_one_cause_is_one_message_an_owner_and_a_digest_collects(tmp_path, instance, monkeypatch):
    now = 1.8e9
    monkeypatch.setattr(check_sensor, "time", type("C", (), {"time": staticmethod(lambda: now)}))
    refs = refs_of(tmp_path, **{f"t{n}": ["team:x" if n < 5 else "team:y"] for n in range(8)})
    told, daily = Told(), Told()
    rules = [AlertRule("now"), AlertRule("daily", digest=timedelta(days=1))]
    options = AlertOptions(rules=rules, webserver_base_url="https://d.example.com")
    alarm = Daemon(
        build_check_alert_sensor(refs, {"now": told, "daily": daily}, alerts=options), instance, resources={}
    )
    alarm.tick()
    for number in range(8):
        fail(instance, f"t{number}")
    alarm.tick()
    assert [len(message.rows) for message in told.messages] == [5, 3]
    assert len(daily.messages) == 2
    text = str(told.messages[0])
    assert "5 datasets damaged" in text
    assert "severity critical" in text
    assert "https://d.example.com/assets/t0" in text
    assert "owner: team:x" in text
    assert "advice: stop writers" in text
    for number in range(8):
        fail(instance, f"t{number}", "deletion_vectors_valid")
    alarm.tick()
    assert (len(told.messages), len(daily.messages)) == (4, 2)
    now += 86400 + 60
    alarm.tick()
    assert [isinstance(message, Message) for message in daily.messages] == [True] * 4


def test_hostile_names_call_nobody_and_lead_nowhere(tmp_path, instance):
    sent = []

    class Slack:
        def get_client(self):
            return self

        def chat_postMessage(self, **values):  # noqa: N802 - the library's name
            sent.append(values)

    refs = refs_of(tmp_path, a=["team:x"])
    options = AlertOptions(webserver_base_url="https://d.example.com")
    alarm = Daemon(
        build_check_alert_sensor(refs, SlackNotifier(Slack(), {"team:x": "#x"}), alerts=options),
        instance,
        resources={},
    )
    fail(instance, "a", **{"lance/error_hint": "<!channel> <https://evil.example|click>"})
    alarm.tick()
    (message,) = sent
    assert message["channel"] == "#x"
    assert "<" not in message["text"]
    assert (message["unfurl_links"], message["unfurl_media"]) == (False, False)
    assert options.asset_url(dg.AssetKey(["a b", "c/../d?x#y"])) == (
        "https://d.example.com/assets/a%20b/c%2F..%2Fd%3Fx%23y"
    )


def test_an_incident_of_pagerduty_is_opened_once_and_closed_by_the_next_success(tmp_path, instance):
    sent = []

    class Service:
        def EventV2_create(self, **values):  # noqa: N802 - the library's name
            sent.append((values["event_action"], values["dedup_key"]))

    ref = LanceDatasetRef("t", str(tmp_path / "t"))
    alarm = Daemon(build_failure_alert_sensor([ref], PagerDutyNotifier(Service())), instance, resources={})
    alarm.tick()
    job = dg.GraphDefinition(name="lance_compact").to_job()
    tags = {"lance_ops/dataset": "t"}
    for _ in range(2):
        instance.report_run_failed(instance.create_run_for_job(job, tags=tags), "gone")
        alarm.tick()
    job.execute_in_process(instance=instance, tags=tags)
    alarm.tick()
    assert [action for action, _ in sent] == ["trigger", "resolve"]
    assert len({key for _, key in sent}) == 1
