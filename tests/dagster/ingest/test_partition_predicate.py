"""Each row belongs to exactly one partition, whatever the type of the column."""

from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import IngestRequest
from lance_ops.dagster.ingest.partition_predicate import partition_predicate
from lance_ops.errors import InvalidArgumentError
from lance_ops.filter import parse_filter, select

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


NAMES = [
    *("not", "like", "order", "select", "NOT", "Like", "null", "true", "in", "between", "is", "case", "end"),
    *("date", "timestamp", "interval", "exists", "array", "current_date", "now", "left", "_rowid", "x"),
    *("column with space", "it's", 'say "so"', "back`tick", "``", "a.b", "a.`b`", ".", "1st", "ä", "a-b"),
    *("a\nb", "100%", "x'61'", "0x61"),
]


@pytest.mark.parametrize("name", NAMES)
def test_columns_may_have_any_name(name):
    keys = pa.array(["1", "2", "it's"])
    assert chosen(STATIC, "2", name, pa.table({name: keys, "other": keys})) == [1]
    days = pa.array(["2024-03-30T05", "2024-03-31T05"]).cast(pa.timestamp("us"))
    assert chosen(DAYS, "2024-03-31", name, pa.table({name: days})) == [1]
    quoted = f"`{name.replace('`', '``')}`" if "." in name or "`" in name else name
    inner = pa.StructArray.from_arrays([keys], [name])
    assert chosen(STATIC, "2", f"s.{quoted}", pa.table({"s": inner})) == [1]
    outer = pa.StructArray.from_arrays([keys], ["k"])
    assert chosen(STATIC, "2", f"{quoted}.k", pa.table({name: outer})) == [1]


@pytest.mark.parametrize("names", [("Day", "day"), ("DAY", "Day"), ("order", "Order"), ("NOT", "not")])
def test_columns_that_differ_in_case_alone_are_told_apart(names):
    first, second = names
    table = pa.table({first: ["1", "2"], second: ["2", "1"]})
    assert chosen(STATIC, "2", first, table) == [1]
    assert chosen(STATIC, "2", second, table) == [0]


@pytest.mark.parametrize("column", ["s.", ".s", "s..k", "`s", "s.`k", "`s`k", ""])
def test_what_is_no_path_is_no_column(column):
    with pytest.raises(InvalidArgumentError, match=r"column .* not found"):
        chosen(STATIC, "2", column, pa.table({"s": [{"k": "2"}]}))


CLOCKS = [
    *(("Europe/Berlin", "2024-10-26", "2024-10-29"), ("Europe/Berlin", "2024-03-30", "2024-04-02")),
    *(("America/New_York", "2024-11-02", "2024-11-05"), ("America/New_York", "2024-03-09", "2024-03-12")),
    # At midnight, so that a day begins late, or its last hour or its first comes twice.
    *(("America/Sao_Paulo", "2018-11-03", "2018-11-06"), ("America/Sao_Paulo", "2018-02-16", "2018-02-19")),
    *(("America/Havana", "2024-11-02", "2024-11-05"), ("America/Havana", "2024-03-09", "2024-03-12")),
    # By half an hour; in spring the hourly windows of Dagster itself leave half an hour out there.
    ("Australia/Lord_Howe", "2024-04-06", "2024-04-09"),
]
PATTERNS = ["0 * * * *", "*/15 * * * *", "*/30 * * * *", "0 */2 * * *", "30 */3 * * *", "0 0 * * *"]


