"""Options of the alerts of Dagster's sensors, checked when the code location is loaded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import dagster as dg

from lance_ops.alerts.notifier import LogNotifier, Notifier, check_notifier
from lance_ops.alerts.rule import BUILT_IN, AlertRule, problems_of
from lance_ops.dagster.links import asset_path, run_path
from lance_ops.errors import InvalidArgumentError

Notifiers = Notifier | Mapping[str, Notifier]
"""One notifier for all alerts, or several by the names that rules give under `to`."""

_ONE = "notifier"


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """Routing and timing of alerts.

    Attributes:
        rules: Routing rules as in a fleet's policy: kinds, owners, severity, `quiet`, `digest`. Without any,
            every notifier gets all alerts.
        webserver_base_url: URL of Dagster's webserver, e.g. `https://dagster.example.com`: alerts link to the
            pages of the run and of the asset.
        due_after: A check of severity WARN, such as too many small fragments, is an alert when it has failed
            for this long: until then, maintenance is expected to repair it. Other failures are sent at once.

    Raises:
        InvalidArgumentError: A rule, the URL or the time is invalid.
    """

    rules: Sequence[AlertRule] = ()
    webserver_base_url: str = ""
    due_after: timedelta = timedelta(hours=24)

    def __post_init__(self) -> None:
        wrong = "; ".join(f"{path}: {message}" for path, message in problems_of(self.rules))
        if wrong:
            raise InvalidArgumentError(wrong, field="rules", hint="see AlertRule")
        if self.webserver_base_url and not re.match(r"https?://[^\s/]", self.webserver_base_url):
            raise InvalidArgumentError(
                "webserver_base_url must be an http or https URL",
                field="webserver_base_url",
                hint='e.g. "https://dagster.example.com"',
            )
        if self.due_after < timedelta(0):
            raise InvalidArgumentError("due_after must be at least 0", field="due_after")

    def run_url(self, run_id: str) -> str:
        """Return the URL of a run's page; empty without a webserver URL."""
        return self._page(run_path(run_id)) if run_id else ""

    def asset_url(self, key: dg.AssetKey | None) -> str:
        """Return the URL of an asset's page; empty without a webserver URL."""
        return "" if key is None else self._page(asset_path(key))

    def _page(self, path: str) -> str:
        return f"{self.webserver_base_url.rstrip('/')}{path}" if self.webserver_base_url else ""


@dataclass(frozen=True, slots=True)
class Recipients:
    """Rules with the notifiers that they name.

    Attributes:
        rules: At least one.
        notifiers: Notifiers by name.
    """

    rules: tuple[AlertRule, ...]
    notifiers: Mapping[str, Notifier]

    @classmethod
    def of(cls, notifier: Notifiers | None, options: AlertOptions) -> "Recipients":
        """Check notifiers and rules.

        Args:
            notifier: One notifier, or several by name; the log by default.
            options: Contains the rules.

        Raises:
            InvalidArgumentError: An object is not a notifier, or a rule names an unknown one.
        """
        if notifier is None:
            notifier = {} if options.rules else LogNotifier()
        if isinstance(notifier, Mapping):
            named = dict(notifier)
            for name, item in named.items():
                check_notifier(item, f"notifier[{name!r}]")
        else:
            check_notifier(notifier)
            named = {_ONE: notifier}
        rules = tuple(options.rules) or tuple(AlertRule(to=name) for name in named)
        for rule in rules:
            if rule.to not in named and rule.to not in BUILT_IN:
                raise InvalidArgumentError(
                    f"a rule sends alerts to the unknown notifier {rule.to!r}",
                    field="rules",
                    hint=f"known are {', '.join([*named, *BUILT_IN])}",
                )
        unused = sorted(set(named) - {rule.to for rule in rules})
        if unused:
            raise InvalidArgumentError(
                f"no rule sends alerts to {', '.join(map(repr, unused))}",
                field="rules",
                hint="add AlertRule(to=...) for each notifier, or remove all rules",
            )
        return cls(rules, named)
