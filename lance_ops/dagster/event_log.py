"""The event log as a stream: events stored since the last tick, instead of the newest of each asset.

Dagster returns the newest event of an asset, or check evaluation, with all its metadata; parsing those of a
thousand datasets takes a second. So a sensor reads all once, then the new events, and again a share of all in
each tick, round robin: this finds what a stream does not show, such as wiped events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import dagster as dg

T = TypeVar("T")

TURNS = 10
"""Ticks in which everything is read once."""

_MOST = 2000
"""Events of a tick above which reading the newest ones of all is cheaper."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position in the log.

    Attributes:
        after: Events up to this id are known; None for no event.
        newest: Newest id of the last tick. The next tick starts at the one before it: databases assign ids
            before they store, so a smaller one may appear later.
        turn: Share to read in full next.
    """

    after: int | None = None
    newest: int | None = None
    turn: int = 0

    def to_list(self) -> list[int | None]:
        """Return JSON values."""
        return [self.after, self.newest, self.turn]

    @classmethod
    def from_list(cls, content: object) -> "LogPosition":
        """Read JSON values; invalid ones count as an unread log."""
        found = (
            content if isinstance(content, list) and len(content) == len(cls.__slots__) else [None, None, 0]
        )
        after, newest, turn = (item if type(item) is int and item >= 0 else None for item in found)
        return cls(after, newest, (turn or 0) % TURNS) if newest is not None else cls()

    def share(self, items: Sequence[T]) -> list[T]:
        """Return the share to read in full in this tick."""
        return list(items[self.turn :: TURNS])


def read_since(
    instance: dg.DagsterInstance, position: LogPosition, event_type: dg.DagsterEventType
) -> tuple[Mapping[int, dg.EventLogEntry] | None, LogPosition]:
    """Read new events.

    Args:
        instance: Has the log.
        position: Of the last tick.
        event_type: Type of events.

    Returns:
        Events by id, oldest first, and the position for the next look. None instead of events if the newest
        ones of all must be read: at first, after too many, and after the log was reset.
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
