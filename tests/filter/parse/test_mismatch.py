"""Types that do not fit are refused where the filter is parsed, with the place and what to write."""

import re

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import PredicateError
from lance_ops.filter import parse_filter, parse_value
from lance_ops.filter.parse.mismatch import bare_date
from lance_ops.filter.parse.syntax import parse_syntax

SCHEMA = pa.schema(
    [
        *(
            ("id", pa.int64()),
            ("small", pa.int8()),
            ("price", pa.float32()),
            ("amount", pa.decimal128(10, 2)),
        ),
        *(("name", pa.utf8()), ("title", pa.large_utf8()), ("kind", pa.dictionary(pa.int32(), pa.utf8()))),
        *(("flag", pa.bool_()), ("d32", pa.date32()), ("d64", pa.date64()), ("at", pa.timestamp("ns"))),
        *(("clock", pa.time64("us")), ("data", pa.binary()), ("days", pa.list_(pa.date32()))),
    ]
)
NUMBERS = ("2024-05-01", "-1", "id", "CAST(2018 AS INT)")
FORMS = (
    *("{0} = {1}", "{1} = {0}", "{0} <> {1}", "{0} < {1}", "{1} >= {0}"),
    *("{0} IN ({1})", "{0} NOT IN (NULL, {1})", "{1} IN ({0}, NULL)"),
    *("{0} BETWEEN {1} AND {1}", "{1} BETWEEN {0} AND {0}"),
    *("{0} IS DISTINCT FROM {1}", "{0} IS NOT DISTINCT FROM {1}"),
    *("coalesce({0}, {1}) IS NULL", "nvl({1}, {0}) IS NULL", "ifnull({0}, {1}) IS NULL"),
    *("nvl2(flag, {0}, {1}) IS NULL", "nullif({0}, {1}) IS NULL", "greatest({0}, {1}) = {0}"),
    *("least({1}, {0}) = {0}", "make_array({0}, {1}) IS NULL", "array_has(make_array({0}), {1})"),
    *("CASE WHEN flag THEN {0} ELSE {1} END IS NULL", "CASE {0} WHEN {1} THEN flag END"),
    *("NOT ({0} = {1} OR flag)", "flag AND (name = 'a' OR {0} > {1})"),
)


@pytest.mark.parametrize("column", ["d32", "d64", "at", "clock"])
@pytest.mark.parametrize("form", FORMS)
def test_a_number_is_no_date_and_no_time(column, form):
    for number in NUMBERS:
        with pytest.raises(PredicateError, match="at character") as caught:
            parse_filter(form.format(column, number), SCHEMA)
        hint = str(caught.value.hint)
        assert "array_has(" in form or any(text in hint for text in ("DATE '", "TIMESTAMP '", "in quotes"))


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("name = 1", "the constant in quotes, or CAST(name AS BIGINT)"),
        ("1 < kind", "the constant in quotes, or CAST(kind AS BIGINT)"),
        ("title IN (1, 2)", "CAST(title AS BIGINT)"),
        ("name BETWEEN 1 AND 2", "CAST(name AS BIGINT)"),
        ("name > 2024-05-01", "CAST(name AS BIGINT)"),
        ("name = 1.5", "CAST(name AS DOUBLE)"),
        ("name = id", "CAST(name AS BIGINT)"),
        ("d32 = name", "CAST(name AS DATE)"),
        ("name <> DATE '2024-05-01'", "CAST(name AS DATE)"),
        ("nullif(name, 1) IS NULL", "CAST(name AS BIGINT)"),
        ("coalesce(name, id) IS NULL", "CAST(name AS BIGINT)"),
        ("coalesce(d32, name) IS NULL", "CAST(name AS DATE)"),
        ("id = '1'", "without quotes, or CAST('1' AS BIGINT)"),
        ("small IN (1, '2')", "CAST('2' AS TINYINT)"),
        ("price > '1.5'", "CAST('1.5' AS FLOAT)"),
        ("amount = '1.50'", "CAST('1.50' AS DECIMAL(10, 2))"),
        ("small + 1 = '2'", "CAST('2' AS BIGINT)"),
        ("flag = 'true'", "CAST"),
        ("flag = 1", "CAST(flag AS BIGINT)"),
        ("data = 'ab'", "hexadecimal"),
        ("name = x'6162'", "in quotes, or CAST(name AS BINARY)"),
    ],
)
def test_a_mismatch_names_the_place_and_the_cast(sql, hint):
    with pytest.raises(PredicateError, match="at character") as caught:
        parse_filter(sql, SCHEMA)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "sql",
    [
        *(
            "d32 > '2024-05-01'",
            "d64 IN ('2024-05-01', NULL)",
            "'12:30' < clock",
            "at BETWEEN '2024' || '-05-01' AND '2025-01-01'",
        ),
        *(
            "date_trunc('day', at) = '2024-05-01'",
            "coalesce(d32, '2024-05-01') = d32",
            "nullif(at, '2024-05-01') IS NULL",
        ),
        *(
            "d32 + 1 > DATE '2024-05-01'",
            "d32 - d32 > 3",
            "date_part('year', d32) > 2018",
            "CAST(d32 AS BIGINT) > 2018",
        ),
        *(
            "id = CAST('1' AS BIGINT)",
            "CAST(name AS BIGINT) = 1",
            "name = CAST(1 AS STRING)",
            "coalesce(id, '1') = 1",
        ),
        *(
            "small = 300",
            "amount = 1.5",
            "id > 2024-05-01",
            "name = data",
            "d32 = d64",
            "at > d32",
            "array_has(days, '2024-05-01')",
        ),
    ],
)
def test_what_fits_is_taken_and_its_canonical_form_means_the_same(sql):
    expression = parse_filter(sql, SCHEMA)
    assert parse_filter(expression.to_sql(), SCHEMA) == expression


