"""Each row belongs to exactly one partition, whatever the type of the column."""

from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster.partition_predicate import partition_predicate
from lance_ops.errors import InvalidArgumentError
from lance_ops.table.filter import parse_filter, select

BERLIN = "Europe/Berlin"
DAYS = dg.DailyPartitionsDefinition(start_date="2024-03-30", end_date="2024-04-02", timezone=BERLIN)
HOURS = dg.HourlyPartitionsDefinition(start_date="2024-03-31-00:00", end_date="2024-04-01-00:00")
STATIC = dg.StaticPartitionsDefinition(["1", "2", "it's"])


def chosen(partitions, key, columns, table) -> list[int]:
    batch = table.to_batches()[0]
    predicate = partition_predicate(partitions, key, columns, batch.schema)
    mask = select(parse_filter(predicate, batch.schema), batch).to_pylist()
    return [number for number, found in enumerate(mask) if found]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", BERLIN, "America/New_York", "+05:30"])
def test_every_instant_is_in_the_day_of_the_partitions_own_time_zone(unit, zone):
    # Quarters of an hour over three days, one of which has 23 hours.
    start = datetime(2024, 3, 29, 22, tzinfo=UTC)
    instants = [start + timedelta(minutes=15 * number) for number in range(4 * 80)]
    values = pa.array(instants, pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, BERLIN))
    local = pa.compute.local_timestamp(values)
    column = local if zone is None else values.cast(pa.timestamp(unit, zone))
    table = pa.table({"t": column})
    days = [moment.date().isoformat() for moment in local.to_pylist()]
    for key in DAYS.get_partition_keys():
        expected = [number for number, day in enumerate(days) if day == key]
        assert chosen(DAYS, key, "t", table) == expected
        assert expected


def test_dates_are_days_and_texts_are_keys():
    days = [date(2024, 3, 30) + timedelta(days=number) for number in range(3)]
    for kind in (pa.date32(), pa.date64()):
        table = pa.table({"t": pa.array(days, kind)})
        assert [chosen(DAYS, key, "t", table) for key in DAYS.get_partition_keys()] == [[0], [1], [2]]
    texts = pa.array([day.isoformat() for day in days])
    for column in (texts, texts.cast(pa.large_string()), texts.dictionary_encode()):
        found = [chosen(DAYS, key, "t", pa.table({"t": column})) for key in DAYS.get_partition_keys()]
        assert found == [[0], [1], [2]]


def test_static_keys_are_texts_numbers_or_dates():
    assert chosen(STATIC, "it's", "k", pa.table({"k": ["1", "it's", None]})) == [1]
    assert chosen(STATIC, "2", "k", pa.table({"k": pa.array([1, 2, None], pa.int8())})) == [1]
    days = dg.StaticPartitionsDefinition(["2024-01-02"])
    assert chosen(days, "2024-01-02", "k", pa.table({"k": [date(2024, 1, 2), None]})) == [0]


def test_names_may_be_paths_and_need_not_be_plain():
    table = pa.table({"s": [{"a b": 1}, {"a b": 2}], "Tag": [1, 2]})
    assert chosen(STATIC, "2", "s.a b", table) == [1]
    assert chosen(STATIC, "2", "Tag", table) == [1]


def test_dimensions_have_a_column_each():
    grid = dg.MultiPartitionsDefinition({"day": DAYS, "shop": STATIC})
    days = pa.array([date(2024, 3, 30)] * 2 + [date(2024, 3, 31)] * 2)
    table = pa.table({"d": days, "s": ["1", "2", "1", "2"]})
    key = dg.MultiPartitionKey({"day": "2024-03-31", "shop": "1"})
    assert chosen(grid, key, {"day": "d", "shop": "s"}, table) == [2]
    with pytest.raises(InvalidArgumentError, match="shop"):
        chosen(grid, key, {"day": "d"}, table)
    with pytest.raises(InvalidArgumentError, match="each of them"):
        chosen(grid, key, "d", table)


@pytest.mark.parametrize(
    ("partitions", "key", "column", "message"),
    [
        (DAYS, "2024-03-31", pa.array([1]), "text"),
        (HOURS, "2024-03-31-01:00", pa.array([date(2024, 3, 31)]), "begins or ends at"),
        (STATIC, "it's", pa.array([1]), "no value of it"),
        (STATIC, "1", pa.array([1.5]), "keys are texts"),
    ],
)
def test_columns_that_cannot_tell_a_partition_are_refused(partitions, key, column, message):
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        partition_predicate(partitions, key, "k", pa.schema([("k", column.type)]))
    assert "replace_where" in caught.value.hint
    with pytest.raises(InvalidArgumentError, match="no column 'z'"):
        partition_predicate(partitions, key, "z", pa.schema([("k", column.type)]))
