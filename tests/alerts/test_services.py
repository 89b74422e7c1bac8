"""Slack and PagerDuty by the resources of Dagster's libraries: what they are asked to send, for how long."""

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from lance_ops.alerts.message import Message
from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.services import PagerDutyNotifier, SlackNotifier
from lance_ops.alerts.values import CheckAlert
from lance_ops.errors import AlertNotDeliveredError


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


@contextmanager
def hanging_server() -> Iterator[str]:
    """A server that takes every connection and never says a word; yields its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


class Hanging:
    """What the libraries are: a request without an end of its own."""

    def __init__(self, url):
        self._url, self.asked = url, 0

    def get_client(self):
        return self

    def post(self, **_):
        self.asked += 1
        urllib.request.urlopen(self._url).read()

    chat_postMessage = EventV2_create = post  # noqa: N815 - the libraries' names


@pytest.mark.parametrize(
    "make",
    [
        lambda client: SlackNotifier(client, "#x", seconds=0.1),
        lambda client: PagerDutyNotifier(client, seconds=0.1),
    ],
    ids=["slack", "pagerduty"],
)
def test_a_server_that_hangs_is_given_up_and_costs_a_few_threads_at_most(make):
    with hanging_server() as url:
        client = Hanging(url)
        notifier = make(client)
        for _ in range(3):
            with pytest.raises(AlertNotDeliveredError, match=r"within 0.1 s, so the alert may have arrived"):
                notifier.notify(check(passed=False))
        with pytest.raises(AlertNotDeliveredError, match="has not answered 3 earlier alerts"):
            notifier.notify(check(passed=False))
        assert client.asked == 3


def test_what_a_library_raises_in_its_thread_is_a_refusal_without_its_secrets():
    client = Client()
    client.EventV2_create = None
    with pytest.raises(AlertNotDeliveredError, match="PagerDuty did not accept the alert: TypeError"):
        PagerDutyNotifier(client).notify(check(passed=False))
