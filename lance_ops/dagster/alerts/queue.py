"""Failed runs that were told or wait to be told, as the cursor of a sensor.

Dagster offers a failed run once. What a dead webhook did not take is kept here, within bounds: what is too
much or too old is handed back, for the log.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from lance_ops.alerts.values import Alert, CheckAlert, alert_from_dict, alert_to_dict

_SCHEMA = 1
_MOST = 200
_KEPT_SECONDS = 3 * 24 * 3600.0
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Waiting:
    """An alert that was not delivered yet.

    Attributes:
        since: When it came up, in seconds since 1970.
        alert: The alert.
    """

    since: float
    alert: Alert


@dataclass(frozen=True, slots=True)
class AlertCursor:
    """How far a sensor came.

    Attributes:
        after: Storage id of the last event that was looked at; None before the first.
        waiting: What is to be told, in order.
        run_id: Run of that event. When the instance does not know it any more, its log may have been wiped,
            and storage ids begin anew.
        since: Time of that event, or from which on to look for the first, in seconds since 1970.
    """

    after: int | None = None
    waiting: tuple[Waiting, ...] = ()
    run_id: str | None = None
    since: float | None = None

    def with_waiting(self, waiting: Sequence[Waiting], now: float) -> tuple["AlertCursor", list[Alert]]:
        """A copy with another queue, and what it could not hold: the oldest.

        Args:
            waiting: What was not delivered, in the order of the next time.
            now: Seconds since 1970.
        """
        young = [item for item in waiting if now - item.since <= _KEPT_SECONDS]
        kept = sorted(young, key=lambda item: item.since)[-_MOST:]
        dropped = [item.alert for item in waiting if item not in kept]
        return replace(self, waiting=tuple(item for item in waiting if item in kept)), dropped

    def serialize(self) -> str:
        """As text; long messages are cut."""
        waiting = [{"since": item.since, **alert_to_dict(_shortened(item.alert))} for item in self.waiting]
        told = {"after": self.after, "run": self.run_id, "since": self.since}
        return json.dumps({"schema": _SCHEMA, **told, "waiting": waiting}, default=str)


def parse_alert_cursor(text: str | None) -> AlertCursor:
    """Read a cursor. What cannot be understood counts as not remembered."""
    try:
        content = json.loads(text) if text else None
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("schema") != _SCHEMA:
        return AlertCursor()
    entries, run_id, since = content.get("waiting"), content.get("run"), _number(content.get("since"))
    after = _number(content.get("after"))
    found = [_parse_waiting(entry) for entry in (entries if isinstance(entries, list) else ())]
    return AlertCursor(
        None if after is None else int(after),
        tuple(item for item in found if item is not None),
        run_id if isinstance(run_id, str) else None,
        since,
    )


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _parse_waiting(entry: object) -> Waiting | None:
    if not isinstance(entry, dict):
        return None
    since = entry.get("since")
    alert = alert_from_dict({name: value for name, value in entry.items() if name != "since"})
    return None if alert is None or not isinstance(since, int | float) else Waiting(float(since), alert)


def _shortened(alert: Alert) -> Alert:
    if isinstance(alert, CheckAlert):
        return replace(alert, message=alert.message[:_LONGEST_TEXT])
    texts = {
        name: value[:_LONGEST_TEXT]
        for name, value in asdict(alert).items()
        if isinstance(value, str) and len(value) > _LONGEST_TEXT
    }
    return replace(alert, **texts)  # type: ignore[arg-type]  # only texts are replaced
