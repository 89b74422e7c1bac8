"""Windows and blackouts of maintenance, by the wall clock of a time zone."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from lance_ops.errors import InvalidArgumentError
from lance_ops.storage.fork_safe import cached_property

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*-\s*(\d{1,2})(?::(\d{2}))?")
_AHEAD = 9


def parse_days(text: str) -> frozenset[int]:
    """Parse `mon-fri`, `sat,sun`, `all`; 0 is Monday.

    Raises:
        ValueError: It is not a list of days.
    """
    if text.strip().lower() == "all":
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.lower().split(","):
        first, dash, last = (name.strip() for name in part.partition("-"))
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"{part.strip()!r} is not a day; write for example mon-fri or sat,sun")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        found |= {day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)}
    return frozenset(found)


def parse_hours(text: str) -> tuple[int, int]:
    """Parse `22-06`, `22:30-06:00` or `0-24` into minutes of the day.

    Raises:
        ValueError: It is not a span of hours.
    """
    match = _HOURS.fullmatch(text.strip())
    if match is not None:
        begin, end = (int(match[i]) * 60 + int(match[i + 1] or 0) for i in (1, 3))
        minutes = (int(match[i] or 0) for i in (2, 4))
        if begin < 1440 and end <= 1440 and begin != end and all(minute < 60 for minute in minutes):
            return begin, end
    raise ValueError(f"{text!r} is not a span of hours; write for example 22-06, 22:30-06:00 or 0-24")


@dataclass(frozen=True)
class Window:
    """Hours of some days of each week.

    Attributes:
        days: Days on which it starts: `mon-fri`, `sat,sun`, `all`.
        hours: `22-06`, `22:30-06:00`, `0-24`; if the end is before the start, it is on the next day.
        timezone: Name of the zone, such as `Europe/Berlin`.
    """

    days: str = "all"
    hours: str = "0-24"
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            parse_days(self.days)
            parse_hours(self.hours)
        except ValueError as error:
            raise InvalidArgumentError(str(error), field="windows") from error
        _ = check_zone(self.timezone)

    @cached_property
    def _zone(self) -> ZoneInfo:
        return check_zone(self.timezone)

    def spans(self, begin: datetime, days: int = _AHEAD) -> Iterator[tuple[datetime, datetime]]:
        """Return start and end of the windows from the day before a time on."""
        first, last = parse_hours(self.hours)
        chosen = parse_days(self.days)
        today = begin.astimezone(self._zone).date()
        for offset in range(-1, days):
            day = today + timedelta(days=offset)
            if day.weekday() in chosen:
                closes = day if last > first else day + timedelta(days=1)
                yield _moment(day, first, self._zone), _moment(closes, last, self._zone)

    def __str__(self) -> str:
        return f"{self.days} {self.hours} {self.timezone}"


@dataclass(frozen=True)
class Blackout:
    """Calendar days without maintenance.

    Attributes:
        first: First day.
        last: Last day, inclusive.
        timezone: Name of the time zone of the days.
    """

    first: date
    last: date
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        _ = check_zone(self.timezone)
        if self.last < self.first:
            raise InvalidArgumentError(
                f"the blackout ends on {self.last}, before it starts", field="blackouts"
            )

    def span(self) -> tuple[datetime, datetime]:
        """Return start and end."""
        zone = check_zone(self.timezone)
        return _both_folds(_moment(self.first, 0, zone), _moment(self.last + timedelta(days=1), 0, zone))

    def __str__(self) -> str:
        return f"{self.first} to {self.last} {self.timezone}"


def check_zone(name: str) -> ZoneInfo:
    """Return the time zone with a name.

    Raises:
        InvalidArgumentError: It does not exist.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidArgumentError(
            f"unknown time zone {name!r}", field="timezone", hint="write for example Europe/Berlin"
        ) from error


def open_until(
    at: datetime, windows: Sequence[Window], blackouts: Sequence[Blackout | Window] = ()
) -> datetime | None:
    """Return the time until which maintenance may run without a break.

    Args:
        at: A time, aware.
        windows: When it may run; always if empty.
        blackouts: When it may not, in spite of windows.

    Returns:
        None if it may not run at that time; `datetime.max` in UTC without a known end.
    """
    # Times of one zone are compared by their wall clock, which repeats an hour.
    at = at.astimezone(UTC)
    until = at
    if windows:
        spans = sorted(span for window in windows for span in window.spans(at))
        for begin, end in spans:
            if begin <= until < end:
                until = end
        if until == at:
            return None
        # Windows that stay open for more than a week have no end.
        if (until - at).days >= _AHEAD - 2:
            until = datetime.max.replace(tzinfo=at.tzinfo)
    else:
        until = datetime.max.replace(tzinfo=at.tzinfo)
    for begin, end in (span for item in blackouts for span in _spans(item, at)):
        if begin <= at < end:
            return None
        if at < begin < until:
            until = begin
    return until


def next_opening(
    at: datetime, windows: Sequence[Window], blackouts: Sequence[Blackout | Window] = ()
) -> datetime | None:
    """Return when maintenance may run again: `at` itself if it may, None if not within a week or so."""
    at = at.astimezone(UTC)
    moments = {at}
    moments |= {begin for window in windows for begin, _ in window.spans(at)}
    moments |= {end for item in blackouts for _, end in _spans(item, at)}
    for moment in sorted(moments):
        if moment >= at and open_until(moment, windows, blackouts) is not None:
            return moment
    return None


def _spans(item: Blackout | Window, at: datetime) -> Iterator[tuple[datetime, datetime]]:
    if isinstance(item, Blackout):
        yield item.span()
    else:
        for begin, end in item.spans(at):
            yield _both_folds(begin, end)


def _both_folds(begin: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Return the span of a blackout, extended where its wall-clock times are ambiguous."""

    def moment(item: datetime) -> datetime:
        return item.astimezone(UTC)

    return (
        min(begin, begin.replace(fold=1), key=moment),
        max(end, end.replace(fold=1), key=moment),
    )


def _moment(day: date, minutes: int, zone: ZoneInfo) -> datetime:
    """Return a time of a day by the wall clock, also on days of 23 or 25 hours."""
    if minutes == 1440:
        day, minutes = day + timedelta(days=1), 0
    return datetime.combine(day, time(minutes // 60, minutes % 60), tzinfo=zone)
