"""Incidents: open alerts, their delivery state for each rule, and their ends; no I/O.

Sensors report failures and successes; the ledger of a fleet has an evaluation of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lance_ops.alerts.row import UNTOLD, AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.alerts.values import Alert, CheckAlert, alert_from_dict, alert_to_dict, incident_of

_RAISED = ("waiting", "open")
_KEPT = timedelta(days=3)
_MOST = 200
_LONGEST_TEXT = 2000
_LONGEST_OPEN_TEXT = 200
_DATES = ("at", "closed_at", "told_at")
_DERIVED = ("title", "text", "incident", "what_to_do")


@dataclass(slots=True)
class Incidents:
    """Alerts of some rules.

    Attributes:
        rules: Alert rules.
        rows: Delivery state of each alert, by the key of the rule and the key of the row.
        alerts: The alerts of the rows, by the key that follows that of the rule.
        ends: Fields of the recovery alerts, such as the version of a check that passes again.
    """

    rules: Sequence[AlertRule]
    rows: dict[str, dict[str, AlertRow]] = field(default_factory=dict)
    alerts: dict[str, Alert] = field(default_factory=dict)
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rule in self.rules:
            self.rows.setdefault(rule.digest_key, {})

    def raise_alert(self, alert: Alert, *, state: str = "waiting") -> bool:
        """Open an incident; returns whether it is new.

        An open incident is not sent again. Another cause of the same incident replaces it, so that a check is
        reported again when the cause of its block changes.
        """
        incident = incident_of(alert)
        at = _time_of(alert)
        before = self.open_of(lambda other: incident_of(other) == incident)
        if any((other.rule_kind, other.cause) == (alert.rule_kind, alert.cause) for other in before.values()):
            return False
        # The keys of two causes within one second must differ.
        name = f"{incident}/{at.isoformat()}/{alert.cause}"
        for rule in self.rules:
            mine = self.rows[rule.digest_key]
            for row in [row for row in mine.values() if _name(row) in before and row.state in _RAISED]:
                mine[row.key] = replace(row, state="over", closed_at=at, message="")
            self._add(rule, name, alert, state)
        for other in before:
            self.alerts[other] = replace(self.alerts[other], until=at.isoformat())
        self.alerts[name] = _shortened(alert)
        return True

    def open_of(self, belongs: Callable[[Alert], bool]) -> dict[str, Alert]:
        """Return the open alerts of a subject, by key."""
        return {name: alert for name, alert in self.alerts.items() if not alert.until and belongs(alert)}

    def resolve(self, belongs: Callable[[Alert], bool], at: datetime, **values: Any) -> int:
        """Close incidents; returns their number.

        Args:
            belongs: Selects among the open ones.
            at: When they ended, aware.
            values: Fields of the recovery alert, such as the message and version of a check that passes.
        """
        ended = self.open_of(belongs)
        for name, alert in ended.items():
            self.alerts[name] = replace(alert, until=at.isoformat())
            self.ends[name] = values
            for rule in self.rules:
                mine = self.rows[rule.digest_key]
                row = mine.get(f"{rule.digest_key}/{name}")
                if row is None or row.state not in _RAISED:
                    continue
                if row.state == "waiting":
                    # A refused message keeps its id.
                    mine[row.key] = replace(row, state="passed", closed_at=at)
                    continue
                wanted = any(rule.wants("recovered", owner) for owner in alert.owners or (None,))
                state = "mended" if wanted else "over"
                mine[row.key] = replace(row, state=state, closed_at=at, message="")
        return len(ended)

    def forget(self, is_known: Callable[[str], bool]) -> None:
        """Close incidents that cannot be resolved, since their dataset is no longer monitored."""
        at = datetime.now(UTC)
        for name in self.open_of(lambda alert: not is_known(alert.dataset)):
            self.alerts[name] = replace(self.alerts[name], until=at.isoformat())
            for rule in self.rules:
                row = self.rows[rule.digest_key].get(f"{rule.digest_key}/{name}")
                if row is not None and row.state == "open":
                    self.rows[rule.digest_key][row.key] = replace(row, state="over", closed_at=at)

    def alert_of(self, row: AlertRow) -> Alert | None:
        """Return the alert of a row as it is sent; with its end in a recovery message."""
        alert = self.alerts.get(_name(row))
        if alert is None:
            return None
        if row.state != "mended":
            return alert if row.state == "passed" else replace(alert, until="")
        values: dict[str, Any] = {**self.ends.get(_name(row), {}), "recovered": True}
        if isinstance(alert, CheckAlert):
            values["passed"] = True
        return replace(alert, **values)

    def waiting(self) -> list[AlertRow]:
        """Return the rows with something still to send."""
        return [row for mine in self.rows.values() for row in mine.values() if row.state in UNTOLD]

    def prune(self, now: datetime) -> list[Alert]:
        """Drop rows that are finished. Returns those given up: too many, or not accepted for days."""
        dropped: dict[str, Alert] = {}
        for rule in self.rules:
            mine = self.rows[rule.digest_key]
            for_quiet = max(rule.quiet, rule.digest or timedelta(0))
            for row in list(mine.values()):
                if row.state == "over" and (row.told_at is None or now - row.told_at > for_quiet):
                    del mine[row.key]
            untold = sorted((row for row in mine.values() if row.state in UNTOLD), key=lambda row: row.at)
            young = [row for row in untold if not row.tries or now - (row.closed_at or row.at) <= _KEPT]
            kept = {row.key for row in young[-_MOST:]}
            for row in untold:
                if row.key not in kept:
                    dropped[_name(row)] = self.alerts[_name(row)]
                    # Treated as sent: its end is sent as usual.
                    state = "open" if row.state == "waiting" else "over"
                    mine[row.key] = replace(row, state=state, message="", tries=0)
        held = {_name(row) for mine in self.rows.values() for row in mine.values()}
        self.alerts = {name: alert for name, alert in self.alerts.items() if name in held or not alert.until}
        self.ends = {name: values for name, values in self.ends.items() if name in self.alerts}
        return list(dropped.values())

    def to_dict(self) -> dict[str, object]:
        """Return JSON values; alerts that were fully delivered are shortened."""
        waiting = {_name(row) for row in self.waiting()}
        return {
            "rows": [_row_to_dict(row) for mine in self.rows.values() for row in mine.values()],
            "alerts": {
                name: {
                    key: value
                    for key, value in alert_to_dict(alert if name in waiting else _cut(alert)).items()
                    if (key not in _DERIVED and value not in ("", None, [], {}, False))
                    or key in ("kind", "version", "ours", "theirs", "step", "error", "message", "passed")
                }
                for name, alert in self.alerts.items()
            },
            "ends": self.ends,
        }

    @classmethod
    def from_dict(cls, content: object, rules: Sequence[AlertRule]) -> "Incidents":
        """Read `to_dict`; skips unknown values, and the rows of removed rules.

        A new rule gets rows for the alerts that are open, so that it sends them, too.
        """
        found = cls(rules)
        stored = content if isinstance(content, Mapping) else {}
        alerts = stored.get("alerts")
        for name, value in (alerts if isinstance(alerts, Mapping) else {}).items():
            alert = alert_from_dict(value)
            if alert is not None:
                found.alerts[str(name)] = alert
        known = {rule.digest_key for rule in rules}
        ends = stored.get("ends")
        for name, value in (ends if isinstance(ends, Mapping) else {}).items():
            if str(name) in found.alerts and isinstance(value, Mapping):
                found.ends[str(name)] = {str(key): item for key, item in value.items()}
        rows = stored.get("rows")
        for value in rows if isinstance(rows, list) else ():
            row = _row_from_dict(value)
            if row is not None and row.rule in known and _name(row) in found.alerts:
                found.rows[row.rule][row.key] = row
        for rule in rules:
            for name, alert in found.open_of(lambda _: True).items():
                if f"{rule.digest_key}/{name}" not in found.rows[rule.digest_key]:
                    found._add(rule, name, alert)
        return found

    def _add(self, rule: AlertRule, name: str, alert: Alert, state: str = "waiting") -> None:
        if not any(rule.wants(alert.rule_kind, owner) for owner in alert.owners or (None,)):
            return
        self.rows[rule.digest_key][f"{rule.digest_key}/{name}"] = AlertRow(
            key=f"{rule.digest_key}/{name}",
            rule=rule.digest_key,
            at=_time_of(alert),
            dataset=alert.dataset,
            kind=alert.rule_kind,
            cause=alert.cause,
            state=state,
            owner=alert.owner,
            uri=alert.uri,
            text=alert.message[:_LONGEST_TEXT],
        )


def _time_of(alert: Alert) -> datetime:
    return datetime.fromisoformat(alert.at) if alert.at else datetime.now(UTC)


def _name(row: AlertRow) -> str:
    """Return the alert key of a row, which is the same for all rules."""
    return row.key[len(row.rule) + 1 :]


def _row_to_dict(row: AlertRow) -> dict[str, object]:
    values = {item.name: getattr(row, item.name) for item in fields(AlertRow)}
    shown = {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()
    }
    return {name: value for name, value in shown.items() if value not in ("", None, 0)}


def _row_from_dict(value: object) -> AlertRow | None:
    if not isinstance(value, Mapping):
        return None
    values: dict[str, Any] = {str(name): item for name, item in value.items()}
    try:
        values |= {name: datetime.fromisoformat(values[name]) for name in _DATES if name in values}
        return AlertRow(**values)
    except (TypeError, ValueError):
        return None


def _shortened(alert: Alert, longest: int = _LONGEST_TEXT) -> Alert:
    texts = {
        item.name: getattr(alert, item.name)[:longest]
        for item in fields(alert)
        if isinstance(getattr(alert, item.name), str) and len(getattr(alert, item.name)) > longest
    }
    return replace(alert, **texts) if texts else alert


def _cut(alert: Alert) -> Alert:
    """Return the part of an alert that its end needs."""
    cut = _shortened(alert, _LONGEST_OPEN_TEXT)
    return replace(cut, metadata={}) if isinstance(cut, CheckAlert) else cut
