"""Row time-to-live: the predicate is true for the rows that are older, of every type of column."""

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.policy.ttl import RowTTL

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
TYPES = [
    pa.timestamp("s"),
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us", "America/New_York"),
    pa.date32(),
]


@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_rows_of_the_age_and_older_go_and_nulls_stay(tmp_path, data_type):
    ages = [0, 89, 90, 91, 1000]
    times = [NOW - timedelta(days=days) for days in ages]
    if pa.types.is_date(data_type):
        values = [moment.date() for moment in times]
    else:
        values = times if data_type.tz else [moment.replace(tzinfo=None) for moment in times]
    table = pa.table({"n": [*ages, None], "ts": pa.array([*values, None], data_type)})
    uri = str(tmp_path / "t.lance")
    lo.append(uri, table)
    rule = RowTTL.parse("keep where ts > now - 90d")
    lo.delete(uri, rule.predicate(table.schema, NOW))
    assert lo.dataset(uri).to_table()["n"].to_pylist() == [0, 89, None]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_limit_is_an_instant_in_every_time_zone(tmp_path, zone, unit):
    minutes = [-24 * 60, -181, -60, -1, 0, 1, 60, 181, 24 * 60]
    times = [NOW - timedelta(hours=10) + timedelta(minutes=away) for away in minutes]
    table = pa.table({"away": minutes, "ts": pa.array(times, pa.timestamp(unit, zone))})
    uri = str(tmp_path / "t.lance")
    lo.append(uri, table)
    lo.delete(uri, RowTTL.parse("keep where ts > now - 10h").predicate(table.schema, NOW))
    assert lo.dataset(uri).to_table()["away"].to_pylist() == [1, 60, 181, 24 * 60]


def test_equal_rows_may_stay():
    schema = pa.schema([("d", pa.date32())])
    assert RowTTL.parse("d >= now - 1d").predicate(schema, NOW) == "`d` < DATE '2026-11-22'"
    assert date(2026, 11, 22) == (NOW - timedelta(days=1)).date()


def test_a_rule_prints_as_it_is_read():
    rule = RowTTL.parse("ts >= now - 12h")
    assert RowTTL.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "text", ["ts < now - 3d", "now - 3d", "ts > now", "ts > now - 0d", "x = 1", "ts > now - 3 y"]
)
def test_other_rules_are_refused(text):
    with pytest.raises(ValueError, match=r"rule|keeps no row|duration"):
        RowTTL.parse(text)


@pytest.mark.parametrize("age", ["1M", "1 M", "0.5M"])
def test_an_age_of_minutes_or_months_is_refused(age):
    with pytest.raises(ValueError, match=r"minutes or months; write"):
        RowTTL.parse(f"ts > now - {age}")
    assert RowTTL.parse("ts > now - 1m").age == RowTTL.parse("ts > now - 1 MIN").age == timedelta(minutes=1)


@pytest.mark.parametrize(("column", "said"), [("nope", "column 'nope' not found"), ("n", "has type")])
def test_a_column_that_tells_no_time_is_named(column, said):
    with pytest.raises(InvalidArgumentError, match=said):
        RowTTL(column, timedelta(days=1)).predicate(pa.schema([("n", pa.int64())]), NOW)
