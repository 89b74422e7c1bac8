"""Test message: an alert about no dataset that is already resolved, so that no incident stays open."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from lance_ops.alerts.channels import send
from lance_ops.alerts.message import Message
from lance_ops.alerts.notifier import Notifier
from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.alerts.values import Alert, FailureAlert, incident_of
from lance_ops.errors import AlertNotDeliveredError

_NAME = "lance-ops-test"


def trial_alert(now: datetime) -> FailureAlert:
    """Return a test alert."""
    return FailureAlert(
        dataset=_NAME,
        uri="memory://lance-ops-test",
        job="alerts test",
        step="",
        run_id="test",
        error="",
        message="this is a test of the delivery of alerts, nothing is wrong",
        hint="nothing",
        at=now.isoformat(),
        until=now.isoformat(),
    )


def try_notifier(notifier: Notifier) -> str:
    """Send a test to a notifier; returns no remarks.

    Raises:
        AlertNotDeliveredError: It was not delivered.
    """
    try:
        notifier.notify(trial_alert(datetime.now(UTC)))
    except AlertNotDeliveredError:
        raise
    except Exception as error:  # custom notifiers may raise anything
        raise AlertNotDeliveredError(f"{type(notifier).__name__}: {type(error).__name__}") from error
    return ""


def try_rule(rule: AlertRule, notifiers: Mapping[str, Notifier] | None = None) -> str:
    """Send a test to the recipient of a rule, whatever its kinds; returns the recipients that refused it.

    Raises:
        AlertNotDeliveredError: It was not delivered.
    """
    now = datetime.now(UTC)
    alert: Alert = trial_alert(now)
    owner = next(iter(rule.owners), None)
    row = AlertRow(
        key=f"{rule.digest_key}/{incident_of(alert)}/{now.isoformat()}",
        rule=rule.digest_key,
        at=now,
        dataset=_NAME,
        kind="failure",
        state="passed",
        owner=owner,
        uri=alert.uri,
        text=alert.message,
        closed_at=now,
    )
    alert = replace(alert, owners=() if owner is None else (owner,))
    message = Message(f"alert-test-{now:%Y%m%dT%H%M%S%f}", (row,), alerts={row.key: alert})
    return send(rule, message, notifiers or {})
