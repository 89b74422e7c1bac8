"""Channels: how a message gets to people: log, webhook, Slack, PagerDuty, e-mail."""

import logging
import smtplib
import ssl
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from typing import Protocol
from urllib.parse import unquote, urlsplit

from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError
from lance_ops.fleet.alerts.message import RUNBOOK, Message, said_of
from lance_ops.fleet.alerts.post import post_json
from lance_ops.fleet.ledger.rows import AlertRow
from lance_ops.fleet.policy.alerts import AlertRule
from lance_ops.fleet.policy.secrets import expand

_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
_SEVERITY = {"damaged": "critical", "failure": "error", "conflict": "error", "blocked": "error"}
_TIMEOUT = 10.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Send = Callable[[AlertRule, Message], None]


class FleetNotifier(Protocol):
    """Whoever a scheduler has for a name that rules of the policy give under `to`."""

    def notify(self, alert: Message) -> None:
        """Pass on one message; what it raises is tried again later."""
        ...


def send(rule: AlertRule, message: Message, notifiers: Mapping[str, FleetNotifier]) -> None:
    """Hand a message to the channel of a rule.

    Args:
        rule: The rule.
        message: For one owner.
        notifiers: By the names that rules give, before those that are built in.

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
        else:
            _BUILT_IN[rule.to](rule, message)
    except AlertNotDeliveredError:
        raise
    except InvalidArgumentError as error:
        raise AlertNotDeliveredError(error.message, hint=error.hint) from error
    except Exception as error:  # anybody may write a notifier
        raise AlertNotDeliveredError(f"{rule.to}: {type(error).__name__}: {error}") from error


def severity_of(kind: str) -> str:
    """PagerDuty's word for how bad a kind of alert is."""
    return _SEVERITY.get(kind, "warning")


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
    lines = "\n".join(message.lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = f"{mark} *{message.title}*\n{lines}"
    post_json(_url(rule), {"text": text}, what="Slack webhook")


def _pagerduty(rule: AlertRule, message: Message) -> None:
    """One event for each dataset, so that each is resolved by itself; the key makes a second one no news.

    What came and went before anybody was told is triggered and resolved: nothing would resolve it later.
    """
    if rule.key is None:
        raise AlertNotDeliveredError("PagerDuty needs the `key` of an integration (Events API v2)")
    url, routing = expand(rule.url or _PAGERDUTY), expand(rule.key)
    for row in message.rows:
        named: dict[str, object] = {"routing_key": routing, "dedup_key": row.key[-255:]}
        if row.state != "mended":
            event = {**named, "event_action": "trigger", "payload": _payload(row)}
            if rule.link is not None:
                event["links"] = [{"href": rule.link.replace("{dataset}", row.dataset), "text": row.dataset}]
            post_json(url, event, what="PagerDuty API")
        if row.state == "mended" or (row.state == "passed" and row.kind != "schema"):
            post_json(url, {**named, "event_action": "resolve"}, what="PagerDuty API")


def _payload(row: AlertRow) -> dict[str, object]:
    return {
        "summary": f"{row.dataset} {said_of(row)}: {row.text}"[:1024],
        "source": row.uri,
        "severity": severity_of(row.kind),
        "timestamp": row.at.isoformat(),
        "component": row.dataset,
        "group": row.owner or "",
        "class": row.kind,
        "custom_details": {"what_to_do": RUNBOOK[row.kind]},
    }


def _email(rule: AlertRule, message: Message) -> None:
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
    try:
        parts = urlsplit(_url(rule))
        host, port = parts.hostname, parts.port
    except ValueError:
        # What Python says of such a URL quotes a part of the password.
        host = None
    if host is None or parts.scheme not in ("smtp", "smtps"):
        raise AlertNotDeliveredError(
            "e-mail needs a url such as smtp://user:${PASSWORD}@host:587",
            hint="percent-encode what the user or the password has of / : @ # ? [ or %",
        )
    try:
        _deliver(mail, parts.scheme, host, port, parts.username, parts.password)
    except (OSError, smtplib.SMTPException) as error:
        raise AlertNotDeliveredError(f"the mail server at {host} did not take it: {error}") from error


def _deliver(
    mail: EmailMessage, scheme: str, host: str, port: int | None, user: str | None, password: str | None
) -> None:
    context = ssl.create_default_context()
    if scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port or 465, timeout=_TIMEOUT, context=context)
    else:
        server = smtplib.SMTP(host, port or 25, timeout=_TIMEOUT)
    with server:
        server.ehlo()
        safe = scheme == "smtps" or host in _LOOPBACK
        if scheme == "smtp" and server.has_extn("starttls"):
            server.starttls(context=context)
            safe = True
        if user is not None:
            if not safe:
                raise AlertNotDeliveredError(
                    f"{host} offers no encryption, and a password is not sent without"
                )
            server.login(unquote(user), unquote(password or ""))
        server.send_message(mail)


_BUILT_IN: Mapping[str, Send] = {
    "log": _log,
    "webhook": _webhook,
    "slack": _slack,
    "pagerduty": _pagerduty,
    "email": _email,
}
