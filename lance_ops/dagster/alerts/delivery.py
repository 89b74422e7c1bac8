"""Delivery of alerts within the time of a tick; a tick with undelivered alerts fails."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lance_ops.alerts.channels import send
from lance_ops.alerts.delivery import Sent, addressed, deliver
from lance_ops.alerts.incidents import Incidents
from lance_ops.alerts.message import Message
from lance_ops.alerts.notifier import Notifier
from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.dagster.alerts.memory import AlertMemory
from lance_ops.dagster.alerts.options import Recipients
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.maintenance.text import count_text

_BUDGET_SECONDS = 20.0


def finish_tick(
    context: dg.SensorEvaluationContext,
    memory: AlertMemory,
    incidents: Incidents,
    recipients: Recipients,
    rest: Mapping[str, Any],
    said: Callable[[], str],
    now: float,
) -> dg.SensorResult:
    """Send alerts, save the state, and return the result of the tick.

    Args:
        context: Context of the tick.
        memory: Stores the state.
        incidents: The alerts.
        recipients: Receive them.
        rest: The rest of the state to save.
        said: Other findings of the tick, for its page.
        now: Seconds since 1970.

    Raises:
        AlertNotDeliveredError: An alert was not delivered. The state is kept.
    """
    at = datetime.fromtimestamp(now, UTC)

    def state() -> dict[str, Any]:
        return {**rest, "incidents": incidents.to_dict()}

    sent = Sent()
    end = time.monotonic() + _BUDGET_SECONDS
    for rule in recipients.rules:
        rows = incidents.rows[rule.digest_key]
        rows.update({row.key: row for row in addressed(rows.values(), rule, at)})
        deliver(
            rule,
            rows,
            _hand_over(rule, incidents, recipients.notifiers),
            lambda changed: memory.keep(state()) if changed else None,
            sent,
            now=at,
            end=end,
        )
    for alert in incidents.prune(at):
        context.log.error("alert dropped, not accepted for days: %s", alert.title)
    for remark in sent.refused.values():
        context.log.warning("some recipients refused an alert: %s", remark)
    waiting = incidents.waiting()
    text = f"sent {count_text(sent.alerts, 'alert')}; {said()}"
    text += f"; {count_text(len(waiting), 'alert')} waiting" if waiting else ""
    if sent.errors and not memory.is_new:
        memory.keep(state())
        raise AlertNotDeliveredError(
            f"{text}: {'; '.join(sent.errors.values())}",
            hint="the next tick retries; all other recipients have their alerts",
        )
    for error in sent.errors.values():
        context.log.error("an alert was not delivered: %s", error)
    return dg.SensorResult(skip_reason=text, cursor=memory.cursor(state()))


def _hand_over(
    rule: AlertRule, incidents: Incidents, notifiers: Mapping[str, Notifier]
) -> Callable[[str, tuple[AlertRow, ...]], str]:
    def hand_over(message_id: str, rows: tuple[AlertRow, ...]) -> str:
        alerts = {row.key: alert for row in rows if (alert := incidents.alert_of(row)) is not None}
        notifier = notifiers.get(rule.to)
        only = alerts.get(rows[0].key) if len(rows) == 1 else None
        if notifier is None or only is None:
            message = Message(message_id, rows, rule.link, rule.runbook, alerts)
            return send(rule, message, notifiers)
        try:
            notifier.notify(only)
        except AlertNotDeliveredError:
            raise
        except Exception as error:  # custom notifiers may raise anything
            raise AlertNotDeliveredError(f"{type(notifier).__name__}: {type(error).__name__}") from error
        return ""

    return hand_over
