"""Deliver the alerts of a rule: once each, grouped, delayed or collected as the rule says.

Rows record the state of each alert for each rule, so a failing receiver does not delay the others.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b

from lance_ops.alerts.row import RULE, UNTOLD, AlertRow
from lance_ops.alerts.rule import AlertRule
from lance_ops.errors import AlertNotDeliveredError

_log = logging.getLogger("lance_ops.alerts.delivery")

_FAILURES_IN_A_ROW = 3
_MOST_MESSAGES = 10
_DELIVERED = {"waiting": "open", "passed": "over", "mended": "over"}


@dataclass(slots=True)
class Sent:
    """Result of a delivery.

    Attributes:
        messages: Number of messages delivered.
        alerts: Number of alerts in them.
        errors: Last error of each rule with undelivered messages.
        refused: Recipients that refused messages that others accepted, for each rule.
    """

    messages: int = 0
    alerts: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def deliver(
    rule: AlertRule,
    rows: dict[str, AlertRow],
    hand_over: Callable[[str, tuple[AlertRow, ...]], str],
    save: Callable[[Sequence[AlertRow]], None],
    sent: Sent,
    *,
    now: datetime,
    end: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Deliver the messages of a rule, until the deadline or until its receiver seems to be down.

    Args:
        rule: The rule.
        rows: Its alerts by key, see `addressed`; changed in place.
        hand_over: Sends the alerts of one message, given its id; returns the recipients that refused it when
            others accepted it.
        save: Keeps changed rows; called after each message.
        sent: Result of all rules; updated in place.
        now: The time, aware.
        end: No message is started after this time of `clock`.
        clock: Replaces `time.monotonic` in tests.
    """
    messages: dict[str, list[AlertRow]] = defaultdict(list)
    for row in rows.values():
        if row.state in UNTOLD and row.message:
            messages[row.message].append(row)
    refused: list[AlertRow] = []
    in_a_row = 0
    # Messages with the fewest failed attempts come first, so that the others do not delay them.
    ordered = sorted(
        messages.items(), key=lambda item: (max(r.tries for r in item[1]), min(r.at for r in item[1]))
    )
    for message_id, found in ordered:
        if in_a_row >= _FAILURES_IN_A_ROW or clock() >= end:
            break
        try:
            remark = hand_over(message_id, tuple(found))
        except AlertNotDeliveredError as error:
            said = str(error)
            _log.warning("alerts not sent, will be retried: %s", said)
            sent.errors[rule.digest_key] = said
            refused += [replace(row, tries=row.tries + 1, error=error.message) for row in found]
            in_a_row += 1
            continue
        in_a_row = 0
        if remark:
            _log.warning("some recipients refused a message: %s", remark)
            sent.refused[rule.digest_key] = remark
        delivered = [_delivered(row, now) for row in found]
        rows.update({row.key: row for row in delivered})
        save(delivered)
        sent.messages += 1
        sent.alerts += len(delivered)
    rows.update({row.key: row for row in refused})
    save(refused)


def _delivered(row: AlertRow, now: datetime) -> AlertRow:
    # The reported columns are the reference for the next comparison.
    state = "seen" if row.kind == "schema" else _DELIVERED[row.state]
    return replace(row, state=state, told_at=now, message="", tries=0, error="")


def addressed(rows: Iterable[AlertRow], rule: AlertRule, now: datetime) -> list[AlertRow]:
    """Return the alerts that may be sent now and have no message yet, each with a message id.

    Args:
        rows: Of the rule.
        rule: The rule.
        now: The time, aware.
    """
    all_rows = list(rows)
    by_dataset: dict[str, list[AlertRow]] = defaultdict(list)
    for row in all_rows:
        by_dataset[row.dataset].append(row)
    by_owner: dict[str | None, list[AlertRow]] = defaultdict(list)
    for row in all_rows:
        if row.state in UNTOLD and not row.message and row.kind != RULE:
            until = None if row.state == "mended" else _quiet_until(row, by_dataset, rule)
            if until is None or until <= now:
                by_owner[row.owner].append(row)
    found: list[AlertRow] = []
    for owner, mine in by_owner.items():
        if rule.digest is not None and _was_sent(all_rows, owner, now - rule.digest):
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


def _was_sent(rows: Iterable[AlertRow], owner: str | None, since: datetime) -> bool:
    return any(row.owner == owner and row.told_at is not None and row.told_at > since for row in rows)


def _quiet_until(row: AlertRow, rows: Mapping[str, Sequence[AlertRow]], rule: AlertRule) -> datetime | None:
    """Return the end of the quiet time after an equal alert; None without one.

    Args:
        row: An alert that waits to be sent.
        rows: Of the rule, by dataset.
        rule: The rule.
    """
    told = [
        other.told_at
        for other in rows.get(row.dataset, ())
        if other.key != row.key
        and (other.kind, other.cause) == (row.kind, row.cause)
        and other.told_at is not None
    ]
    return max(told) + rule.quiet if told else None
