"""Telling: what the ledger knows, as messages, each delivered, however often whoever delivers dies.

What has to be told is in the ledger before anybody is told, with the id of its message; that it was told is
there afterwards. A process that dies in between leaves a message of which nobody knows whether it arrived: it
is sent again, with the same id, by which PagerDuty, a webhook (`Idempotency-Key`) and mail readers know it.
One process at a time delivers.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b

from lance_ops.alerts.channels import FleetNotifier, send
from lance_ops.alerts.message import Message
from lance_ops.alerts.row import AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.errors import AlertNotDeliveredError, LeaseHeldError
from lance_ops.fleet.alerts.evaluate import RULE, UNTOLD, WINDOW, evaluate, quiet_until
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look, OperationRow
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.maintenance.text import count_text
from lance_ops.storage.lease import Lease

_log = logging.getLogger("lance_ops.fleet.alerts")

_FOLDER = "alerts"
_BUDGET_SECONDS = 30.0
_FAILURES_IN_A_ROW = 3
_MOST_MESSAGES = 10
_TOLD = {"waiting": "open", "passed": "over", "mended": "over"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of the alerts of a fleet.

    Attributes:
        messages: That were delivered.
        alerts: In them.
        waiting: Alerts that wait: to be delivered at last, for a digest, or since the same was told lately.
        errors: Why messages were not delivered, one line for each rule.
        refused: Which recipients refused messages that others have, one line for each rule; these messages
            do not wait.
        busy: Somebody else delivers at the moment, so nothing was done.
    """

    messages: int = 0
    alerts: int = 0
    waiting: int = 0
    errors: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    busy: bool = False

    def __str__(self) -> str:
        if self.busy:
            return "somebody else delivers alerts at the moment"
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
    """Tell people what the rules of a policy say, each thing once.

    Args:
        policy: With `alerts`.
        ledger: That of the policy when None.
        looks: The newest at each dataset; those of the ledger when None.
        notifiers: By the names that rules give under `to`, before those that are built in.
        now: The time, aware; that of this machine when None.
        seconds: No message is begun with after so long; the rest is left to the next call.

    Raises:
        LanceOpsError: The ledger cannot be read or written. What could not be delivered is in the result.
    """
    if not policy.alerts:
        return Told()
    ledger = ledger or FleetLedger.of(policy)
    now = now or datetime.now(UTC)
    try:
        with Lease(ledger.store.child(_FOLDER), f"alerts-{now:%Y%m%dT%H%M%S}") as lease:
            operations = ledger.operations(since=now - WINDOW)
            chosen = list(ledger.latest(with_gone=True).values() if looks is None else looks)
            work = _Telling(policy, ledger, lease, dict(notifiers or {}), now, time.monotonic() + seconds)
            return work.go(chosen, operations)
    except LeaseHeldError:
        return Told(busy=True)


