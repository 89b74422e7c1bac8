"""Canonical SQL reads back as the same tree, whatever the names and constants."""

import datetime as dt
import decimal
import math
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.filter import Column, Literal, parse_filter
from lance_ops.filter.predicates import Comparison, InList, Like, Not
from tests.support.filters import FilterMaker, random_rows

ROWS = random_rows(random.Random(3), 10)


@pytest.mark.parametrize("depth", [0, 2])
def test_random_filters_read_back(depth):
    maker = FilterMaker(random.Random(f"render {depth}"))
    for _ in range(400):
        expression = parse_filter(maker.condition(depth), ROWS.schema)
        assert parse_filter(expression.to_sql(), ROWS.schema) == expression


@given(
    st.text(min_size=1).filter(lambda name: "\0" not in name), st.text().filter(lambda text: "\0" not in text)
)
def test_any_name_and_any_text_survive(name, text):
    schema = pa.schema([(name, pa.utf8()), ("st", pa.struct([(name, pa.utf8())]))])
    column = Column((name,), pa.utf8())
    for expression in (
        Comparison("=", column, Literal(text, pa.utf8())),
        InList(Column(("st", name), pa.utf8()), (text,)),
        Not(Like(column, Literal(text, pa.utf8()), ignore_case=True)),
    ):
        assert parse_filter(expression.to_sql(), schema) == expression


MOMENTS = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29))  # noqa: DTZ001 - of the type's zone


@st.composite
def literals(draw):
    kind = draw(
        st.sampled_from(
            [
                *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()),
                *(
                    pa.float32(),
                    pa.float64(),
                    pa.bool_(),
                    pa.binary(),
                    pa.binary(2),
                    pa.date32(),
                    pa.date64(),
                ),
                *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", "UTC")),
                *(pa.timestamp("s", "Europe/Paris"), pa.timestamp("ms", "+05:30"), pa.large_utf8()),
                *(pa.decimal128(12, 3), pa.decimal256(50, 4), pa.time32("ms"), pa.time64("ns")),
            ]
        )
    )
    name = str(kind)
    if "int" in name:
        low = 0 if name.startswith("u") else -(2 ** (kind.bit_width - 1))
        return draw(st.integers(low, low + 2**kind.bit_width - 1)), kind
    if name in ("float", "double"):
        return draw(st.floats(width=kind.bit_width, allow_nan=False)), kind
    if name == "bool":
        return draw(st.booleans()), kind
    if "binary" in name:
        size = 2 if "fixed" in name else None
        return draw(st.binary(min_size=size or 0, max_size=size or 9)), kind
    if "decimal" in name:
        return decimal.Decimal(draw(st.integers(-(10**12) + 1, 10**12 - 1))).scaleb(-kind.scale), kind
    if "time" in name and "timestamp" not in name:
        return draw(st.integers(0, 86_399)) * (1_000 if kind.bit_width == 32 else 1_000_000_007), kind
    if name == "large_string":
        return draw(st.text(alphabet="ab'\"`é\\")), kind
    days = draw(MOMENTS).toordinal() - dt.date(1970, 1, 1).toordinal()
    if "date" in name:
        return days * (1 if name.startswith("date32") else 86_400_000), kind
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000}[kind.unit]
    return days * 86_400 * per_second + draw(st.integers(0, 86_400 * per_second - 1)), kind


@given(literals(), st.sampled_from(["=", "<", ">=", "IS DISTINCT FROM"]))
def test_any_constant_survives(literal, op):
    value, kind = literal
    if str(kind).startswith("time64"):
        value %= 86_400_000_000_000
    schema = pa.schema([("x", kind)])
    column = Column(("x",), kind)
    for expression in (Comparison(op, column, Literal(value, kind)), InList(column, (value,), has_null=True)):
        back = parse_filter(expression.to_sql(), schema)
        assert back == expression, expression.to_sql()


@pytest.mark.parametrize(
    ("sql", "canonical"),
    [
        ("i8=1", "i8 = 1"),
        ("`My Col` > -1", "`My Col` > -1"),
        ("f32 = 0.1", "f32 = 0.10000000149011612"),
        ("i8 < 300", "i8 < CAST(300 AS BIGINT)"),
        ("NOT (i8 IN (1, NULL) OR s LIKE 'a%')", "i8 NOT IN (1, NULL) AND s NOT LIKE 'a%'"),
        ("(i8 = 1 OR b) AND NOT b IS NULL", "(i8 = 1 OR b) AND b IS NOT NULL"),
        ("(b IS TRUE) IS DISTINCT FROM b AND b", "((b IS TRUE) IS DISTINCT FROM b) AND b"),
        ("trim(s) = 'it''s'", "btrim(s) = 'it''s'"),
        ("substr(s, 2) = s || 'x'", "`substr`(s, 2) = (s || 'x')"),
        ("dec > 1.5", "`dec` > CAST('1.50' AS DECIMAL(10, 2))"),
        ("ts > '2020-01-01'", "ts > TIMESTAMP '2020-01-01 00:00:00'"),
        ("tms = '2020-01-01 00:00:00.5'", "tms = TIMESTAMP(3) '2020-01-01 00:00:00.500'"),
        ("CASE WHEN b THEN i8 END = 1", "coalesce(CASE WHEN b THEN i8 ELSE CAST(NULL AS TINYINT) END) = 1"),
        ("ts + INTERVAL '1 day' > ts", "(ts + coalesce(INTERVAL '1 days')) > ts"),
        ("f64 = CAST('nan' AS DOUBLE)", "f64 = CAST('nan' AS DOUBLE)"),
        ("i64 = -9223372036854775808", "i64 = CAST('-9223372036854775808' AS BIGINT)"),
        ("st['x'] = 1 AND l[1] = 2", "st.x = 1 AND l[1] = 2"),
        ("1 / 0 = i8", "(1 / 0) = i8"),
    ],
)
def test_the_form(sql, canonical):
    expression = parse_filter(sql, ROWS.schema)
    assert expression.to_sql() == str(expression) == canonical
    assert parse_filter(canonical, ROWS.schema) == expression


def test_a_time_that_the_clock_shows_twice_keeps_its_offset():
    # In New York 2020-11-01 01:30 comes at 05:30 and at 06:30 UTC.
    kind = pa.timestamp("s", "America/New_York")
    schema = pa.schema([("z", kind)])
    for utc in (
        dt.datetime(2020, 11, 1, 5, 30, tzinfo=dt.UTC),
        dt.datetime(2020, 11, 1, 6, 30, tzinfo=dt.UTC),
    ):
        expression = Comparison("=", Column(("z",), kind), Literal(int(utc.timestamp()), kind))
        assert parse_filter(expression.to_sql(), schema) == expression


def test_dates_beyond_the_calendar_are_written_as_numbers():
    schema = pa.schema([("d", pa.date32()), ("t", pa.timestamp("us"))])
    for name, kind, value in (("d", pa.date32(), 10_000_000), ("t", pa.timestamp("us"), 2**62)):
        expression = Comparison("<", Column((name,), kind), Literal(value, kind))
        assert parse_filter(expression.to_sql(), schema) == expression


def test_nan_and_infinity_have_a_spelling():
    schema = pa.schema([("f", pa.float32()), ("g", pa.float64())])
    for name in ("f", "g"):
        for text in ("nan", "inf", "-inf"):
            expression = parse_filter(f"{name} = CAST('{text}' AS DOUBLE)", schema)
            assert expression.right.type == schema.field(name).type
            assert parse_filter(expression.to_sql(), schema) == expression
    assert math.isnan(parse_filter("f = CAST('nan' AS DOUBLE)", schema).right.value)
