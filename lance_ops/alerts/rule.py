"""Alert routing rules and their validation."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b

from lance_ops.alerts.texts import severity_of
from lance_ops.storage.variables import variables

ALERT_KINDS = (
    "conflict",
    "failure",
    "damaged",
    "blocked",
    "overdue",
    "gone",
    "recovered",
    "schema",
    "silent",
)
BUILT_IN = ("log", "webhook", "slack", "pagerduty", "email")
SEVERITIES = ("error", "warning")
_WITH_URL = {"webhook": "a webhook", "slack": "Slack", "email": "e-mail"}


@dataclass(frozen=True, slots=True)
class AlertRule:
    """Alert routing rule.

    Attributes:
        to: `log`, `webhook`, `slack`, `pagerduty`, `email`, or a notifier that the scheduler knows.
        kinds: Of `ALERT_KINDS`; all if empty.
        owners: Only datasets of these owners; all if empty.
        url: Of a webhook, of Slack's incoming webhook, or `smtp://user:${PASSWORD}@host:587`, `smtps://...`;
            with `${VARIABLE}`.
        quiet: An equal alert is not sent again within this time.
        digest: Interval at which alerts are collected into one message; None sends at once.
        key: Integration key of PagerDuty, with `${VARIABLE}`.
        sender: Of e-mail.
        recipients: Of e-mail; the owner when there are none.
        link: URL with the placeholder `{dataset}`.
        runbook: URL of instructions, with the placeholder `{kind}`.
        severity: `error` leaves out warnings (see `lance_ops.alerts.texts.SEVERITY`); `warning` sends both.
    """

    to: str
    kinds: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    url: str | None = field(default=None, repr=False)
    quiet: timedelta = timedelta(minutes=30)
    digest: timedelta | None = None
    key: str | None = field(default=None, repr=False)
    sender: str | None = None
    recipients: tuple[str, ...] = ()
    link: str | None = None
    runbook: str | None = None
    severity: str = "warning"

    @property
    def digest_key(self) -> str:
        """Digest of recipients and conditions, which names the rule in the ledger."""
        parts: tuple[object, ...] = (
            self.to,
            self.url,
            self.key,
            sorted(self.recipients),
            sorted(self.kinds),
            sorted(self.owners),
        )
        if self.severity != "warning":
            # Rules from before severities keep their names.
            parts = (*parts, self.severity)
        return blake2b(repr(parts).encode(), digest_size=8).hexdigest()

    def wants(self, kind: str, owner: str | None) -> bool:
        """Return whether the rule covers an alert."""
        if self.severity == "error" and kind != "recovered" and severity_of(kind) == "warning":
            return False
        return (not self.kinds or kind in self.kinds) and self.wants_owner(owner)

    def wants_owner(self, owner: str | None) -> bool:
        """Return whether the rule covers the datasets of an owner."""
        return not self.owners or owner in self.owners


def unreachable(rules: Sequence[AlertRule], notifiers: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Return the targets that cannot be reached, with the path of each.

    Args:
        rules: The rules.
        notifiers: Names of custom notifiers of the scheduler.
    """
    for i, rule in enumerate(rules):
        if rule.to not in (*BUILT_IN, *notifiers):
            yield (
                f"alerts[{i}].to",
                f"unknown alert target {rule.to!r}; use --notifier, or one of {', '.join(BUILT_IN)}",
            )
        for name, text in (("url", rule.url), ("key", rule.key)):
            for variable in variables(text or ""):
                if variable not in os.environ:
                    yield f"alerts[{i}].{name}", f"environment variable {variable} is not set"


def problems_of(rules: Sequence[AlertRule]) -> Iterator[tuple[str, str]]:
    """Return the problems of rules, with the path of each."""
    seen: set[str] = set()
    for i, rule in enumerate(rules):
        for kind in rule.kinds:
            if kind not in ALERT_KINDS:
                yield (
                    f"alerts[{i}].kinds",
                    f"unknown kind of alert {kind!r}; expected one of {', '.join(ALERT_KINDS)}",
                )
        if rule.severity not in SEVERITIES:
            yield f"alerts[{i}].severity", f"severity must be error or warning, got {rule.severity!r}"
        if rule.to in _WITH_URL and rule.url is None:
            yield f"alerts[{i}]", f"{_WITH_URL[rule.to]} needs a url"
        if rule.to == "pagerduty" and rule.key is None:
            yield f"alerts[{i}]", "PagerDuty requires the key of an integration (Events API v2)"
        if rule.digest_key in seen:
            yield f"alerts[{i}]", "duplicate rule"
        seen.add(rule.digest_key)
