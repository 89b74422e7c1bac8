"""Delivery of the alerts of a fleet: at least once, even if the sending process dies.

An alert is recorded in the ledger before it is sent, with the id of its message, and again after. A process
that dies in between leaves a message with an unknown result: it is sent again, with the same id, by which
PagerDuty, a webhook (`Idempotency-Key`) and mail readers recognize it. One process at a time delivers.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lance_ops.alerts.channels import FleetNotifier, send
from lance_ops.alerts.delivery import Sent, addressed, deliver
from lance_ops.alerts.message import Message
from lance_ops.alerts.row import RULE, UNTOLD, AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.errors import LeaseHeldError
from lance_ops.fleet.alerts.evaluate import WINDOW, evaluate
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look, OperationRow
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.maintenance.text import count_text
from lance_ops.storage.lease import Lease

_FOLDER = "alerts"
_BUDGET_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Result of a delivery of the alerts of a fleet.

    Attributes:
        messages: Number of messages delivered.
        alerts: Number of alerts in them.
        waiting: Number of pending alerts: not delivered yet, waiting for a digest, or within the quiet time.
        errors: Errors of undelivered messages, one line for each rule.
        refused: Recipients that refused messages accepted by others, one line for each rule; these messages
            are not pending.
        busy: Another process is delivering, so nothing was done.
    """

    messages: int = 0
    alerts: int = 0
    waiting: int = 0
    errors: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    busy: bool = False

    def __str__(self) -> str:
        if self.busy:
            return "another process is delivering alerts"
        said = f"told {count_text(self.alerts, 'alert')} in {count_text(self.messages, 'message')}"
        return f"{said}; {self.waiting:,} wait" if self.waiting else said


def tell_alerts(
    policy: FleetPolicy,
    *,
    ledger: FleetLedger | None = None,
    looks: Iterable[Look] | None = None,
    notifiers: Mapping[str, FleetNotifier] | None = None,
    now: datetime | None = None,
    seconds: float = _BUDGET_SECONDS,
) -> Told:
    """Send the alerts of the rules of a policy, once each.

    Args:
        policy: Has `alerts`.
        ledger: Ledger; that of the policy if None.
        looks: Newest observation of each dataset; those of the ledger if None.
        notifiers: Custom notifiers by the names in `to` of rules; they take precedence over built-in ones.
        now: The time, aware; that of this machine if None.
        seconds: No message is started after this time; the rest is left to the next call.

    Raises:
        LanceOpsError: The ledger cannot be read or written. Delivery errors are in the result.
    """
    if not policy.alerts:
        return Told()
    ledger = ledger or FleetLedger.of(policy)
    now = now or datetime.now(UTC)
    try:
        with Lease(ledger.store.child(_FOLDER), f"alerts-{now:%Y%m%dT%H%M%S}") as lease:
            operations = ledger.operations(since=now - WINDOW)
            chosen = list(ledger.latest(with_gone=True).values() if looks is None else looks)
            work = _Delivery(policy, ledger, lease, dict(notifiers or {}), now, time.monotonic() + seconds)
            return work.go(chosen, operations)
    except LeaseHeldError:
        return Told(busy=True)


@dataclass(slots=True)
class _Delivery:
    policy: FleetPolicy
    ledger: FleetLedger
    lease: Lease
    notifiers: Mapping[str, FleetNotifier]
    now: datetime
    end: float

    def go(self, looks: Sequence[Look], operations: Sequence[OperationRow]) -> Told:
        rows: dict[str, dict[str, AlertRow]] = defaultdict(dict)
        for row in self.ledger.alerts(since=self.now - WINDOW):
            rows[row.rule][row.key] = row
        changed: list[AlertRow] = []
        for rule in self.policy.alerts:
            mine = rows[rule.digest_key]
            found = evaluate(self.policy, rule, mine.values(), looks, operations, self.now)
            mine.update({row.key: row for row in found})
            given = {row.key: row for row in addressed(mine.values(), rule, self.now)}
            mine.update(given)
            changed += list(({row.key: row for row in found} | given).values())
        known = {rule.digest_key for rule in self.policy.alerts}
        for name, mine in rows.items():
            if name not in known:
                changed += [_of_removed_rule(row, self.now) for row in mine.values() if row.state != "over"]
        self.ledger.put_alerts(changed)
        sent = Sent()
        for rule in self.policy.alerts:
            self._deliver(rule, rows[rule.digest_key], sent)
        waiting = [
            row for name in known for row in rows[name].values() if row.state in UNTOLD and row.kind != RULE
        ]
        if changed or sent.messages:
            self.ledger.maintain(self.now)
        return Told(
            messages=sent.messages,
            alerts=sent.alerts,
            waiting=len(waiting),
            errors=tuple(sent.errors.values()),
            refused=tuple(sent.refused.values()),
        )

    def _deliver(self, rule: AlertRule, rows: dict[str, AlertRow], sent: Sent) -> None:
        def hand_over(message_id: str, found: tuple[AlertRow, ...]) -> str:
            self.lease.check()
            return send(rule, Message(message_id, found, rule.link, rule.runbook), self.notifiers)

        deliver(rule, rows, hand_over, self.ledger.put_alerts, sent, now=self.now, end=self.end)


def _of_removed_rule(row: AlertRow, now: datetime) -> AlertRow:
    """Return the alerts of removed rules, which are not sent; if the rule returns, unsent ones are new."""
    closed = row.closed_at or (None if row.told_at is None else now)
    return replace(row, state="over", closed_at=closed, message="", tries=0, error="")
