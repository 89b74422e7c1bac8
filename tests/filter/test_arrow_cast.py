"""arrow_cast and current_date: the peer's answers, and a record that means the same when it is read again."""

import datetime as dt

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import PredicateError
from lance_ops.filter import parse_filter, select
from lance_ops.filter.parse import scope
from lance_ops.filter.types.arrow_names import name_of_type, type_of_name

TODAY = dt.datetime.now(dt.UTC).date()
ROWS = pa.table(
    {
        "id": range(3),
        "i": pa.array([1, 2, None], pa.int64()),
        "s": ["1", "2.50", None],
        "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
        "raw": pa.array([b"ab", b"", None], pa.large_binary()),
        "dec": pa.array(["1.00", "2.50", None]).cast(pa.decimal128(10, 2)),
        "wide": pa.array(["1.00", "2.50", None]).cast(pa.decimal256(50, 2)),
        "us": pa.array([1, 2_000, None], pa.duration("us")),
        "sec": pa.array([1, 2, None], pa.duration("s")),
        "t": pa.array([1, 2, None], pa.timestamp("ns")),
        "zoned": pa.array([1, 2_000_000, None], pa.timestamp("us", "UTC")),
        "day": [dt.date(1970, 1, 2), TODAY, None],
        "large": pa.array(["a", "ab", None], pa.large_utf8()),
    }
)
FILTERS = [
    "dec = arrow_cast(1, 'Decimal128(10, 2)')",
    "arrow_cast(s, 'Decimal128(10, 2)') > 2",
    "wide = arrow_cast('2.50', 'Decimal256(50, 2)')",
    "fixed = arrow_cast(0x6162, 'FixedSizeBinary(2)')",
    "fixed = arrow_cast(X'6364', 'FixedSizeBinary(2)')",
    "fixed = 0x6162",
    "raw = arrow_cast('ab', 'LargeBinary')",
    "arrow_cast(raw, 'Utf8') = 'ab'",
    "us = arrow_cast(2000, 'Duration(Microsecond)')",
    "us >= arrow_cast(1, 'Duration(us)') AND us < arrow_cast(2000, 'Duration(µs)')",  # noqa: RUF001
    "sec IN (arrow_cast(2, 'Duration(Second)'))",
    "us = arrow_cast(2, 'Duration(Millisecond)')",
    "t = arrow_cast(2, 'Timestamp(Nanosecond, None)')",
    "zoned = arrow_cast(2000000, 'Timestamp(Microsecond, Some(\"UTC\"))')",
    "zoned < arrow_cast('1970-01-01T00:00:01', 'Timestamp(us, \"+00:00\")')",
    "arrow_cast(i, 'Int8') = 2 OR arrow_cast(i, 'UInt64') = 1",
    "arrow_cast(i, 'Float32') > 1.5",
    "arrow_cast(i, 'LargeUtf8') = '1'",
    "large = arrow_cast('ab', 'LargeUtf8')",
    "day = arrow_cast(1, 'Date32')",
    "arrow_cast(i, 'Boolean')",
    "arrow_cast(s, 'Dictionary(Int32, Utf8)') = '1'",
    "arrow_cast(NULL, 'Duration(Second)') IS NULL",
    "day = current_date()",
    "day <= current_date AND day >= today()",
    "day < CURRENT_DATE()",
]


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    lance = pytest.importorskip("lance")
    return lance.write_dataset(ROWS, str(tmp_path_factory.mktemp("arrow") / "rows.lance"))


@pytest.mark.peer
@pytest.mark.parametrize("sql", FILTERS)
def test_the_same_rows_as_the_peer_and_a_canonical_text_for_both(peer, sql):
    theirs = peer.to_table(filter=sql)["id"].to_pylist()
    found = parse_filter(sql, ROWS.schema)
    assert ROWS["id"].filter(select(found, ROWS)).to_pylist() == theirs
    canonical = found.to_sql()
    assert "current_date" not in canonical.lower()
    assert parse_filter(canonical, ROWS.schema) == found
    assert peer.to_table(filter=canonical)["id"].to_pylist() == theirs


@pytest.mark.parametrize(
    "name",
    [
        *(
            "int8",
            "string",
            "Nothing",
            "",
            "Decimal128(39, 2)",
            "Decimal128(5)",
            "Decimal128(5, 6)",
            "Time32(us)",
        ),
        *(
            "FixedSizeBinary(0)",
            "FixedSizeBinary(99999999999)",
            "Timestamp(us, UTC)",
            "Duration(h)",
            "Int8(3)",
        ),
        *("List(Int64)", "Interval(DayTime)", "Duration(s, s)", "Decimal512(3, 1)", "FixedSizeBinary(-1)"),
    ],
)
def test_other_types_are_refused_by_name(name):
    assert type_of_name(name) is None
    with pytest.raises(PredicateError, match="cannot cast"):
        parse_filter(f"arrow_cast(i, '{name}') IS NULL", ROWS.schema)


@pytest.mark.parametrize(
    "sql", ["arrow_cast(i, s) = 1", "arrow_cast(i) = 1", "arrow_cast(day, 'Duration(s)') IS NULL"]
)
def test_what_cannot_be_cast_is_refused(sql):
    with pytest.raises(PredicateError):
        parse_filter(sql, ROWS.schema)


@pytest.mark.parametrize(
    "data_type",
    [*(field.type for field in ROWS.schema), pa.time32("s"), pa.time64("ns"), pa.timestamp("ms", "+01:00")],
    ids=str,
)
def test_each_type_has_a_name_that_means_it(data_type):
    name = name_of_type(data_type)
    assert name is not None
    assert type_of_name(name) == data_type


def test_a_column_of_that_name_comes_first():
    table = pa.table({"current_date": [1, 2]})
    assert select(parse_filter("current_date = 2", table.schema), table).to_pylist() == [False, True]


@pytest.mark.parametrize("name", ["now()", "current_timestamp", "random()"])
def test_other_unstable_functions_stay_refused(name):
    with pytest.raises(PredicateError, match="changes from one evaluation"):
        parse_filter(f"t < {name}", ROWS.schema)


def test_a_delete_records_the_day_that_it_meant(tmp_path):
    lo.write_dataset(ROWS, tmp_path)
    lo.delete(tmp_path, "day < current_date() AND i = 1")
    recorded = lo.dataset(tmp_path).read_transaction().operation.predicate
    assert recorded == f"day < DATE '{TODAY.isoformat()}' AND i = 1"
    lo.delete(tmp_path, "i=2  -- as it was written")
    assert lo.dataset(tmp_path).read_transaction().operation.predicate == "i=2  -- as it was written"


def test_one_filter_knows_one_day(monkeypatch):
    class Clock:
        """Every look at it is a day later."""

        UTC, date, looks = dt.UTC, dt.date, 0

        @classmethod
        def now(cls, zone):
            cls.looks += 1
            return dt.datetime(2024, 2, cls.looks, 23, 59, tzinfo=zone)

    Clock.datetime = Clock
    monkeypatch.setattr(scope, "dt", Clock)
    found = parse_filter("current_date() = today() AND day < current_date", ROWS.schema)
    assert found.to_sql() == "TRUE AND day < DATE '2024-02-01'"
    assert Clock.looks == 1
