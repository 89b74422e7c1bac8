"""Message: what one owner is told at once, grouped by cause, with a link and a line about what to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar
from urllib.parse import quote

from lance_ops.alerts.row import AlertRow
from lance_ops.maintenance.text import count_text

RUNBOOK: Mapping[str, str] = {
    "damaged": "stop writers, run `lance-ops fsck URI`; restore a version that is whole, or the files from a "
    "backup",
    "failure": "read the error; `lance-ops fleet run --only DATASET` tries again at once",
    "conflict": "writers are faster than maintenance: give it a quieter window, a smaller "
    "`max_source_bytes` or `commit_every: 1`",
    "blocked": "maintenance cannot mend this by itself: do what the reason says, or raise the threshold",
    "overdue": "give the fleet more hours, runs or bytes, or the dataset a higher `priority`; "
    "`lance-ops fleet forecast` says what suffices",
    "gone": "if nobody removed or moved it on purpose, bring it back from a backup; a policy that leaves it "
    "out is a reason, too",
    "silent": "nobody has written for longer than `silent_after`: look after the job that loads it",
    "schema": "columns were added, dropped or changed: see that readers can do with it",
}
"""What to do about each kind, in one line."""

_NAMES = 8
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Message:
    """Alerts for one owner.

    Attributes:
        id: The same however often it is sent.
        rows: The alerts, all of one cause, or a digest of several.
        link: Where to look, with `{dataset}` for the name of one.
        runbook: Where more is said about what to do, with `{kind}`.
    """

    kind: ClassVar[str] = "fleet"

    id: str
    rows: tuple[AlertRow, ...]
    link: str | None = None
    runbook: str | None = None

    @property
    def owner(self) -> str | None:
        """Who is told."""
        return self.rows[0].owner

    @property
    def recovered(self) -> bool:
        """It is all well again."""
        return all(row.state == "mended" for row in self.rows)

    @property
    def title(self) -> str:
        """In one line."""
        parts = []
        for said, rows in self._by_kind():
            names = [row.dataset for row in rows]
            parts.append(f"{names[0]} {said}" if len(names) == 1 else f"{len(names):,} datasets {said}")
        return "Lance: " + "; ".join(parts)

    @property
    def lines(self) -> list[str]:
        """What is said below the title: each cause with its datasets, and what to do."""
        found: list[str] = []
        for said, rows in self._by_cause():
            first = rows[0]
            names = ", ".join(row.dataset for row in rows[:_NAMES])
            more = f" and {count_text(len(rows) - _NAMES, 'more', 'more')}" if len(rows) > _NAMES else ""
            text = first.text if len(first.text) <= _LONGEST else first.text[: _LONGEST - 1] + "…"
            since = f"since {first.at:%Y-%m-%d %H:%M} UTC"
            if first.closed_at is not None and first.kind != "schema":
                since += f", until {first.closed_at:%Y-%m-%d %H:%M} UTC"
            found.append(f"{names}{more} {said} ({since}): {text}")
            found += [f"  {self._link(row)}" for row in rows[:_NAMES] if self.link is not None]
            if first.state != "mended":
                found.append(f"  what to do: {RUNBOOK[first.kind]}{self._runbook(first)}")
        if self.owner is not None:
            found.append(f"owner: {self.owner}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
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
                    "link": None if self.link is None else self._link(row),
                    "what_to_do": RUNBOOK[row.kind] + self._runbook(row),
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

    def _link(self, row: AlertRow) -> str:
        return link_of(self.link or "", row)

    def _runbook(self, row: AlertRow) -> str:
        return "" if self.runbook is None else f"; {self.runbook.replace('{kind}', row.kind)}"


def link_of(template: str, row: AlertRow) -> str:
    """Return the link of an alert: the name and the URI of its dataset take their places, percent-encoded."""
    values = {"{dataset}": quote(row.dataset, safe="/"), "{uri}": quote(row.uri, safe="/:")}
    return _PLACES.sub(lambda match: values[match[0]], template)


_PLACES = re.compile(r"\{dataset\}|\{uri\}")
_SAID = {
    "damaged": "damaged",
    "failure": "could not be maintained",
    "conflict": "lost to other writers",
    "blocked": "blocked",
    "overdue": "overdue",
    "gone": "not found any more",
    "silent": "silent",
    "schema": "changed columns",
}


def said_of(row: AlertRow) -> str:
    """What a title says of an alert."""
    said = _SAID[row.kind]
    if row.state == "mended":
        return f"recovered ({said})"
    return f"{said}, and recovered" if row.state == "passed" and row.kind != "schema" else said


def _grouped(rows: Sequence[AlertRow], key: Any) -> list[tuple[str, list[AlertRow]]]:
    ordered = sorted(rows, key=lambda row: (*key(row), row.dataset))
    return [(found[0], list(items)) for found, items in groupby(ordered, key)]
