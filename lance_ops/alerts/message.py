"""Message: alerts for one owner, grouped by cause, with a link and advice."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar
from urllib.parse import quote

from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.texts import RUNBOOK, severity_of
from lance_ops.alerts.values import Alert, incident_of, what_to_do
from lance_ops.maintenance.text import count_text

_NAMES = 8
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Message:
    """Alerts for one owner.

    Attributes:
        id: The same for all attempts.
        rows: The alerts, all of one cause, or a digest of several.
        link: URL with the placeholder `{dataset}`.
        runbook: URL of instructions, with the placeholder `{kind}`.
        alerts: Alerts of Dagster sensors, by the key of the row.
    """

    kind: ClassVar[str] = "fleet"

    id: str
    rows: tuple[AlertRow, ...]
    link: str | None = None
    runbook: str | None = None
    alerts: Mapping[str, Alert] = field(default_factory=dict)

    @property
    def owner(self) -> str | None:
        """The owner that gets the message."""
        return self.rows[0].owner

    @property
    def recovered(self) -> bool:
        """True if all alerts in it are resolved."""
        return all(row.state == "mended" for row in self.rows)

    @property
    def title(self) -> str:
        """The message in one line."""
        parts = []
        for said, rows in self._by_kind():
            names = [row.dataset for row in rows]
            parts.append(f"{names[0]} {said}" if len(names) == 1 else f"{len(names):,} datasets {said}")
        return "Lance: " + "; ".join(parts)

    @property
    def lines(self) -> list[str]:
        """Return the lines below the title: each cause with its datasets, and advice."""
        found: list[str] = []
        for said, rows in self._by_cause():
            first = rows[0]
            names = ", ".join(row.dataset for row in rows[:_NAMES])
            more = f" and {count_text(len(rows) - _NAMES, 'more', 'more')}" if len(rows) > _NAMES else ""
            text = first.text if len(first.text) <= _LONGEST else first.text[: _LONGEST - 1] + "…"
            since = f"since {first.at:%Y-%m-%d %H:%M} UTC"
            if first.closed_at is not None and first.kind != "schema":
                since += f", until {first.closed_at:%Y-%m-%d %H:%M} UTC"
            found.append(f"{names}{more} {said} ({since}, severity {severity_of(first.kind)}): {text}")
            found += [f"  {link}" for row in rows[:_NAMES] for link in self.links_of(row)]
            if first.state != "mended":
                found.append(f"  advice: {self.advice_for(first)}")
        if self.owner is not None:
            found.append(f"owner: {self.owner}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "kind": self.kind,
            "id": self.id,
            "title": self.title,
            "text": str(self),
            "owner": self.owner,
            "recovered": self.recovered,
            "alerts": [
                {
                    "key": row.key,
                    "kind": row.kind,
                    "dataset": row.dataset,
                    "uri": row.uri,
                    "state": "recovered" if row.state == "mended" else "raised",
                    "text": row.text,
                    "since": row.at.isoformat(),
                    "until": None if row.closed_at is None else row.closed_at.isoformat(),
                    "severity": severity_of(row.kind),
                    "incident": self.incident_of(row),
                    "link": next(iter(self.links_of(row)), None),
                    "links": self.links_of(row),
                    "what_to_do": self.advice_for(row),
                }
                for row in self.rows
            ],
        }

    def __str__(self) -> str:
        return "\n".join([self.title, *self.lines])

    def _by_kind(self) -> list[tuple[str, list[AlertRow]]]:
        return _grouped(self.rows, lambda row: (said_of(row),))

    def _by_cause(self) -> list[tuple[str, list[AlertRow]]]:
        return _grouped(self.rows, lambda row: (said_of(row), row.cause))

    def links_of(self, row: AlertRow) -> list[str]:
        """Return the links of an alert: that of the rule, else those of its run and asset."""
        if self.link is not None:
            return [link_of(self.link, row)]
        alert = self.alerts.get(row.key)
        return [] if alert is None else [url for url in (alert.run_url, alert.asset_url) if url]

    def advice_for(self, row: AlertRow) -> str:
        """Return the advice for an alert."""
        alert = self.alerts.get(row.key)
        advice = RUNBOOK[row.kind] if alert is None else what_to_do(alert)
        return advice if self.runbook is None else f"{advice}; {self.runbook.replace('{kind}', row.kind)}"

    def incident_of(self, row: AlertRow) -> str:
        """Return the key under which an alert is opened and closed."""
        alert = self.alerts.get(row.key)
        return row.key[-255:] if alert is None else incident_of(alert)


def link_of(template: str, row: AlertRow) -> str:
    """Return the link of an alert; the name and the URI of its dataset are inserted percent-encoded."""
    values = {"{dataset}": quote(row.dataset, safe="/"), "{uri}": quote(row.uri, safe="/:")}
    return _PLACES.sub(lambda match: values[match[0]], template)


_PLACES = re.compile(r"\{dataset\}|\{uri\}")
_SAID = {
    "damaged": "damaged",
    "failure": "has a failed run",
    "conflict": "lost to other writers",
    "blocked": "blocked",
    "overdue": "overdue",
    "gone": "not found",
    "silent": "silent",
    "schema": "changed columns",
}


def said_of(row: AlertRow) -> str:
    """Return the part of a title about an alert."""
    said = _SAID[row.kind]
    if row.state == "mended":
        return f"recovered ({said})"
    return f"{said}, and recovered" if row.state == "passed" and row.kind != "schema" else said


def _grouped(rows: Sequence[AlertRow], key: Any) -> list[tuple[str, list[AlertRow]]]:
    ordered = sorted(rows, key=lambda row: (*key(row), row.dataset))
    return [(found[0], list(items)) for found, items in groupby(ordered, key)]
