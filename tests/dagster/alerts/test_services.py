"""Slack and PagerDuty by the resources of Dagster's libraries: what these are asked to send."""

from datetime import UTC, datetime

import pytest

from lance_ops.dagster import CheckAlert, PagerDutyNotifier, SlackNotifier
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.fleet.alerts.message import Message
from lance_ops.fleet.ledger.rows import AlertRow


class Client:
    def __init__(self):
        self.sent, self.fails = [], False

    def get_client(self):
        return self

    def chat_postMessage(self, **values):  # noqa: N802 - the library's name
        if self.fails:
            raise RuntimeError("token xoxb-1")
        self.sent.append(values)

    def EventV2_create(self, **values):  # noqa: N802 - the library's name
        self.sent.append(values)


def message(state="waiting", owner="ml"):
    rows = tuple(
        AlertRow(
            key=f"k/{name}",
            rule="r",
            at=datetime(2026, 11, 23, tzinfo=UTC),
            dataset=name,
            kind="damaged",
            text="<gone>",
            owner=owner,
            state=state,
        )
        for name in ("a", "b")
    )
    return Message("m", rows)


def check(passed):
    return CheckAlert("a", "/lake/a", "files_present", passed, "ERROR", "1 is missing")


def test_slack_has_a_channel_for_each_owner_and_one_for_the_others():
    client = Client()
    notifier = SlackNotifier(client, {None: "#data", "ml": "#ml"})
    for alert in (message(), message(owner="x"), check(passed=False)):
        notifier.notify(alert)
    assert [sent["channel"] for sent in client.sent] == ["#ml", "#data", "#data"]
    assert "&lt;gone&gt;" in client.sent[0]["text"]


def test_an_owner_without_a_channel_and_a_refusal_are_tried_again_later():
    client = Client()
    with pytest.raises(AlertNotDeliveredError, match="no Slack channel for ml"):
        SlackNotifier(client, {"x": "#x"}).notify(message())
    client.fails = True
    with pytest.raises(AlertNotDeliveredError) as refused:
        SlackNotifier(client, "#data").notify(message())
    assert "xoxb" not in str(refused.value)


def test_an_incident_of_pagerduty_is_resolved_by_its_key():
    client = Client()
    notifier = PagerDutyNotifier(client)
    for alert in (message(), message("mended"), check(passed=False), check(passed=True)):
        notifier.notify(alert)
    keys = [(event["event_action"], event["dedup_key"]) for event in client.sent]
    assert keys == [
        ("trigger", "k/a"),
        ("trigger", "k/b"),
        ("resolve", "k/a"),
        ("resolve", "k/b"),
        ("trigger", "lance:check:a:files_present"),
        ("resolve", "lance:check:a:files_present"),
    ]
