"""Channels: how a message gets to people: log, webhook, Slack, PagerDuty, e-mail."""

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
"""Hands a message over; returns who was refused, where others have it."""


class FleetNotifier(Protocol):
    """Whoever a scheduler has for a name that rules of the policy give under `to`."""

    def notify(self, alert: Message) -> None:
        """Pass on one message; what it raises is tried again later."""
        ...


def send(rule: AlertRule, message: Message, notifiers: Mapping[str, Any]) -> str:
    """Hand a message to the channel of a rule.

    Args:
        rule: The rule.
        message: For one owner.
        notifiers: By the names that rules give, before those that are built in.

    Returns:
        Who was refused where others have it, in words; it is not tried again, since they would have it twice.

    Raises:
        AlertNotDeliveredError: It did not arrive, as far as is known.
    """
    notifier = notifiers.get(rule.to)
    if notifier is None and rule.to not in _BUILT_IN:
        raise AlertNotDeliveredError(
            f"nobody here knows {rule.to!r}", hint=f"built in are {', '.join(_BUILT_IN)}"
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
    except Exception as error:  # anybody may write a notifier
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
    # A name such as `<!channel>` would call everybody.
    title, *lines = (
        line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for line in (message.title, *message.lines)
    )
    text = "\n".join([f"{mark} *{title}*", *lines])
    # Slack would fetch addresses in a text to show what is there.
    content = {"text": text, "unfurl_links": False, "unfurl_media": False}
    post_json(_url(rule), content, what="Slack webhook")


def _pagerduty(rule: AlertRule, message: Message) -> None:
    """One event for each dataset, so that each is resolved by itself; the key makes a second one no news."""
    if rule.key is None:
        raise AlertNotDeliveredError("PagerDuty needs the `key` of an integration (Events API v2)")
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
    """What to do with the incident of an alert.

    What came and went before it was sent is triggered and resolved: nothing would resolve it later.
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
            f"e-mail for {message.owner or 'datasets without owner'} has no address",
            hint="give the rule `recipients`, or owners that are addresses",
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
