"""Windows and blackouts by the wall clock of a zone."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.fleet.policy.windows import Blackout, Window, next_opening, open_until

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = (Window("mon-fri", "22-06", "Europe/Berlin"),)


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-11-23 21:59", None),  # Monday
        ("2026-11-23 22:00", "2026-11-24 06:00"),
        ("2026-11-24 05:59", "2026-11-24 06:00"),
        ("2026-11-24 06:00", None),
        ("2026-11-28 03:00", "2026-11-28 06:00"),  # Saturday, of Friday's window
        ("2026-11-28 23:00", None),
        ("2026-11-23 03:00", None),  # Monday, of Sunday's window, which is none
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_begins(at, until):
    assert open_until(berlin(at), NIGHTS) == (None if until is None else berlin(until))


def test_without_windows_it_is_always_open():
    assert open_until(berlin("2026-11-23 12:00"), ()).year == 9999


def test_windows_that_touch_are_one():
    both = (Window("mon", "8-12"), Window("mon", "12-14"))
    assert open_until(datetime(2026, 11, 23, 9, tzinfo=UTC), both) == datetime(2026, 11, 23, 14, tzinfo=UTC)


def test_all_hours_of_all_days_have_no_end():
    assert open_until(datetime(2026, 11, 23, 9, tzinfo=UTC), (Window(),)).year == 9999


def test_a_blackout_closes_a_window():
    closed = (Blackout(date(2026, 11, 24), date(2026, 11, 24), "Europe/Berlin"),)
    assert open_until(berlin("2026-11-23 23:00"), NIGHTS, closed) == berlin("2026-11-24 00:00")
    assert open_until(berlin("2026-11-24 23:00"), NIGHTS, closed) is None
    assert next_opening(berlin("2026-11-24 23:00"), NIGHTS, closed) == berlin("2026-11-25 00:00")


def test_the_hour_that_a_spring_night_lacks_is_not_counted():
    found = open_until(berlin("2026-03-27 23:00"), NIGHTS)
    assert found - berlin("2026-03-27 23:00").astimezone(UTC) == timedelta(hours=7)
    night = berlin("2026-03-30 23:00")
    assert open_until(night, (Window("all", "22-06", "Europe/Berlin"),)) == berlin("2026-03-31 06:00")
    short = datetime(2026, 3, 28, 22, tzinfo=BERLIN)
    end = open_until(short, (Window("all", "22-06", "Europe/Berlin"),))
    assert end.astimezone(UTC) - short.astimezone(UTC) == timedelta(hours=7)


FIRST, LAST = (datetime.fromisoformat(text) for text in ("2026-01-01", "2027-12-31"))
MOMENTS = st.datetimes(FIRST, LAST).map(lambda at: at.replace(tzinfo=UTC))
WINDOWS = st.builds(
    Window,
    st.sampled_from(["all", "mon-fri", "sat,sun", "fri-mon", "wed"]),
    st.sampled_from(["0-24", "22-06", "9-17", "22:30-06:15", "23:59-0"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
)


@given(MOMENTS, st.lists(WINDOWS, min_size=1, max_size=3))
def test_it_is_open_until_it_closes_and_not_longer(at, windows):
    until = open_until(at, windows)
    if until is None:
        opens = next_opening(at, windows)
        assert opens is not None
        assert opens > at
        assert open_until(opens, windows) is not None
    elif until.year < 9999:
        assert open_until(until - timedelta(seconds=1), windows) is not None
        assert open_until(until, windows) is None