@dataclass(slots=True)
class _Telling:
    policy: FleetPolicy
    ledger: FleetLedger
    lease: Lease
    notifiers: Mapping[str, FleetNotifier]
    now: datetime
    end: float
    messages: int = 0
    alerts: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def go(self, looks: Sequence[Look], operations: Sequence[OperationRow]) -> Told:
        rows: dict[str, dict[str, AlertRow]] = defaultdict(dict)
        for row in self.ledger.alerts(since=self.now - WINDOW):
            rows[row.rule][row.key] = row
        changed: list[AlertRow] = []
        for rule in self.policy.alerts:
            mine = rows[rule.digest_key]
            found = evaluate(self.policy, rule, mine.values(), looks, operations, self.now)
            mine.update({row.key: row for row in found})
            addressed = {row.key: row for row in _addressed(mine.values(), rule, self.now)}
            mine.update(addressed)
            changed += list(({row.key: row for row in found} | addressed).values())
        known = {rule.digest_key for rule in self.policy.alerts}
        for name, mine in rows.items():
            if name not in known:
                changed += [_of_no_rule(row, self.now) for row in mine.values() if row.state != "over"]
        self.ledger.put_alerts(changed)
        for rule in self.policy.alerts:
            self._deliver(rule, rows[rule.digest_key])
        waiting = [
            row for name in known for row in rows[name].values() if row.state in UNTOLD and row.kind != RULE
        ]
        if changed or self.messages:
            self.ledger.maintain(self.now)
        return Told(
            messages=self.messages,
            alerts=self.alerts,
            waiting=len(waiting),
            errors=tuple(self.errors.values()),
            refused=tuple(self.refused.values()),
        )

    def _deliver(self, rule: AlertRule, rows: dict[str, AlertRow]) -> None:
        messages: dict[str, list[AlertRow]] = defaultdict(list)
        for row in rows.values():
            if row.state in UNTOLD and row.message:
                messages[row.message].append(row)
        refused: list[AlertRow] = []
        in_a_row = 0
        # What was refused least often comes first, so that it is not kept back by the rest.
        ordered = sorted(
            messages.items(), key=lambda item: (max(r.tries for r in item[1]), min(r.at for r in item[1]))
        )
        for message_id, found in ordered:
            if in_a_row >= _FAILURES_IN_A_ROW or time.monotonic() >= self.end:
                break
            self.lease.check()
            message = Message(message_id, tuple(found), rule.link, rule.runbook)
            try:
                remark = send(rule, message, self.notifiers)
            except AlertNotDeliveredError as error:
                said = str(error)
                _log.warning("alerts have to wait: %s", said)
                self.errors[rule.digest_key] = said
                refused += [replace(row, tries=row.tries + 1, error=error.message) for row in found]
                in_a_row += 1
                continue
            in_a_row = 0
            if remark:
                _log.warning("not everybody was told: %s", remark)
                self.refused[rule.digest_key] = remark
            told = [_told(row, self.now) for row in found]
            self.ledger.put_alerts(told)
            rows.update({row.key: row for row in told})
            self.messages += 1
            self.alerts += len(told)
        self.ledger.put_alerts(refused)
        rows.update({row.key: row for row in refused})


def _told(row: AlertRow, now: datetime) -> AlertRow:
    # The columns that were told of are what the next ones are compared with.
    state = "seen" if row.kind == "schema" else _TOLD[row.state]
    return replace(row, state=state, told_at=now, message="", tries=0, error="")


def _of_no_rule(row: AlertRow, now: datetime) -> AlertRow:
    """Nobody is told by a rule that is there no more; should it come back, what it did not tell is news."""
    closed = row.closed_at or (None if row.told_at is None else now)
    return replace(row, state="over", closed_at=closed, message="", tries=0, error="")


def _addressed(rows: Iterable[AlertRow], rule: AlertRule, now: datetime) -> list[AlertRow]:
    """What may be told by now and is in no message yet, each with the id of one."""
    all_rows = list(rows)
    by_dataset: dict[str, list[AlertRow]] = defaultdict(list)
    for row in all_rows:
        by_dataset[row.dataset].append(row)
    by_owner: dict[str | None, list[AlertRow]] = defaultdict(list)
    for row in all_rows:
        if row.state in UNTOLD and not row.message and row.kind != RULE:
            until = None if row.state == "mended" else quiet_until(row, by_dataset, rule)
            if until is None or until <= now:
                by_owner[row.owner].append(row)
    found: list[AlertRow] = []
    for owner, mine in by_owner.items():
        if rule.digest is not None and _was_told(all_rows, owner, now - rule.digest):
            continue
        groups: dict[tuple[str, ...], list[AlertRow]] = defaultdict(list)
        for row in mine:
            groups[(str(row.state == "mended"), row.kind, row.cause)].append(row)
        if rule.digest is not None or len(groups) > _MOST_MESSAGES:
            groups = {("",): mine}
        for group in groups.values():
            text = "\n".join(sorted(f"{row.key} {row.state == 'mended'}" for row in group))
            message = f"alert-{blake2b(text.encode(), digest_size=12).hexdigest()}"
            found += [replace(row, message=message) for row in group]
    return found


def _was_told(rows: Iterable[AlertRow], owner: str | None, since: datetime) -> bool:
    return any(row.owner == owner and row.told_at is not None and row.told_at > since for row in rows)
