"""Test suite for notifiers: every alert arrives with its text, or the caller gets an error."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime

import pytest

from lance_ops.alerts.message import Message
from lance_ops.alerts.notifier import Notifier
from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.values import Alert, CheckAlert, ConflictAlert, FailureAlert
from lance_ops.errors import AlertNotDeliveredError

_URI = "/data/flights.lance"

ALERTS: Mapping[str, Alert] = {
    "conflict": ConflictAlert(
        "flights",
        _URI,
        "lance_compact",
        "compact",
        "r1",
        "incompatible",
        "Rewrite of 1, 2",
        "Overwrite",
        12,
        "lost",
    ),
    "conflict with an unknown writer": ConflictAlert(
        "flights", _URI, "lance_compact", "compact", "r1", "conflict", "Rewrite of 1, 2", "", None, "lost"
    ),
    "failure": FailureAlert(
        "flights",
        _URI,
        "lance_delete",
        "delete",
        "r2",
        "FileMissingError",
        "gone",
        "data/x.lance",
        "run fsck",
    ),
    "failure without a step": FailureAlert(
        "flights", _URI, "lance_delete", "", "r2", "", "its process has ended"
    ),
    "check that failed": CheckAlert(
        "flights",
        _URI,
        "fragmentation",
        False,
        "WARN",
        "too many",
        3,
        {"fragments": 12, "share": 0.5, "due": None},
    ),
    "check that passes again": CheckAlert("flights", _URI, "fragmentation", True, "WARN", "well", None),
    "odd text": CheckAlert("flüge\u2028", _URI, "c", False, "ERROR", '100% "of" {it} <b>\n\n&amp; %s \\', 3),
}
"""Alerts of every kind, with every optional field missing once."""


class NotifierConformance:
    """Contract of `Notifier`. A subclass named `Test...` overrides the fixtures."""

    @pytest.fixture
    def notifier(self) -> Notifier:
        """The notifier."""
        raise pytest.UsageError("override the fixture `notifier`")

    @pytest.fixture
    def received(self) -> Callable[[], Sequence[str]]:
        """A function that returns the text received so far, in order."""
        raise pytest.UsageError("override the fixture `received`: it returns the received text")

    @pytest.fixture
    def failing(self) -> Callable[[], AbstractContextManager[object]]:
        """Make a context manager in which the receiver rejects everything."""
        raise pytest.UsageError("override the fixture `failing`: in its context, no alert is accepted")

    @pytest.mark.parametrize("name", ALERTS)
    def test_every_kind_of_alert_arrives_with_its_text(
        self, notifier: Notifier, received: Callable[[], Sequence[str]], name: str
    ) -> None:
        notifier.notify(ALERTS[name])
        (text,) = received()
        assert str(ALERTS[name]) in text

    def test_alerts_arrive_in_their_order(
        self, notifier: Notifier, received: Callable[[], Sequence[str]]
    ) -> None:
        alerts = [ALERTS["failure"], ALERTS["conflict"], ALERTS["failure"]]
        for alert in alerts:
            notifier.notify(alert)
        assert [str(alert) in text for alert, text in zip(alerts, received(), strict=True)] == [True] * 3

    def test_an_alert_that_nobody_took_is_an_error(
        self, notifier: Notifier, failing: Callable[[], AbstractContextManager[object]]
    ) -> None:
        with failing(), pytest.raises(AlertNotDeliveredError):
            notifier.notify(ALERTS["failure"])

    def test_an_alert_that_nobody_took_arrives_with_a_later_tick(
        self,
        notifier: Notifier,
        received: Callable[[], Sequence[str]],
        failing: Callable[[], AbstractContextManager[object]],
    ) -> None:
        alerts: list[Alert] = [ALERTS["failure"], ALERTS["conflict"]]
        with failing():
            for alert in alerts:
                with pytest.raises(AlertNotDeliveredError):
                    notifier.notify(alert)
        before = len(received())
        for alert in alerts:
            notifier.notify(alert)
        assert [str(alert) in text for alert, text in zip(alerts, received()[before:], strict=True)] == [
            True
        ] * 2

    def test_alerts_of_one_cause_arrive_as_one_message(
        self, notifier: Notifier, received: Callable[[], Sequence[str]]
    ) -> None:
        message = Message("m", tuple(_row(name) for name in ("a", "b")))
        notifier.notify(message)
        (text,) = received()
        assert str(message) in text


def _row(dataset: str) -> AlertRow:
    at = datetime(2026, 11, 23, tzinfo=UTC)
    return AlertRow(
        key=f"r/{dataset}", rule="r", at=at, dataset=dataset, kind="damaged", text="a file is lost"
    )
