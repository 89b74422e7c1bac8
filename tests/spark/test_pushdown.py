"""Filters from Spark: the same rows as Spark itself would select, or left to Spark."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark_filters
from pyspark.sql.functions import expr

from lance_ops.filter import select
from lance_ops.filter.junctions import all_of
from lance_ops.spark.convert import to_spark
from lance_ops.spark.pushdown import push_filters
from lance_ops.spark.types import spark_schema

NAN = float("nan")
MOMENTS = [0, -1, 1, 999, 1000, -1000, -1001, 1_000_000_001, -86_400_000_000_001, None]
OPERATORS = {
    "=": spark_filters.EqualTo,
    "<=>": spark_filters.EqualNullSafe,
    "<": spark_filters.LessThan,
    "<=": spark_filters.LessThanOrEqual,
    ">": spark_filters.GreaterThan,
    ">=": spark_filters.GreaterThanOrEqual,
}


def nans(kind: type, data_type: pa.DataType) -> list:
    """NaN with the sign bit, as x86 makes it of 0/0, and NaN with other bits than the usual ones."""
    bits = {
        np.float32: (np.uint32, 0xFFC00000, 0x7FC00001),
        np.float64: (np.uint64, 0xFFF8 << 48, (0x7FF8 << 48) + 1),
    }
    word, *patterns = bits[kind]
    return [pa.array(np.array([pattern], word).view(kind), data_type)[0] for pattern in patterns]


def column(values: list, data_type: pa.DataType) -> pa.Array:
    """The values over and over, always the same number of rows."""
    return pa.array([values[row % len(values)] for row in range(60)], data_type)


DATA = pa.record_batch(
    {
        "flag": column([True, False, None], pa.bool_()),
        "small": column([0, 1, 255, None], pa.uint8()),
        "big": column([2**64 - 1, 0, 7, None], pa.uint64()),
        "number": column([-5, 0, 5, None, 2**40], pa.int64()),
        "single": column(
            [0.1, -0.0, 0.0, NAN, float("inf"), None, -3.5, *nans(np.float32, pa.float32())], pa.float32()
        ),
        "double": column(
            [0.1, -0.0, 0.0, NAN, float("-inf"), None, 1e300, *nans(np.float64, pa.float64())], pa.float64()
        ),
        "price": column([Decimal("1.10"), Decimal("-2.00"), None], pa.decimal128(10, 2)),
        "text": column(["", "a", "ab", "b%_\\'", "é", "日本", None], pa.large_string()),
        "word": pa.array(column(["x", "yy", None], pa.string())).dictionary_encode(),
        "raw": column([b"", b"\x00", b"\xff\x01", None], pa.binary()),
        "day": column([dt.date(1969, 12, 31), dt.date(2024, 2, 29), None], pa.date32()),
        "day64": column([-86_400_000, 0, 86_400_000, None], pa.date64()),
        "nanos": column(MOMENTS, pa.timestamp("ns")),
        "zoned_nanos": column(MOMENTS, pa.timestamp("ns", "Europe/Paris")),
        "micros": column(MOMENTS, pa.timestamp("us")),
        "seconds": column([0, -1, 1, 1_700_000_000, None], pa.timestamp("s")),
        "nested": pa.StructArray.from_arrays(
            [column([1, 2, None], pa.int32())],
            ["in side"],
            mask=pa.array([row % 5 == 0 for row in range(60)]),
        ),
    }
)

# Column, values as Spark hands them over, the same values in SQL.
LITERALS: list[tuple[str, list, list[str]]] = [
    ("flag", [True, False], ["true", "false"]),
    ("small", [1, 255], ["1S", "255S"]),
    ("big", [Decimal(7), Decimal(2**64 - 1)], [f"cast({n} as decimal(20,0))" for n in (7, 2**64 - 1)]),
    ("number", [0, 2**40, -6], ["0L", f"{2**40}L", "-6L"]),
    (
        "single",
        [float(np.float32(0.1)), 0.0, -0.0, NAN, float("inf")],
        [f"cast('{text}' as float)" for text in ("0.1", "0", "-0.0", "nan", "inf")],
    ),
    (
        "double",
        [0.1, 0.0, -0.0, NAN, float("-inf")],
        [f"cast('{text}' as double)" for text in ("0.1", "0", "-0.0", "nan", "-inf")],
    ),
    (
        "price",
        [Decimal("1.1"), Decimal("-2.00"), 3],
        ["cast(1.10 as decimal(10,2))", "cast(-2 as decimal(10,2))", "cast(3 as decimal(10,2))"],
    ),
    ("text", ["", "ab", "b%_\\'", "é"], ["''", "'ab'", r"'b%_\\\''", "'é'"]),
    ("word", ["x", "z"], ["'x'", "'z'"]),
    ("raw", [b"", b"\xff"], ["X''", "X'FF'"]),
    ("day", [dt.date(1969, 12, 31), dt.date(2000, 1, 1)], ["date'1969-12-31'", "date'2000-01-01'"]),
    ("day64", [dt.date(1970, 1, 1), dt.date(1970, 1, 2)], ["date'1970-01-01'", "date'1970-01-02'"]),
    *(
        (
            name,
            [
                dt.datetime(1970, 1, 1, tzinfo=zone),
                dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=zone),
                dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=zone),
                dt.datetime(1969, 12, 30, 23, 59, 59, 999_999, tzinfo=zone),
            ],
            [
                f"{kind}'{text}'"
                for text in (
                    "1970-01-01",
                    "1969-12-31 23:59:59.999999",
                    "1970-01-01 00:00:01",
                    "1969-12-30 23:59:59.999999",
                )
            ],
        )
        for name, kind, zone in (
            ("nanos", "timestamp_ntz", None),
            ("zoned_nanos", "timestamp", dt.UTC),
            ("micros", "timestamp_ntz", None),
            ("seconds", "timestamp_ntz", None),
        )
    ),
    ("nested.in side", [1, 3], ["1", "3"]),
]


def conditions() -> list[tuple[str, spark_filters.Filter]]:
    """SQL of Spark, and the filter that Spark makes of it."""
    found: list[tuple[str, spark_filters.Filter]] = []
    for name, values, texts in LITERALS:
        path = tuple(name.split("."))
        quoted = ".".join(f"`{part}`" for part in path)
        found += [
            (f"{quoted} {operator} {text}", kind(path, value))
            for operator, kind in OPERATORS.items()
            for value, text in zip(values, texts, strict=True)
        ]
        found.append((f"{quoted} in ({', '.join(texts)})", spark_filters.In(path, tuple(values))))
        found.append((f"{quoted} is null", spark_filters.IsNull(path)))
        found.append((f"{quoted} <=> null", spark_filters.EqualNullSafe(path, None)))
    for part in ("", "a", "b%_\\", "日"):
        quoted = part.replace("\\", "\\\\")
        found += [
            (f"startswith(text, '{quoted}')", spark_filters.StringStartsWith(("text",), part)),
            (f"endswith(text, '{quoted}')", spark_filters.StringEndsWith(("text",), part)),
            (f"contains(word, '{quoted}')", spark_filters.StringContains(("word",), part)),
        ]
    found.append(("number in (5L, null)", spark_filters.In(("number",), (5, None))))
    return [
        *found,
        *((f"not ({text})", spark_filters.Not(item)) for text, item in found),
    ]


@pytest.mark.spark
def test_a_translated_filter_selects_the_rows_that_spark_selects(spark):
    shown = to_spark(DATA)

    def give(batches):
        for _ in batches:
            yield shown

    wanted = conditions()
    df = spark.range(0, 1, 1, 1).mapInArrow(give, spark_schema(DATA.schema))
    answers = df.select(*(expr(f"coalesce({text}, false) as c{n}") for n, (text, _) in enumerate(wanted)))
    by_spark = answers.toArrow()
    wrong = []
    for number, (text, item) in enumerate(wanted):
        pushed, left = push_filters([item], DATA.schema)
        assert not left, text
        ours = select(pushed[0], DATA)
        if ours.to_pylist() != by_spark.column(f"c{number}").to_pylist():
            wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize(
    "item",
    [
        spark_filters.EqualTo(("small",), 300),
        spark_filters.EqualTo(("single",), 0.1),
        spark_filters.LessThan(("price",), Decimal("1.111")),
        spark_filters.EqualTo(("nanos",), dt.datetime(3000, 1, 1, tzinfo=dt.UTC)),
        spark_filters.EqualTo(("nested",), {"in side": 1}),
        spark_filters.EqualTo(("TEXT",), "a"),
        spark_filters.EqualTo(("number",), "5"),
        spark_filters.StringContains(("raw",), "a"),
        spark_filters.In(("nanos",), (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None)),
        spark_filters.Not(spark_filters.EqualTo(("small",), 300)),
    ],
    ids=str,
)
def test_what_has_no_exact_translation_is_left_to_spark(item):
    known = spark_filters.IsNotNull(("small",))
    pushed, left = push_filters([item, known], DATA.schema)
    assert left == (item,)
    assert len(pushed) == 1


def test_filters_are_joined_by_and():
    items = [spark_filters.GreaterThan(("number",), 0), spark_filters.IsNotNull(("day",))]
    pushed, _ = push_filters(items, DATA.schema)
    assert all_of(pushed).to_sql() == "`number` > 0 AND day IS NOT NULL"