@pytest.mark.parametrize(
    "sql",
    [
        *(
            "d32 > CAST(2024-05-01 AS DATE)",
            "d32 > TRY_CAST((2024-5-1) AS DATE)",
            "name > CAST(2024-05-01 AS STRING)",
        ),
        *(
            "at > CAST(2024-05-01 AS TIMESTAMP)",
            "d32 > arrow_cast(2024-05-01, 'Date32')",
            "d32 > to_date(2024-05-01)",
        ),
        *(
            "at > to_timestamp(2024-05-01)",
            "at > to_timestamp_millis(2024-05-01)",
            "at < from_unixtime(2024-05-01)",
        ),
    ],
)
def test_a_date_without_quotes_is_not_converted(sql):
    with pytest.raises(PredicateError, match="without quotes") as caught:
        parse_filter(sql, SCHEMA)
    assert caught.value.hint == "write '2024-05-01'"


@pytest.mark.parametrize("column", ["d32", "d64", "at", "clock", "name"])
def test_a_date_without_quotes_is_not_assigned(column):
    with pytest.raises(PredicateError, match="without quotes"):
        parse_value("2024-05-01", SCHEMA, SCHEMA.field(column).type)
    assert parse_value("2024-05-01", SCHEMA, pa.int32()).type == pa.int64()


@pytest.mark.parametrize(
    ("sql", "date"),
    [
        ("2024-05-01", "2024-05-01"),
        ("(2024 - 5) - 1", "2024-05-01"),
        *(("2024-05", None), ("2024-05-01-02", None), ("24-05-01", None), ("2024-005-01", None)),
        *(("2024-x-01", None), ("2024-5.5-1", None), ("'2024'-05-01", None), ("2024", None)),
    ],
)
def test_a_bare_date_is_a_subtraction_of_year_month_and_day(sql, date):
    assert bare_date(parse_syntax(sql).root) == date


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("index", [False, True])
def test_no_operation_reads_a_row_for_a_filter_whose_types_do_not_fit(tmp_path, rows, index):
    uri = str(tmp_path / "t.lance")
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "d": pa.array(range(rows), pa.int32()).cast(pa.date32()),
            "s": pa.array(["a"] * rows, pa.string()),
        }
    )
    lo.write_dataset(table, uri)
    if index:
        lo.create_index(uri, "d", "BTREE")
    version = lo.dataset(uri).version
    for sql in ("d > 2024-05-01", "s = 1"):
        for run in (
            lambda sql=sql: lo.dataset(uri).to_table(filter=sql),
            lambda sql=sql: lo.dataset(uri).count_rows(sql),
            lambda sql=sql: lo.dataset(uri).explain(filter=sql),
            lambda sql=sql: lo.delete(uri, sql),
            lambda sql=sql: lo.update(uri, {"id": "1"}, sql),
            lambda sql=sql: lo.replace_where(uri, table, sql),
            lambda sql=sql: lo.merge_insert(
                uri, table, on="id", when_matched="update_all", when_not_matched_by_source=sql
            ),
        ):
            with pytest.raises(PredicateError, match=re.escape("at character 1")):
                run()
    assert lo.dataset(uri).version == version
