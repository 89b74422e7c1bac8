"""Alert rules: whom to tell of what, and what makes no sense in them."""

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
    """Whom to tell of what.

    Attributes:
        to: `log`, `webhook`, `slack`, `pagerduty`, `email`, or a notifier that the scheduler knows.
        kinds: Of `ALERT_KINDS`; all without any.
        owners: Only datasets of these; all without any.
        url: Of a webhook, of Slack's incoming webhook, or `smtp://user:${PASSWORD}@host:587`, `smtps://...`;
            with `${VARIABLE}`.
        quiet: Nothing is told twice within this time.
        digest: What comes up is collected, and told once in so long; None for at once.
        key: Integration key of PagerDuty, with `${VARIABLE}`.
        sender: Of e-mail.
        recipients: Of e-mail; the owner when there are none.
        link: Where to look, with `{dataset}` for its name.
        runbook: Where more is said about what to do, with `{kind}`.
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
        """Names the rule in the ledger: whom it tells, and of what."""
        parts: tuple[object, ...] = (
            self.to,
            self.url,
            self.key,
            sorted(self.recipients),
            sorted(self.kinds),
            sorted(self.owners),
        )
        if self.severity != "warning":
            # Rules from before there were severities keep their names.
            parts = (*parts, self.severity)
        return blake2b(repr(parts).encode(), digest_size=8).hexdigest()

    def wants(self, kind: str, owner: str | None) -> bool:
        """Whether it tells of such an alert."""
        if self.severity == "error" and kind != "recovered" and severity_of(kind) == "warning":
            return False
        return (not self.kinds or kind in self.kinds) and self.wants_owner(owner)

    def wants_owner(self, owner: str | None) -> bool:
        """Whether it tells of the datasets of an owner."""
        return not self.owners or owner in self.owners


def unreachable(rules: Sequence[AlertRule], notifiers: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Whom nobody could tell here and now, with the path of each.

    Args:
        rules: The rules.
        notifiers: Names that the scheduler knows besides those that are built in.
    """
    for i, rule in enumerate(rules):
        if rule.to not in (*BUILT_IN, *notifiers):
            yield (
                f"alerts[{i}].to",
                f"nobody here knows {rule.to!r}; there is {', '.join(BUILT_IN)}; or give --notifier",
            )
        for name, text in (("url", rule.url), ("key", rule.key)):
            for variable in variables(text or ""):
                if variable not in os.environ:
                    yield f"alerts[{i}].{name}", f"the environment has no {variable}"


def problems_of(rules: Sequence[AlertRule]) -> Iterator[tuple[str, str]]:
    """What makes no sense in rules, with the path of each."""
    seen: set[str] = set()
    for i, rule in enumerate(rules):
        for kind in rule.kinds:
            if kind not in ALERT_KINDS:
                yield f"alerts[{i}].kinds", f"{kind!r} is no kind of alert; there is {', '.join(ALERT_KINDS)}"
        if rule.severity not in SEVERITIES:
            yield f"alerts[{i}].severity", f"severity is error or warning, not {rule.severity!r}"
        if rule.to in _WITH_URL and rule.url is None:
            yield f"alerts[{i}]", f"{_WITH_URL[rule.to]} needs a url"
        if rule.to == "pagerduty" and rule.key is None:
            yield f"alerts[{i}]", "PagerDuty needs the key of an integration (Events API v2)"
        if rule.digest_key in seen:
            yield f"alerts[{i}]", "this rule is there twice"
        seen.add(rule.digest_key)
