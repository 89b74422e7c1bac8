"""The event log as a stream: what was stored since a sensor looked, in place of all that is known.

Dagster hands out the newest event of an asset, or evaluation of a check, with all its metadata, and to parse
those of a thousand datasets takes a second. So a sensor reads them once, then what came since, and a share of
them anew in each tick, in turn: that finds what a stream does not tell, such as events that were wiped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import dagster as dg

T = TypeVar("T")

TURNS = 10
"""Ticks in which everything is read anew."""

_MOST = 2000
"""Events of a tick above which it costs less to read the newest ones of all."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far the log was read.

    Attributes:
        after: What was stored under ids up to this one is known; None when nothing is.
        newest: Newest id at the last look. The next look begins at the look before it all the same: databases
            give out ids before they store, so a smaller one may show up later.
        turn: Which share is read anew next.
    """

    after: int | None = None
    newest: int | None = None
    turn: int = 0

    def to_list(self) -> list[int | None]:
        """As JSON values."""
        return [self.after, self.newest, self.turn]

    @classmethod
    def from_list(cls, content: object) -> "LogPosition":
        """From JSON values; what cannot be understood is as nothing read."""
        found = (
            content if isinstance(content, list) and len(content) == len(cls.__slots__) else [None, None, 0]
        )
        after, newest, turn = (item if type(item) is int and item >= 0 else None for item in found)
        return cls(after, newest, (turn or 0) % TURNS) if newest is not None else cls()

    def share(self, items: Sequence[T]) -> list[T]:
        """What is to be read anew, whatever the stream tells."""
        return list(items[self.turn :: TURNS])


def read_since(
    instance: dg.DagsterInstance, position: LogPosition, event_type: dg.DagsterEventType
) -> tuple[Mapping[int, dg.EventLogEntry] | None, LogPosition]:
    """Read what is new.

    Args:
        instance: With the log.
        position: From the last look.
        event_type: Which events.

    Returns:
        Events by id, oldest first, and the position for the next look. None in place of the events when the
        newest ones of all have to be read: at first, after too many, and when the log has begun anew.
    """
    storage = instance.event_log_storage
    try:
        newest = storage.get_maximum_record_id() or 0
        if newest < (position.newest or 0):
            position = LogPosition()
        following = LogPosition(position.newest, newest, (position.turn + 1) % TURNS)
        if position.after is None:
            return None, following
        found = storage.get_logs_for_all_runs_by_log_id(
            after_cursor=position.after, dagster_event_type=event_type, limit=_MOST
        )
    except NotImplementedError:
        return None, LogPosition()
    return (None if len(found) >= _MOST else found), following
