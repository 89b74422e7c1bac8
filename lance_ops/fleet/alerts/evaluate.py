"""Evaluation: new and resolved alerts since the last delivery; pure.

It may be repeated on the same surveys and operations, by a process after one that died: the result is the
same.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b

from lance_ops.alerts.row import RULE, AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.fleet.ledger.rows import GONE, Look, OperationRow
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.maintenance.text import seconds_text

WINDOW = timedelta(days=14)
"""Period of operations to consider: longer ones raise no alert."""

_BEFORE_THE_RULE = timedelta(hours=1)
_STANDING = ("damaged", "blocked", "overdue", "silent", GONE)
_FAILURES = {"failed": "failure", "broken off": "failure", "conflict": "conflict"}
_GOOD = ("done", "nothing")
_RAISED = ("waiting", "open")


def evaluate(
    policy: FleetPolicy,
    rule: AlertRule,
    rows: Iterable[AlertRow],
    looks: Iterable[Look],
    operations: Iterable[OperationRow],
    now: datetime,
) -> list[AlertRow]:
    """Return the alerts of a rule.

    Args:
        policy: Of the fleet.
        rule: The rule.
        rows: Its sent and pending alerts; finished ones of the last two weeks at least.
        looks: Newest observation of each dataset.
        operations: Operations of the last two weeks, oldest first.
        now: The time, aware.

    Returns:
        New and changed rows.
    """
    work = _Evaluation(policy, rule, now)
    for row in rows:
        work.take(row)
    since = work.rule_since()
    for look in looks:
        if rule.wants_owner(look.owner):
            work.standing(look)
            work.columns(look)
    for operation in operations:
        work.operation(operation, since)
    return list(work.changed.values())


@dataclass(slots=True)
class _Evaluation:
    policy: FleetPolicy
    rule: AlertRule
    now: datetime
    rows: dict[str, dict[str, AlertRow]] = field(default_factory=lambda: defaultdict(dict))
    changed: dict[str, AlertRow] = field(default_factory=dict)
    silent_after: dict[str, timedelta | None] = field(default_factory=dict)

    def take(self, row: AlertRow) -> None:
        self.rows[row.dataset][row.key] = row

    def rule_since(self) -> datetime:
        """The creation time of the rule: earlier failures raise no alert."""
        known = [row.at for row in self.rows[""].values() if row.kind == RULE and row.state != "over"]
        if known:
            return min(known)
        self._add(RULE, "", self.now, state="seen", key=f"{self.rule.digest_key}/{RULE}")
        return self.now

    # Lasting states

    def standing(self, look: Look) -> None:
        """Return alerts of states in the newest observation, open as long as they last."""
        said = self._standing_of(look)
        for kind in _STANDING:
            cause, text = said.get(kind, ("", ""))
            holds = kind in said and self.rule.wants(kind, look.owner)
            known = False
            for row in self._raised(look.dataset, kind):
                same = holds and row.cause == cause
                known = known or same
                if not same:
                    # A dataset that vanished is not resolved.
                    self._resolved(row, look.at, told=not holds and look.verdict != GONE)
            if holds and not known:
                self._add(kind, look.dataset, look.at, cause, text, look.uri)

    def _standing_of(self, look: Look) -> dict[str, tuple[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        if look.verdict == GONE:
            return {GONE: ("", look.why)}
        if look.verdict in ("damaged", "overdue"):
            found[look.verdict] = ("", look.why)
        elif look.verdict == "blocked":
            found["blocked"] = (_mark(look.why), look.why)
        if look.class_name not in self.silent_after:
            rules = self.policy.of_dataset(look.dataset)
            self.silent_after[look.class_name] = rules.settings["silent_after"]
        most = self.silent_after[look.class_name]
        if most is not None and look.version_at is not None and look.at - look.version_at > most:
            age = seconds_text((look.at - look.version_at).total_seconds())
            found["silent"] = ("", f"no version since {look.version_at:%Y-%m-%d %H:%M} UTC, {age} ago")
        return found

    def columns(self, look: Look) -> None:
        """Return an alert if the columns changed since the last observation."""
        if not look.schema or not self.rule.wants("schema", look.owner):
            return
        known = [row for row in self.rows[look.dataset].values() if row.kind == "schema"]
        last = max(known, key=lambda row: row.at, default=None)
        if last is None:
            self._add("schema", look.dataset, look.at, look.schema, uri=look.uri, state="seen")
        elif last.cause != look.schema and last.at < look.at:
            text = f"the columns of version {look.version} differ from those of the version seen before"
            self._add("schema", look.dataset, look.at, look.schema, text, look.uri, state="passed")
            for row in known:
                if row.state == "seen":
                    self._change(replace(row, state="over"))

    # Events

    def operation(self, row: OperationRow, since: datetime) -> None:
        """Return the alert of a failed operation, or the end of one after a success."""
        name = row.operation
        if row.outcome in _GOOD:
            for kind in set(_FAILURES.values()):
                for alert in self._raised(row.dataset, kind):
                    if alert.cause.partition(" ")[0] in (name, "maintain") and alert.at < row.at:
                        self._resolved(alert, row.at, told=True)
            return
        failed = _FAILURES.get(row.outcome)
        if failed is None or row.at + timedelta(seconds=row.seconds) < since - _BEFORE_THE_RULE:
            return
        if not self.rule.wants(failed, self.policy.of_dataset(row.dataset).owner):
            return
        cause = f"{name} {row.error.partition(':')[0] or row.outcome}"
        if any(_covers(alert, failed, cause, row.at) for alert in self.rows[row.dataset].values()):
            return
        died = f"the process of run {row.run} ended during this operation; its result is unknown"
        self._add(failed, row.dataset, row.at, cause, f"{name}: {row.error or died}", row.uri)

    # Rows

    def _raised(self, dataset: str, kind: str) -> list[AlertRow]:
        return [row for row in self.rows[dataset].values() if row.kind == kind and row.state in _RAISED]

    def _add(
        self,
        kind: str,
        dataset: str,
        at: datetime,
        cause: str = "",
        text: str = "",
        uri: str = "",
        *,
        state: str = "waiting",
        key: str = "",
    ) -> None:
        self._change(
            AlertRow(
                key=key or f"{self.rule.digest_key}/{kind}/{dataset}/{cause}/{at.isoformat()}",
                rule=self.rule.digest_key,
                at=at,
                dataset=dataset,
                kind=kind,
                cause=cause,
                state=state,
                owner=self.policy.of_dataset(dataset).owner if dataset else None,
                uri=uri,
                text=text,
            )
        )

    def _resolved(self, row: AlertRow, at: datetime, *, told: bool) -> None:
        """Return the resolved alert, or a replaced one if it is not sent yet."""
        if row.state == "waiting":
            state = "passed"
        else:
            state = "mended" if told and self.rule.wants("recovered", row.owner) else "over"
        message = row.message if state == "passed" else ""
        self._change(replace(row, state=state, closed_at=at, message=message))

    def _change(self, row: AlertRow) -> None:
        self.take(row)
        self.changed[row.key] = row


def _covers(alert: AlertRow, kind: str, cause: str, at: datetime) -> bool:
    """Return whether an alert is about a failure."""
    if (alert.kind, alert.cause) != (kind, cause):
        return False
    if alert.closed_at is None:
        # Over and not closed: the rule was removed for a while, before it sent this.
        return alert.state != "over"
    return alert.at <= at <= alert.closed_at


def _mark(text: str) -> str:
    """Return a digest of a reason without its numbers, which change with every version."""
    words = " ".join(re.findall(r"[^\W\d]+", text))
    return blake2b(words.encode(), digest_size=6).hexdigest()
