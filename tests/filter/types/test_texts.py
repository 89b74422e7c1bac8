"""Single values to text and back."""

import datetime as dt
import decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.filter.types.texts import (
    format_float,
    read_date,
    read_decimal,
    read_interval,
    read_time,
    read_timestamp,
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_prints_shortest_and_reads_back(value):
    text = format_float(value, 64)
    assert float(text) == value
    assert "e" in text or "." in text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_single_float_reads_back_as_a_single(value):
    assert np.float32(format_float(value, 32)) == np.float32(value)


@given(st.dates())
def test_a_date_reads(date):
    assert read_date(date.isoformat()) == (date - dt.date(1970, 1, 1)).days


@given(st.datetimes(), st.sampled_from(["", "Z", "+02:00", "-0530"]), st.sampled_from("T "))
def test_a_timestamp_reads(moment, suffix, separator):
    offset = {"": 0, "Z": 0, "+02:00": 7200, "-0530": -19_800}[suffix]
    nanos = (moment - dt.datetime.fromisoformat("1970-01-01")) // dt.timedelta(microseconds=1) * 1000
    text = moment.isoformat(separator) + suffix
    assert read_timestamp(text, None) == nanos - offset * 1_000_000_000


def test_a_timestamp_takes_the_zone_of_its_type_or_its_own():
    winter, summer = "2020-01-15 12:00:00", "2020-07-15 12:00:00"
    hour = 3600 * 1_000_000_000
    for text, hours in ((winter, 1), (summer, 2)):
        assert read_timestamp(text, None) - read_timestamp(text, "Europe/Paris") == hours * hour
        assert read_timestamp(f"{text} Europe/Paris", None) == read_timestamp(text, "Europe/Paris")
        assert read_timestamp(f"{text}Z", "Europe/Paris") == read_timestamp(text, "UTC")


@pytest.mark.parametrize(
    "text", ["", "2020", "2020-13-01", "2020-01-32", "0000-01-01", "2020-01-01x", "20-1-1"]
)
def test_what_is_no_date_is_refused(text):
    with pytest.raises(ValueError, match=r"date|year|month|day|zone"):
        read_date(text)


@pytest.mark.parametrize("text", ["", "12", "24:00", "12:60", "12:00:60", "12:00:00Z"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="time"):
        read_time(text)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4), st.integers(0, 6))
def test_a_decimal_is_rounded_half_away_from_zero(number, scale):
    found = read_decimal(str(number), scale)
    step = decimal.Decimal(1).scaleb(-scale)
    with decimal.localcontext(prec=100):
        assert abs(found - number) * 2 <= step
        assert found == found.quantize(step)


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("1 day", (0, 1, 0)),
        ("2 Years 3 months", (27, 0, 0)),
        ("1 week -1 days 90 MINUTES", (0, 6, 5_400_000_000_000)),
        ("1.5 days", (0, 0, 129_600_000_000_000)),
        ("0.25 sec 1 microsecond 5 nanoseconds", (0, 0, 250_001_005)),
    ],
)
def test_an_interval_reads(text, interval):
    assert read_interval(text) == interval


@pytest.mark.parametrize(
    "text", ["", "day", "1", "1 day 2", "one day", "1 fortnight", "0.5 months", "1e300 days"]
)
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(ValueError, match=r"interval|whole number"):
        read_interval(text)