@pytest.mark.parametrize(("zone", "start", "end"), CLOCKS)
@pytest.mark.parametrize("cron", PATTERNS)
def test_every_wall_clock_time_is_in_one_partition_when_clocks_are_set(zone, start, end, cron):
    partitions = dg.TimeWindowPartitionsDefinition(
        cron_schedule=cron, start=f"{start}-00:00", end=f"{end}-00:00", timezone=zone, fmt="%Y-%m-%d-%H:%M"
    )
    found = partitions.get_partition_keys()
    first = partitions.time_window_for_partition_key(found[0]).start
    last = partitions.time_window_for_partition_key(found[-1]).end
    # What clocks show, those that they show twice also twice, and those that they skip.
    instants = pa.array(
        [first.astimezone(UTC) + timedelta(minutes=5 * n) for n in range(4 * 24 * 12)],
        pa.timestamp("s", "UTC"),
    )
    shown = pa.compute.local_timestamp(instants.cast(pa.timestamp("s", zone))).to_pylist()
    begin, finish = first.replace(tzinfo=None), last.replace(tzinfo=None)
    every = [begin + timedelta(minutes=5 * n) for n in range(4 * 24 * 12)]
    times = [time for time in [*shown, *every] if begin <= time < finish]
    table = pa.table({"t": pa.array(times, pa.timestamp("s"))})
    rows = [row for key in found for row in chosen(partitions, key, "t", table)]
    assert sorted(rows) == list(range(len(times)))
    # A source that asks for wall-clock times is told the same.
    for key in found:
        low, high = IngestRequest(key, partitions.time_window_for_partition_key(key), None).wall_clock_window
        asked = [row for row, time in enumerate(times) if low <= time < high]
        assert asked == chosen(partitions, key, "t", table)


def test_a_time_that_clocks_show_twice_belongs_to_the_partition_that_shows_it_first():
    hours = dg.HourlyPartitionsDefinition("2024-10-27-00:00", end_date="2024-10-27-05:00", timezone=BERLIN)
    table = pa.table(
        {"t": pa.array([f"2024-10-27T0{hour}:30" for hour in (1, 2, 2, 3)]).cast(pa.timestamp("us"))}
    )
    assert chosen(hours, "2024-10-27-01:00", "t", table) == [0]
    assert chosen(hours, "2024-10-27-02:00", "t", table) == [1, 2]
    assert chosen(hours, "2024-10-27-02:00+0100", "t", table) == []
    assert chosen(hours, "2024-10-27-03:00", "t", table) == [3]


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
        (DAYS, "2024-03-31", pa.array([1]), "keys as string or number"),
        (HOURS, "2024-03-31-01:00", pa.array([date(2024, 3, 31)]), "starts or ends at"),
        (STATIC, "it's", pa.array([1]), "is not a value"),
        (STATIC, "1", pa.array([1.5]), "keys must be strings"),
        (STATIC, "1", pa.array([True]), "is not a value"),
    ],
)
def test_columns_that_cannot_tell_a_partition_are_refused(partitions, key, column, message):
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        partition_predicate(partitions, key, "k", pa.schema([("k", column.type)]))
    assert "replace_where" in caught.value.hint
    with pytest.raises(InvalidArgumentError, match="column 'z' not found"):
        partition_predicate(partitions, key, "z", pa.schema([("k", column.type)]))


@pytest.mark.parametrize(
    ("form", "key", "values"), [("%Y", "2024", [2023, 2024, 2025]), ("%Y%m%d", "20240101", [0, 20240101, 3])]
)
def test_a_column_of_numbers_may_have_the_keys_of_times(form, key, values):
    years = dg.TimeWindowPartitionsDefinition(start=key, fmt=form, cron_schedule="0 0 1 1 *")
    for kind in (pa.int16() if form == "%Y" else pa.int32(), pa.int64(), pa.uint64()):
        assert chosen(years, key, "k", pa.table({"k": pa.array(values, kind)})) == [1]


@pytest.mark.parametrize("key", ["true", "True", "FALSE"])
def test_a_column_of_booleans_has_two_partitions(key):
    flags = dg.StaticPartitionsDefinition(["true", "True", "FALSE"])
    wanted = key.lower() == "true"
    assert chosen(flags, key, "k", pa.table({"k": [not wanted, wanted, None]})) == [1]
