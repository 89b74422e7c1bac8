"""Alert channels: log, webhook, Slack, PagerDuty, e-mail."""

import logging
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from typing import Any, Protocol

from lance_ops.alerts.mail import MailServer, hand_in
from lance_ops.alerts.message import Message, said_of
from lance_ops.alerts.post import post_json
from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.alerts.texts import severity_of
from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError
from lance_ops.storage.variables import expand

_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"

Send = Callable[[AlertRule, Message], str | None]
"""Delivers a message; returns the recipients that refused it when others accepted it."""


class FleetNotifier(Protocol):
    """Named notification channel of the scheduler, used by policy rules under `to`."""

    def notify(self, alert: Message) -> None:
        """Deliver one message; after an exception it is sent again later."""
        ...


def send(rule: AlertRule, message: Message, notifiers: Mapping[str, Any]) -> str:
    """Send a message through the channel of a rule.

    Args:
        rule: The rule.
        message: For one owner.
        notifiers: Custom notifiers by name; they take precedence over built-in ones.

    Returns:
        The recipients that refused the message when others accepted it, as text; no retry, since the others
        would get it twice.

    Raises:
        AlertNotDeliveredError: Delivery failed, or its outcome is unknown.
    """
    notifier = notifiers.get(rule.to)
    if notifier is None and rule.to not in _BUILT_IN:
        raise AlertNotDeliveredError(
            f"unknown alert target {rule.to!r}", hint=f"built-in targets: {', '.join(_BUILT_IN)}"
        )
    try:
        if notifier is not None:
            notifier.notify(message)
            return ""
        return _BUILT_IN[rule.to](rule, message) or ""
    except AlertNotDeliveredError:
        raise
    except InvalidArgumentError as error:
        raise AlertNotDeliveredError(error.message, hint=error.hint) from error
    except Exception as error:  # custom notifiers may raise anything
        raise AlertNotDeliveredError(f"{rule.to}: {type(error).__name__}: {error}") from error


def _url(rule: AlertRule) -> str:
    if rule.url is None:
        raise AlertNotDeliveredError(f"{rule.to} needs a url")
    return expand(rule.url)


def _log(rule: AlertRule, message: Message) -> None:
    del rule
    level = logging.INFO if message.recovered else logging.WARNING
    logging.getLogger("lance_ops.alerts").log(level, "%s", message, extra={"alert": message.to_dict()})


def _webhook(rule: AlertRule, message: Message) -> None:
    post_json(_url(rule), message.to_dict(), headers={"Idempotency-Key": message.id})


def _slack(rule: AlertRule, message: Message) -> None:
    mark = ":white_check_mark:" if message.recovered else ":warning:"
    # A name such as `<!channel>` would notify everybody.
    title, *lines = (
        line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for line in (message.title, *message.lines)
    )
    text = "\n".join([f"{mark} *{title}*", *lines])
    # Slack would fetch the URLs in a text to preview them.
    content = {"text": text, "unfurl_links": False, "unfurl_media": False}
    post_json(_url(rule), content, what="Slack webhook")


def _pagerduty(rule: AlertRule, message: Message) -> None:
    """Send one event for each dataset, so that each is resolved separately; the key removes duplicates."""
    if rule.key is None:
        raise AlertNotDeliveredError("PagerDuty requires the `key` of an integration (Events API v2)")
    url, routing = expand(rule.url or _PAGERDUTY), expand(rule.key)
    for row in message.rows:
        for action in pagerduty_actions(row):
            event: dict[str, object] = {
                "routing_key": routing,
                "dedup_key": message.incident_of(row),
                "event_action": action,
            }
            if action == "trigger":
                event["payload"] = _payload(message, row)
                links = [{"href": link, "text": row.dataset} for link in message.links_of(row)]
                event |= {"links": links} if links else {}
            post_json(url, event, what="PagerDuty API")


def pagerduty_actions(row: AlertRow) -> tuple[str, ...]:
    """Return the events for the incident of an alert.

    An alert that ended before it was sent is triggered and resolved at once: no later event would resolve it.
    """
    if row.state == "mended":
        return ("resolve",)
    return ("trigger", "resolve") if row.state == "passed" and row.kind != "schema" else ("trigger",)


def _payload(message: Message, row: AlertRow) -> dict[str, object]:
    return {
        "summary": f"{row.dataset} {said_of(row)}: {row.text}"[:1024],
        "source": row.uri,
        "severity": severity_of(row.kind),
        "timestamp": row.at.isoformat(),
        "component": row.dataset,
        "group": row.owner or "",
        "class": row.kind,
        "custom_details": {"what_to_do": message.advice_for(row)},
    }


def _email(rule: AlertRule, message: Message) -> str:
    recipients = list(rule.recipients) or [message.owner or ""]
    if not all("@" in address for address in recipients):
        raise AlertNotDeliveredError(
            f"no e-mail address for {message.owner or 'datasets without owner'}",
            hint="set `recipients` of the rule, or use owners that are addresses",
        )
    mail = EmailMessage()
    mail["Subject"] = message.title[:200].replace("\n", " ")
    mail["From"] = rule.sender or recipients[0]
    mail["To"] = ", ".join(recipients)
    mail["Message-ID"] = f"<{message.id}@lance-ops.invalid>"
    mail.set_content(str(message))
    return hand_in(mail, MailServer.parse(_url(rule)))


_BUILT_IN: Mapping[str, Send] = {
    "log": _log,
    "webhook": _webhook,
    "slack": _slack,
    "pagerduty": _pagerduty,
    "email": _email,
}
